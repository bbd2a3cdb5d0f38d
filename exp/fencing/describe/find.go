// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// Target is the Node whose fences are described.
type Target struct {
	Node string
	// Machine is the name of its Machine; empty without one.
	Machine string
	// Cluster is its Cluster; empty for the cluster that is read.
	Cluster client.ObjectKey
	// Namespace is read if the user is not allowed to read all namespaces.
	Namespace string
}

// NewReader returns the cluster that a kubeconfig selects.
func NewReader(config *rest.Config) (client.Reader, error) {
	scheme := runtime.NewScheme()
	if err := fencingv1.AddToScheme(scheme); err != nil {
		return nil, errors.Wrap(err, "failed to register the API types")
	}
	reader, err := client.New(config, client.Options{Scheme: scheme})
	return reader, errors.Wrap(err, "failed to connect to the management cluster")
}

// Find describes the fences of a Node, first those that have not ended. unread is what could not be read.
func Find(ctx context.Context, reader client.Reader, t Target) (fences []Fence, unread string) {
	const notAllowed = "You are not allowed to list nodefences.remedy.cluster.x-k8s.io in "
	list, namespace := &fencingv1.NodeFenceList{}, t.Cluster.Namespace
	err := reader.List(ctx, list, client.InNamespace(namespace))
	if apierrors.IsForbidden(err) && namespace == "" {
		namespace = t.Namespace
		unread = notAllowed + "all namespaces: only fences of namespace " + namespace + " are printed"
		err = reader.List(ctx, list, client.InNamespace(namespace))
	}
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return nil, ""
	case apierrors.IsForbidden(err):
		return nil, notAllowed + "namespace " + namespace + ": fences are not printed"
	case err != nil:
		return nil, "NodeFences were not read: " + err.Error()
	}
	found := slices.DeleteFunc(list.Items, func(fence fencingv1.NodeFence) bool { return !t.isOf(&fence) })
	slices.SortStableFunc(found, func(a, b fencingv1.NodeFence) int {
		return cmp.Or(cmp.Compare(endedOrder(&a), endedOrder(&b)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time))
	})
	for i := range found {
		fences = append(fences, Of(&found[i], profileOf(ctx, reader, &found[i])))
	}
	return fences, unread
}

// isOf reports whether a NodeFence is for this Node, as the fencing manager finds it.
func (t Target) isOf(fence *fencingv1.NodeFence) bool {
	if bound := fence.Status.Node; bound != nil {
		return bound.Name == t.Node && bound.ClusterName == t.Cluster.Name
	}
	for _, owner := range fence.OwnerReferences {
		if owner.Kind == "Machine" && strings.HasPrefix(owner.APIVersion, clusterv1.GroupVersion.Group+"/") {
			return t.Machine != "" && owner.Name == t.Machine
		}
	}
	return cmp.Or(fence.Annotations[remedyv1.NodeNameAnnotation], fence.Name) == t.Node &&
		fence.Labels[clusterv1.ClusterNameLabel] == t.Cluster.Name
}

func endedOrder(fence *fencingv1.NodeFence) int {
	if fence.Status.Phase == fencingv1.PhaseFinal {
		return 1
	}
	return 0
}

// profileOf reads the profile of a fence; nil if it has none, or if the user is not allowed to read it. The levels are unknown then.
func profileOf(ctx context.Context, reader client.Reader, fence *fencingv1.NodeFence) *fencingv1.FenceProfile {
	if fence.Status.Node == nil {
		return nil
	}
	profile := &fencingv1.FenceProfile{}
	if reader.Get(ctx, client.ObjectKey{Namespace: fence.Namespace, Name: fence.Status.Node.ProfileName}, profile) != nil {
		return nil
	}
	return profile
}
