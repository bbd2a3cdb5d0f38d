// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// watches know which checks a change concerns. They read nothing but caches.
type watches struct {
	checks Checks
	cache  client.Reader
	told   func(check types.NamespacedName)
}

// actsFor says whether a check is one that this instance acts for.
func (r *Reconciler) actsFor(check client.Object) bool {
	return r.WatchFilter == "" || check.GetLabels()[clusterv1.WatchLabel] == r.WatchFilter
}

// concerns says whether a check is one that this instance acts for, or still has in its hands.
func (r *Reconciler) concerns(check client.Object) bool {
	return r.actsFor(check) || r.Checks.took(check, r.WatchFilter)
}

// ofItself: what happens to a check that this instance acts for, or has acted for. Once in a while each of them is looked at without any news.
func (r *Reconciler) ofItself() predicate.Predicate {
	changed := func(check client.Object) bool {
		r.records.event(client.ObjectKeyFromObject(check), true, r.Clock.Now())
		return true
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			return r.concerns(e.Object) && (e.IsInInitialList || changed(e.Object))
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			switch {
			case !r.concerns(e.ObjectNew) && !r.concerns(e.ObjectOld):
				return false
			case e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion():
				return true
			}
			return (metadataChanged(e) || theirWordChanged(e)) && changed(e.ObjectNew)
		},
		DeleteFunc: func(e event.DeleteEvent) bool { return r.concerns(e.Object) && changed(e.Object) },
	}
}

// rivalMeansSomething leaves out what no other check reads: what a check notes on itself is its own affair. All checks of a Cluster would look
// whenever one of them begins anything.
var rivalMeansSomething = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || !e.ObjectOld.GetDeletionTimestamp().Equal(e.ObjectNew.GetDeletionTimestamp()) ||
		theirWordChanged(e) || handingChanged(e)
}}

// nodeCheckMeansSomething: of a check of Nodes, its status alone tells which of them it is at, and so what it keeps from others.
var nodeCheckMeansSomething = predicate.Or[client.Object](rivalMeansSomething, predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*remedyv1.NodeHealthCheck), e.ObjectNew.(*remedyv1.NodeHealthCheck)
	return !maps.EqualFunc(before.Status.InFlightRemediations, after.Status.InFlightRemediations, func(_, _ metav1.Time) bool { return true })
}})

// theirWordChanged: Cluster API's own controller says something else of the pause of a check.
func theirWordChanged(e event.UpdateEvent) bool {
	before, is := e.ObjectOld.(*clusterv1.MachineHealthCheck)
	if !is {
		return false
	}
	pausedBefore, unpausedBefore := pausedByTheirs(before.Status.Conditions)
	paused, unpaused := pausedByTheirs(e.ObjectNew.(*clusterv1.MachineHealthCheck).Status.Conditions)
	return pausedBefore != paused || unpausedBefore != unpaused
}

// handingChanged: a check of Cluster API may belong to somebody else than before.
func handingChanged(e event.UpdateEvent) bool {
	before, is := e.ObjectOld.(*clusterv1.MachineHealthCheck)
	after := e.ObjectNew
	return is && (pauseOf(before) != pauseOf(after.(*clusterv1.MachineHealthCheck)) ||
		before.Annotations[remedyv1.TakeOverAnnotation] != after.GetAnnotations()[remedyv1.TakeOverAnnotation])
}

func metadataChanged(e event.UpdateEvent) bool {
	a, b := e.ObjectOld, e.ObjectNew
	return a.GetGeneration() != b.GetGeneration() || !maps.Equal(a.GetLabels(), b.GetLabels()) || !maps.Equal(a.GetAnnotations(), b.GetAnnotations()) ||
		!a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp()) || !slices.Equal(a.GetFinalizers(), b.GetFinalizers())
}

// clusterMeansSomething: a pause, a deletion, and what Machines wait for.
var clusterMeansSomething = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*clusterv1.Cluster), e.ObjectNew.(*clusterv1.Cluster)
	return metadataChanged(e) || conditionChanged(before, after, clusterv1.ClusterControlPlaneInitializedCondition) ||
		conditionChanged(before, after, clusterv1.ClusterInfrastructureReadyCondition)
}}

func conditionChanged(before, after *clusterv1.Cluster, kind string) bool {
	a, b := meta.FindStatusCondition(before.Status.Conditions, kind), meta.FindStatusCondition(after.Status.Conditions, kind)
	return (a == nil) != (b == nil) || a != nil && (a.Status != b.Status || !a.LastTransitionTime.Equal(&b.LastTransitionTime))
}

