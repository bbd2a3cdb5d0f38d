// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"slices"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

const (
	// nodePage is how many Nodes are read at the same time, and nodeTimeout how long that can take.
	nodePage, nodeTimeout = 100, 10 * time.Second
	// suffix ends the name of the check of a profile. It has no more than one at a time, because their names are the same.
	suffix = "-device-check"
)

// Reconciler checks the devices of FenceProfiles.
type Reconciler struct {
	Client client.Client
	// Live reads without a cache.
	Live client.Reader
	// Nodes returns a client without a cache for the Nodes of a cluster.
	Nodes   func(ctx context.Context, cluster client.ObjectKey) (client.Client, error)
	Events  events.EventRecorder
	Metrics *Metrics
	Clock   clock.PassiveClock
	// Observe: no check begins.
	Observe bool
	// WatchFilter is the value of the watch label of the FenceProfiles to reconcile; empty for all.
	WatchFilter string
	// OwnNodesNamespace is the namespace whose FenceProfiles can select Nodes of the cluster of the manager.
	OwnNodesNamespace string
}

// Reconcile makes one decision for a profile. It reads live, because a cache could lack the last result, and a check would be repeated.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	p := &fencingv1.FenceProfile{}
	if err := r.Live.Get(ctx, request.NamespacedName, p); err != nil {
		if apierrors.IsNotFound(err) {
			r.Metrics.forget(request.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, errors.Wrapf(err, "failed to read FenceProfile %s", request)
	}
	if r.WatchFilter != "" && p.Labels[clusterv1.WatchLabel] != r.WatchFilter {
		return ctrl.Result{}, nil
	}
	check, err := r.present(ctx, p)
	if err != nil {
		return ctrl.Result{}, err
	}
	fenced, err := r.fenced(ctx, p)
	if err != nil {
		return ctrl.Result{}, err
	}
	now := r.Clock.Now()
	next := decide(p, check, fenced, now)
	if next.begin && next.node == "" {
		if next.node, err = r.selected(ctx, p, fenced); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to select a Node to check")
		}
		if next.node == "" {
			// The rows do not wait for it.
			rows := p.DeepCopy()
			rows.Spec.NodeSelector = nil
			next = decide(rows, nil, fenced, now)
			next.wake = now.Add(poll)
		}
	}
	if err := r.write(ctx, p, next.result); err != nil {
		return ctrl.Result{}, err
	}
	_, paused := p.Annotations[clusterv1.PausedAnnotation]
	switch {
	case next.end:
		// Its deletion leads to the next decision.
		err := r.Client.Delete(ctx, check, client.Preconditions{UID: &check.UID})
		return ctrl.Result{}, errors.Wrapf(client.IgnoreNotFound(err), "failed to delete NodeFence %s/%s", check.Namespace, check.Name)
	case next.begin && !r.Observe && !paused:
		return ctrl.Result{RequeueAfter: waitLimit}, r.begin(ctx, p, next.node)
	case next.wake.IsZero():
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: max(next.wake.Sub(now), time.Second)}, nil
}

// present returns the check of a profile; nil if there is none.
func (r *Reconciler) present(ctx context.Context, p *fencingv1.FenceProfile) (*fencingv1.NodeFence, error) {
	check, key := &fencingv1.NodeFence{}, client.ObjectKey{Namespace: p.Namespace, Name: p.Name + suffix}
	switch err := r.Live.Get(ctx, key, check); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // Usually there is none.
	case err != nil:
		return nil, errors.Wrapf(err, "failed to read NodeFence %s", key)
	case !metav1.IsControlledBy(check, p):
		return nil, errors.Errorf("NodeFence %s does not belong to FenceProfile %s: delete it, because its name is used for checks", key, p.Name)
	}
	return check, nil
}

// fenced returns the Nodes of the cluster of a profile that are being fenced.
func (r *Reconciler) fenced(ctx context.Context, p *fencingv1.FenceProfile) (map[string]bool, error) {
	fences, nodes := &fencingv1.NodeFenceList{}, map[string]bool{}
	if err := r.Client.List(ctx, fences, client.InNamespace(p.Namespace)); err != nil {
		return nil, errors.Wrapf(err, "failed to list the NodeFences of namespace %s", p.Namespace)
	}
	for i := range fences.Items {
		f := &fences.Items[i]
		ended := meta.IsStatusConditionFalse(f.Status.Conditions, remedyv1.ProcessingCondition)
		if node := f.Status.Node; f.Spec.Mode != fencingv1.CheckDevices && node != nil && node.ClusterName == p.Spec.ClusterName && !ended {
			nodes[node.Name] = true
		}
	}
	return nodes, nil
}

