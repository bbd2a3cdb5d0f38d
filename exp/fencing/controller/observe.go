// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/jobs"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// nodeTimeout is how long reading the Nodes of a cluster can take.
const nodeTimeout = 10 * time.Second

// disruptionTaints are the taints of autoscalers on Nodes that they delete.
var disruptionTaints = []string{"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"}

// observed is an observation, and what effects need of it.
type observed struct {
	lifecycle.Observation
	target *target
	// failure is why the last effect was not performed; empty if it was.
	failure string
	// node and nodes are nil if the Node was not read.
	node  *corev1.Node
	nodes client.Client
	// pods are the Pods of the Node that the decision is about.
	pods []corev1.Pod
	// jobUID is that of the Job of the last action.
	jobUID types.UID
}

// observe reads everything for one decision. shared is nil unless the limits are evaluated.
func (r *Reconciler) observe(ctx context.Context, fence *fencingv1.NodeFence, t *target, shared *nodeCounts) (*observed, error) {
	_, stopped := fence.Annotations[remedyv1.TimedOutAnnotation]
	_, canceled := fence.Annotations[fencingv1.CancelAnnotation]
	_, paused := fence.Annotations[clusterv1.PausedAnnotation]
	_, blockMove := fence.Annotations[fencingv1.BlockMoveAnnotation]
	o := &observed{target: t, Observation: lifecycle.Observation{
		Spec: &fence.Spec, UID: fence.UID, Deleting: !fence.DeletionTimestamp.IsZero(), Canceled: stopped || canceled,
		Finalizer: slices.Contains(fence.Finalizers, fencingv1.FenceFinalizer), BlockMove: blockMove,
		Finished: fence.Annotations[fencingv1.FinishedAnnotation], Paused: t.paused || paused, Observe: r.Observe, TargetGone: t.gone,
		Problem: t.problem, ConfirmedOff: types.UID(fence.Annotations[fencingv1.ConfirmOffAnnotation]),
	}}
	if failure, has := r.failures.Load(client.ObjectKeyFromObject(fence)); has {
		o.failure, _ = failure.(string)
	}
	r.readNode(ctx, o)
	if err := r.readPlan(ctx, fence, o); err != nil {
		return nil, err
	}
	r.readWorkload(ctx, fence, o)
	if shared != nil && o.Node.State == lifecycle.NodePresent {
		shared.observe(ctx, o, r.Clock.Now())
	}
	return o, r.readJobs(ctx, fence, o)
}

// readNode reads the Node live. A Node of a Cluster that no longer exists does not exist.
func (r *Reconciler) readNode(ctx context.Context, o *observed) {
	t := o.target
	o.Node = lifecycle.Node{Name: t.node}
	if t.clusterGone {
		o.Node.State = lifecycle.NodeGone
		return
	}
	if t.node == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	api, err := r.Nodes(ctx, t.cluster)
	if err != nil {
		o.Unreadable = workload.CauseOf(err)
		return
	}
	node := &corev1.Node{}
	switch err := api.Get(ctx, client.ObjectKey{Name: t.node}, node); {
	case apierrors.IsNotFound(err):
		o.Node.State = lifecycle.NodeGone
		return
	case err != nil:
		o.Unreadable = "Node " + t.node + " cannot be read"
		return
	}
	o.node, o.nodes = node, api
	o.Node = nodeFacts(node, o.UID)
	o.Node.ClusterName, o.Node.MachineName = t.cluster.Name, t.machine
	switch {
	case o.Problem != nil:
	case t.nodeUID != "" && t.nodeUID != node.UID:
		o.Problem = &profile.Problem{Reason: lifecycle.ReasonNodeReplaced, Message: "Node " + t.node + " was replaced after the fence was " +
			"requested (UID " + string(t.nodeUID) + "): delete the NodeFence"}
	case t.providerID != "" && node.Spec.ProviderID != "" && node.Spec.ProviderID != t.providerID:
		o.Problem = &profile.Problem{
			Reason: profile.ReasonProviderIDMismatch, Message: "Node " + t.node + " does not have the provider ID of its Machine",
		}
	}
	if t.providerID != "" {
		o.Node.ProviderID = t.providerID
	}
}

// nodeFacts are what a fence needs of a Node. If it has the taints of several fences, that of another fence counts.
func nodeFacts(node *corev1.Node, fence types.UID) lifecycle.Node {
	facts := lifecycle.Node{
		State: lifecycle.NodePresent, Name: node.Name, UID: node.UID, ProviderID: node.Spec.ProviderID, BootID: node.Status.NodeInfo.BootID,
		Ready: corev1.ConditionUnknown, Conditions: map[string]corev1.ConditionStatus{}, ControlPlane: isControlPlane(node),
	}
	for _, condition := range node.Status.Conditions {
		facts.Conditions[string(condition.Type)] = condition.Status
	}
	if ready, has := facts.Conditions[string(corev1.NodeReady)]; has {
		facts.Ready = ready
	}
	for _, taint := range node.Spec.Taints {
		own := taint.Value == string(fence)
		switch {
		case taint.Key == fencingv1.FencingTaint:
			if value := cmp.Or(taint.Value, "unknown"); facts.Fence == "" || facts.Fence == string(fence) || !own && value < facts.Fence {
				facts.Fence = value
			}
			facts.Marked = facts.Marked || own
			facts.Evicts = facts.Evicts || own && taint.Effect == corev1.TaintEffectNoExecute
		case taint.Key == corev1.TaintNodeOutOfService:
			facts.OutOfService = true
			facts.ReleaseTaint = facts.ReleaseTaint || taint.MatchTaint(&outOfService) && taint.Value == outOfService.Value
		case slices.Contains(disruptionTaints, taint.Key):
			facts.Disruption = taint.Key
		}
	}
	return facts
}