// machineMeansSomething leaves out what no rule sees. What we write ourselves is no news to us.
var machineMeansSomething = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*clusterv1.Machine), e.ObjectNew.(*clusterv1.Machine)
	return metadataChanged(e) || before.Status.NodeRef.Name != after.Status.NodeRef.Name || failure(before) != failure(after) ||
		!slices.EqualFunc(before.OwnerReferences, after.OwnerReferences, func(a, b metav1.OwnerReference) bool { return a.UID == b.UID }) ||
		!slices.EqualFunc(before.Status.Conditions, after.Status.Conditions, sameCondition) || olderAnswer(before) != olderAnswer(after)
}}

// sameCondition compares what is read of a condition.
func sameCondition(a, b metav1.Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.LastTransitionTime.Equal(&b.LastTransitionTime)
}

// ofMachine: who looks after a Machine, or did before, and who has left something on it.
func (w *watches) ofMachine() handler.EventHandler {
	return onEach(func(ctx context.Context, o client.Object) []reconcile.Request {
		m := o.(*clusterv1.Machine)
		marked := notes.Author(m.Annotations)
		return w.checksOf(ctx, m.Namespace, m.Spec.ClusterName, func(check *remedyv1.MachineHealthCheck) bool {
			return author(check) == marked || selects(check, m.Labels)
		})
	})
}

func selects(check *remedyv1.MachineHealthCheck, has map[string]string) bool {
	selector, err := check.Spec.Selector.Labels()
	return err == nil && selector.Matches(labels.Set(has))
}

// ofCluster: every check of a Cluster.
func (w *watches) ofCluster() handler.EventHandler {
	return onEach(func(ctx context.Context, o client.Object) []reconcile.Request {
		return w.checksOf(ctx, o.GetNamespace(), o.GetName(), every)
	})
}

// siblings: the other checks of the same Cluster, as one can take care of what another one lets go of.
func (w *watches) siblings() handler.EventHandler {
	return onEach(func(ctx context.Context, o client.Object) []reconcile.Request {
		cluster := ""
		switch check := o.(type) {
		case *remedyv1.MachineHealthCheck:
			cluster = check.Spec.ClusterName
		case *clusterv1.MachineHealthCheck:
			cluster = check.Spec.ClusterName
		}
		return w.checksOf(ctx, o.GetNamespace(), cluster, every)
	})
}

// nodeChecks: a check of the Nodes of the same Cluster.
func (w *watches) nodeChecks() handler.EventHandler {
	return onEach(func(ctx context.Context, o client.Object) []reconcile.Request {
		if ref := o.(*remedyv1.NodeHealthCheck).Spec.ClusterRef; ref != nil {
			return w.checksOf(ctx, ref.Namespace, ref.Name, every)
		}
		return nil
	})
}

func (w *watches) ofConnection(ctx context.Context, cluster client.ObjectKey) []reconcile.Request {
	return w.checksOf(ctx, cluster.Namespace, cluster.Name, every)
}

// ofNode: who looks after the Machine of a Node. A Node that nobody refers to yet may be the one that a Machine waits for.
func (w *watches) ofNode(ctx context.Context, change workload.NodeChange) []reconcile.Request {
	if change.Cluster == workload.Home {
		return nil
	}
	machines := &clusterv1.MachineList{}
	err := w.cache.List(ctx, machines, client.InNamespace(change.Cluster.Namespace), client.MatchingFields{byNode: nodeKey(change.Cluster.Name, change.Name)}, client.UnsafeDisableDeepCopy)
	if err != nil || len(machines.Items) == 0 {
		return w.checksOf(ctx, change.Cluster.Namespace, change.Cluster.Name, every)
	}
	return w.checksOf(ctx, change.Cluster.Namespace, change.Cluster.Name, func(check *remedyv1.MachineHealthCheck) bool {
		for i := range machines.Items {
			if selects(check, machines.Items[i].Labels) {
				return true
			}
		}
		return false
	})
}

func every(*remedyv1.MachineHealthCheck) bool { return true }

// checksOf are the checks of a Cluster that a change concerns.
func (w *watches) checksOf(ctx context.Context, namespace, cluster string, concerned func(*remedyv1.MachineHealthCheck) bool) []reconcile.Request {
	checks, err := w.checks.of(ctx, w.cache, client.ObjectKey{Namespace: namespace, Name: cluster})
	if err != nil {
		return nil
	}
	var found []reconcile.Request
	for _, check := range checks {
		if key := client.ObjectKeyFromObject(check); concerned(check) {
			w.told(key)
			found = append(found, reconcile.Request{NamespacedName: key})
		}
	}
	return found
}

// onEach asks about an object as it is and, at a change, as it was: who looked after it before has to know as well.
func onEach(concerned func(ctx context.Context, o client.Object) []reconcile.Request) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, q queue, objects ...client.Object) {
		for _, o := range objects {
			for _, request := range concerned(ctx, o) {
				q.Add(request)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { add(ctx, q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, q, e.Object) },
	}
}

// olderAnswer is what an owner that knows the older generation of conditions only has to say.
func olderAnswer(m *clusterv1.Machine) string { return report.OlderReason(m, explain.OwnerRemediated) }
