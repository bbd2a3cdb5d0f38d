// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package jobs builds the Job that performs an action of a device, and reads its result. It does not decide which action is next:
// exp/fencing/lifecycle does. Start with Build and Observe.
package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/pkg/errors"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

const (
	// FenceLabel on a Job and its Pod is the UID of the NodeFence.
	FenceLabel = "remedy.cluster.x-k8s.io/fence"
	// DeviceLabel on a Job and its Pod identifies the device. Only one Job at a time uses a device.
	DeviceLabel = "remedy.cluster.x-k8s.io/device"
	// MethodLabel on a Job and its Pod is the method of the FenceProfile.
	MethodLabel = "remedy.cluster.x-k8s.io/method"
	// ActionLabel on a Job and its Pod is the action.
	ActionLabel = "remedy.cluster.x-k8s.io/action"
	// ParametersAnnotation on a Pod has the parameters of the agent, a line for each, and the action as the last one.
	ParametersAnnotation = "remedy.cluster.x-k8s.io/parameters"

	folder = "/remedy"
	// unprivileged is the user and the group of agents.
	unprivileged = 65532
)

// Request is an action of a device.
type Request struct {
	Fence       types.NamespacedName
	FenceUID    types.UID
	ProfileName string
	Node        fencingv1.FencedNode
	Action      fencingv1.FenceAction
	// Method is a method of a profile.Plan.
	Method fencingv1.FenceMethod
	// AvoidNode is the Node that the Pod does not run on. It can be empty.
	AvoidNode string
}

// Name is the name of the Job of an action.
func Name(fence types.UID, sequence int32) string {
	return fmt.Sprintf("nf-%.8s-%d", fence, sequence)
}

// Device is the value of DeviceLabel. Methods of different Nodes have the same device if they have the same address.
func Device(profileName string, method fencingv1.FenceMethod) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", profileName, method.Name, method.Parameters["ip"]))
	return hex.EncodeToString(sum[:8])
}

// Build builds the Job of an action.
func Build(r Request) (*batchv1.Job, error) {
	if err := profile.Validate(&r.Method); err != nil {
		return nil, errors.Wrapf(err, "method %s cannot be used", r.Method.Name)
	}
	switches := []fencingv1.Action{fencingv1.ActionOn, fencingv1.ActionOff, fencingv1.ActionStatus}
	if !slices.Contains(switches, r.Action.Action) && (r.Action.Action != fencingv1.ActionRun || r.Method.PodTemplate == nil) {
		return nil, errors.Errorf("method %s does not have action %q", r.Method.Name, r.Action.Action)
	}
	labels := map[string]string{
		"app.kubernetes.io/name": "cluster-api-provider-remedy", "app.kubernetes.io/component": "fence-action",
		FenceLabel: string(r.FenceUID), DeviceLabel: Device(r.ProfileName, r.Method),
		MethodLabel: string(r.Method.Name), ActionLabel: string(r.Action.Action),
	}
	template, err := podTemplate(&r)
	if err != nil {
		return nil, errors.Wrapf(err, "method %s cannot be used", r.Method.Name)
	}
	template.Labels = merged(template.Labels, labels)
	template.Annotations = merged(template.Annotations, map[string]string{ParametersAnnotation: parameters(&r)})
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Fence.Namespace, Name: Name(r.FenceUID, r.Action.Sequence), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: fencingv1.GroupVersion.String(), Kind: "NodeFence", Name: r.Fence.Name, UID: r.FenceUID,
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false),
			}},
		},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1), BackoffLimit: ptr.To[int32](0),
			// A Job has failed only after its Pod has ended: no late "off" meets an "on". The deadline is that of the Job, because that of
			// a Pod does not end one that is not scheduled.
			PodReplacementPolicy:  ptr.To(batchv1.Failed),
			ActiveDeadlineSeconds: ptr.To(int64(math.Ceil(profile.Timeout(&r.Method).Seconds()))),
			Template:              *template,
		},
	}, nil
}

// parameters are lines for the agent. The action is the last one.
func parameters(r *Request) string {
	lines := &strings.Builder{}
	for _, key := range slices.Sorted(maps.Keys(r.Method.Parameters)) {
		fmt.Fprintf(lines, "%s=%s\n", key, r.Method.Parameters[key])
	}
	fmt.Fprintf(lines, "action=%s\n", r.Action.Action)
	return lines.String()
}

// merged returns both maps in one. The second one wins.
func merged(a, b map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}