func isControlPlane(node *corev1.Node) bool {
	return slices.ContainsFunc(workload.ControlPlaneLabels[:], func(label string) bool {
		_, has := node.Labels[label]
		return has
	})
}

// readPlan resolves the profile. A fence that has begun keeps the profile that it began with.
func (r *Reconciler) readPlan(ctx context.Context, fence *fencingv1.NodeFence, o *observed) error {
	bound := fence.Status.Node
	if o.Problem != nil || bound == nil && o.node == nil {
		return nil
	}
	profiles, options := &fencingv1.FenceProfileList{}, []client.ListOption{client.InNamespace(fence.Namespace)}
	if bound != nil {
		options = append(options, client.MatchingFields{metav1.ObjectNameField: bound.ProfileName})
	}
	if err := r.Live.List(ctx, profiles, options...); err != nil {
		if !isMalformed(ctx, err) {
			return errors.Wrap(err, "failed to list FenceProfiles")
		}
		o.Problem = &profile.Problem{Reason: profile.ReasonNotResolved, Message: "a FenceProfile of the namespace cannot be read; correct its " +
			"podTemplate: " + err.Error()}
		return nil
	}
	spec, node := fence.Spec.DeepCopy(), profile.Node{
		Name: o.target.node, ProviderID: o.Node.ProviderID, Vouched: o.target.cluster == workload.ManagementCluster || o.target.machine != "",
	}
	if o.node != nil {
		node.Labels = o.node.Labels
	}
	if bound != nil {
		spec.ProfileName, node.Bound, node.Row = bound.ProfileName, true, bound.Row
		node.Vouched = node.Vouched || bound.MachineName != ""
		node.ProviderID = cmp.Or(node.ProviderID, bound.ProviderID)
	}
	o.Plan, o.Problem = profile.Resolve(spec, o.target.cluster.Name, node, profiles.Items)
	return nil
}

// isMalformed reports whether the API server has answered with an object that cannot be decoded: admission does not read a podTemplate.
func isMalformed(ctx context.Context, err error) bool {
	var status apierrors.APIStatus
	var network *url.Error
	cut := strings.HasPrefix(err.Error(), "unexpected error when reading response body")
	return ctx.Err() == nil && !cut && !errors.As(err, &status) && !errors.As(err, &network)
}

// readJobs reads the Job of the last action live, and which devices other Jobs use.
func (r *Reconciler) readJobs(ctx context.Context, fence *fencingv1.NodeFence, o *observed) error {
	if action := fence.Status.Action; action != nil && !action.Ended {
		job := &batchv1.Job{}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: fence.Namespace, Name: jobs.Name(fence.UID, action.Sequence)}, job)
		switch {
		case apierrors.IsNotFound(err):
			job = nil
		case err != nil:
			return errors.Wrap(err, "failed to read the Job of the fence")
		case !ownedBy(job, fence):
			// It cannot be created, so its result is unknown.
			job = nil
		}
		pods := &corev1.PodList{}
		if job != nil {
			o.jobUID = job.UID
			err := r.Live.List(ctx, pods, client.InNamespace(fence.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name})
			if err != nil {
				return errors.Wrapf(err, "failed to list the Pods of Job %s/%s", job.Namespace, job.Name)
			}
		}
		o.Job = jobs.Observe(job, pods.Items)
	}
	if o.Plan == nil {
		return nil
	}
	others := &batchv1.JobList{}
	if err := r.Client.List(ctx, others, client.InNamespace(fence.Namespace), client.HasLabels{jobs.DeviceLabel}); err != nil {
		return errors.Wrap(err, "failed to list the Jobs of devices")
	}
	used := map[string]bool{}
	for i := range others.Items {
		if job := &others.Items[i]; !ownedBy(job, fence) && !jobs.Observe(job, nil).Finished {
			used[job.Labels[jobs.DeviceLabel]] = true
		}
	}
	o.Busy = map[fencingv1.MethodName]bool{}
	for name, method := range o.Plan.Methods {
		o.Busy[name] = used[jobs.Device(o.Plan.ProfileName, method)]
	}
	return nil
}

func ownedBy(job *batchv1.Job, fence *fencingv1.NodeFence) bool {
	for _, owner := range job.OwnerReferences {
		if owner.UID == fence.UID {
			return true
		}
	}
	return false
}