// write writes the result of a check, and removes those of Nodes that are not checked any more.
func (r *Reconciler) write(ctx context.Context, p *fencingv1.FenceProfile, result *fencingv1.CheckedNode) error {
	nodes := record(p, result)
	if !equality.Semantic.DeepEqual(nodes, p.Status.Nodes) {
		before := p.DeepCopy()
		p.Status.Nodes = nodes
		if err := r.Client.Status().Update(ctx, p); err != nil {
			return errors.Wrapf(err, "failed to write the status of FenceProfile %s/%s", p.Namespace, p.Name)
		}
		if result != nil {
			r.report(p, last(before, result.Name), result)
		}
	}
	r.Metrics.set(p)
	return nil
}

// report records an event for each device that became unreachable or reachable, and one if the machine became the wrong one.
func (r *Reconciler) report(p *fencingv1.FenceProfile, before, after *fencingv1.CheckedNode) {
	if before == nil {
		before = &fencingv1.CheckedNode{}
	}
	for i := range p.Spec.Methods {
		name := p.Spec.Methods[i].Name
		switch was, is := slices.Contains(before.Unreachable, name), slices.Contains(after.Unreachable, name); {
		case is && !was:
			r.Events.Eventf(p, nil, corev1.EventTypeWarning, "DeviceUnreachable", "Check",
				"The device of method %s did not answer for Node %s", name, after.Name)
		case was && !is:
			r.Events.Eventf(p, nil, corev1.EventTypeNormal, "DeviceReachable", "Check",
				"The device of method %s answered again for Node %s", name, after.Name)
		}
	}
	if after.Reason == lifecycle.ReasonWrongMachine && before.Reason != after.Reason {
		r.Events.Eventf(p, nil, corev1.EventTypeWarning, after.Reason, "Check", "%s", after.Message)
	}
}

// begin creates the check of a Node. Its end leads to the next decision.
func (r *Reconciler) begin(ctx context.Context, p *fencingv1.FenceProfile, node string) error {
	check := &fencingv1.NodeFence{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, Name: p.Name + suffix, Annotations: map[string]string{remedyv1.NodeNameAnnotation: node},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: fencingv1.GroupVersion.String(), Kind: "FenceProfile", Name: p.Name, UID: p.UID, Controller: ptr.To(true),
		}},
	}}
	check.Spec.Mode, check.Spec.ProfileName = fencingv1.CheckDevices, p.Name
	for label, value := range map[string]string{clusterv1.ClusterNameLabel: p.Spec.ClusterName, clusterv1.WatchLabel: r.WatchFilter} {
		if value != "" {
			metav1.SetMetaDataLabel(&check.ObjectMeta, label, value)
		}
	}
	return errors.Wrapf(r.Client.Create(ctx, check), "failed to create NodeFence %s/%s", check.Namespace, check.Name)
}

// selected returns the first Node that is Ready and that nodeSelector selects; empty if there is none.
func (r *Reconciler) selected(ctx context.Context, p *fencingv1.FenceProfile, fenced map[string]bool) (string, error) {
	cluster := workload.ManagementCluster
	if p.Spec.ClusterName != "" {
		cluster = client.ObjectKey{Namespace: p.Namespace, Name: p.Spec.ClusterName}
	} else if p.Namespace != r.OwnNodesNamespace {
		return "", nil
	}
	selector, err := p.Spec.NodeSelector.Labels()
	if err != nil {
		return "", errors.Wrapf(err, "failed to read nodeSelector of FenceProfile %s/%s", p.Namespace, p.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	api, err := r.Nodes(ctx, cluster)
	if err != nil {
		return "", errors.Wrapf(err, "failed to connect to the cluster of FenceProfile %s/%s", p.Namespace, p.Name)
	}
	for page := (&corev1.NodeList{}); ; {
		err := api.List(ctx, page, client.MatchingLabelsSelector{Selector: selector}, client.Limit(nodePage), client.Continue(page.Continue))
		if err != nil {
			return "", errors.Wrapf(err, "failed to list the Nodes of FenceProfile %s/%s", p.Namespace, p.Name)
		}
		for i := range page.Items {
			ready := slices.ContainsFunc(page.Items[i].Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			})
			if name := page.Items[i].Name; ready && !hasRow(p, name) && !fenced[name] {
				return name, nil
			}
		}
		if page.Continue == "" {
			return "", nil
		}
	}
}
