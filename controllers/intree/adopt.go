// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/uuid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/adoption"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
)

// Admit executes the next step of the adoption or release of an in-tree check. It releases a check that this instance has adopted and for
// which another instance is responsible now.
//
// Every write follows a live read, and fails if the check has changed since.
func (a *Adoption) Admit(ctx context.Context, key client.ObjectKey, now time.Time) (admitted bool, wakeUp time.Time, err error) {
	core, cluster, err := a.read(ctx, a.Cache, key)
	if err != nil {
		return false, time.Time{}, err
	}
	if !a.Responsible(core) {
		return false, time.Time{}, a.leave(ctx, core, now)
	}
	facts := a.factsFor(core, cluster)
	remains, err := a.remains(ctx, a.Cache, core, facts)
	if err != nil {
		return false, time.Time{}, err
	}
	facts.Traces = facts.Traces || remains
	d := adoption.Decide(facts, "", now)
	if writes := d.Move != adoption.Act && d.Move != adoption.Leave && d.Move != adoption.Await; writes && a.Observe {
		// A manager that only observes adopts and releases nothing.
		state := adoption.InTree
		if pauseOf(core) == adoption.RemedyPause {
			state = adoption.Adopted
		}
		_, err := a.writeAdopted(ctx, core, state, nil, now)
		return false, time.Time{}, err
	} else if writes {
		if core, cluster, err = a.read(ctx, a.Live, key); err != nil {
			return false, time.Time{}, err
		}
		facts = a.factsFor(core, cluster)
		facts.Traces = facts.Traces || remains
		d = adoption.Decide(facts, string(uuid.NewUUID()), now)
	}
	if d.Move == adoption.Act || d.Memory.Replaced {
		a.remember(core, &d.Memory)
	}
	return d.Move == adoption.Act, d.Until, a.execute(ctx, core, cluster, &d, now)
}

// execute executes a decision, and reports it.
func (a *Adoption) execute(
	ctx context.Context, core *clusterv1.MachineHealthCheck, cluster *clusterv1.Cluster, d *adoption.Decision, now time.Time,
) error {
	var failed error
	if d.Move == adoption.Release {
		// If the cleanup fails, the pause is removed nevertheless, because the in-tree controller must monitor the Machines. The name of the
		// instance stays, so the cleanup is retried; unless another process has completed it and removed the name.
		if failed = a.release(ctx, core, cluster); failed == nil {
			core, failed = a.writeAdopted(ctx, core, d.State, nil, now)
		}
		if failed != nil && healthcheck.OnlyConflicts(failed) {
			return failed
		} else if failed != nil {
			d.Move, d.Memory = adoption.Unpause, adoption.Memory{Instance: a.facts(core, cluster).Memory.Instance}
		}
	}
	moved, err := a.move(ctx, core, d)
	if err != nil {
		return err
	}
	_, err = a.writeAdopted(ctx, moved, d.State, failed, now)
	return utilerrors.NewAggregate([]error{failed, err})
}

// leave releases a check that this instance has adopted, also before its last start. The instance that is responsible for it now adopts it
// again.
func (a *Adoption) leave(ctx context.Context, cached *clusterv1.MachineHealthCheck, now time.Time) error {
	if a.Observe {
		return nil
	}
	if !a.HasAdopted(cached) {
		a.memories.Delete(client.ObjectKeyFromObject(cached))
		return nil
	}
	core, cluster, err := a.read(ctx, a.Live, client.ObjectKeyFromObject(cached))
	if err != nil || !a.HasAdopted(core) || a.Responsible(core) {
		return client.IgnoreNotFound(err)
	}
	facts := a.factsFor(core, cluster)
	// A check that is being deleted is released as well: the instance that would clean it up may not run.
	facts.Wanted, facts.Deleting = false, false
	d := adoption.Decide(facts, "", now)
	return a.execute(ctx, core, cluster, &d, now)
}

// HasAdopted reports whether a check was adopted, or got the condition Adopted, by an instance with the same --watch-filter. An instance
// without one would be responsible for this check as well, if it still ran.
func (a *Adoption) HasAdopted(check client.Object) bool {
	instance := adoption.ParseMemory(check.GetAnnotations()[remedyv1.AdoptionIDAnnotation]).Instance
	return instance != "" && (instance == a.WatchFilter || instance == adoption.Unfiltered)
}

// Forget drops what is remembered of a check that no longer exists.
func (a *Adoption) Forget(key client.ObjectKey) { a.memories.Delete(key) }

// move writes the next step of an adoption or release to the check, if it needs a write.
func (a *Adoption) move(
	ctx context.Context, core *clusterv1.MachineHealthCheck, d *adoption.Decision,
) (*clusterv1.MachineHealthCheck, error) {
	after := core.DeepCopy()
	switch d.Move { //nolint:exhaustive // the others write nothing
	case adoption.Adopt:
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, clusterv1.PausedAnnotation, remedyv1.Pause)
		setMemory(after, &d.Memory)
	case adoption.NoteLoss, adoption.Record:
		setMemory(after, &d.Memory)
	case adoption.Unpause:
		unpause(after)
		setMemory(after, &d.Memory)
	case adoption.Release:
		unpause(after)
		removeAnnotations(after)
	default:
		return core, nil
	}
	err := a.Client.Patch(ctx, after, client.MergeFromWithOptions(core, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) {
		return core, nil
	} else if err != nil {
		return nil, errors.Wrap(err, "failed to patch the check")
	}
	if d.Memory.Empty() {
		a.memories.Delete(client.ObjectKeyFromObject(after))
	} else {
		a.remember(after, &d.Memory)
	}
	ctrl.LoggerFrom(ctx).Info("Executed a step of an adoption", "step", moves[d.Move], "id", d.Memory.ID)
	return after, nil
}

// moves are the descriptions of steps in the log.
var moves = map[adoption.Move]string{
	adoption.Adopt: "paused the check", adoption.NoteLoss: "recorded that the pause was removed",
	adoption.Record:  "recorded that this instance is responsible",
	adoption.Unpause: "removed the pause", adoption.Release: "released the check",
}

func unpause(core *clusterv1.MachineHealthCheck) {
	if pauseOf(core) == adoption.RemedyPause {
		delete(core.Annotations, clusterv1.PausedAnnotation)
	}
}

func setMemory(core *clusterv1.MachineHealthCheck, memory *adoption.Memory) {
	core.Annotations, _ = notes.Notes{remedyv1.AdoptionIDAnnotation: memory.Text()}.Apply(core.Annotations)
}

// hasRemains reports whether the manager has written annotations or conditions to a check.
func hasRemains(core *clusterv1.MachineHealthCheck) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(core.Annotations)), writtenByManager) ||
		meta.FindStatusCondition(core.Status.Conditions, remedyv1.AdoptedCondition) != nil
}

// writtenByManager reports whether the manager sets an annotation. Users set the others.
func writtenByManager(key string) bool {
	return strings.HasPrefix(key, remedyv1.Prefix) && key != remedyv1.AdoptAnnotation && key != remedyv1.RequestPluralsAnnotation
}

// removeAnnotations removes everything that the manager has written to the metadata of a check.
func removeAnnotations(core *clusterv1.MachineHealthCheck) {
	maps.DeleteFunc(core.Annotations, func(key, _ string) bool { return writtenByManager(key) })
	controllerutil.RemoveFinalizer(core, remedyv1.CleanupFinalizer)
}

// writeAdopted sets the condition Adopted: which controller is responsible for a check, or why the cleanup of a released check failed.
// The responsible controller sets all other conditions.
func (a *Adoption) writeAdopted(
	ctx context.Context, core *clusterv1.MachineHealthCheck, state adoption.State, failed error, now time.Time,
) (*clusterv1.MachineHealthCheck, error) {
	instance := explain.Instance{Filter: a.WatchFilter, Observes: a.Observe}
	condition := instance.Adopted(state)
	if failed != nil {
		condition = instance.NotCleanedUp(failed)
	}
	if condition == nil && meta.FindStatusCondition(core.Status.Conditions, remedyv1.AdoptedCondition) == nil {
		return core, nil
	}
	after := withAdopted(core, state, condition, now)
	if equality.Semantic.DeepEqual(core.Status, after.Status) {
		return core, nil
	}
	// The event of an annotation may come before that of the status, which the last reconcile has written: the cache lacks it then.
	live := &clusterv1.MachineHealthCheck{}
	if err := a.Live.Get(ctx, client.ObjectKeyFromObject(core), live); err == nil &&
		equality.Semantic.DeepEqual(live.Status, withAdopted(live, state, condition, now).Status) {
		return core, nil
	}
	err := a.Client.Status().Patch(ctx, after, clusterapi.StatusPatch(core, after))
	return after, errors.Wrap(client.IgnoreNotFound(err), "failed to write the status of the check")
}

// withAdopted returns a check with the condition Adopted, or without it if that is nil.
func withAdopted(
	core *clusterv1.MachineHealthCheck, state adoption.State, condition *metav1.Condition, now time.Time,
) *clusterv1.MachineHealthCheck {
	after := core.DeepCopy()
	if state != adoption.Adopted {
		clusterapi.RemoveConditions(after, remedyv1.AdoptedCondition)
	}
	if condition == nil {
		meta.RemoveStatusCondition(&after.Status.Conditions, remedyv1.AdoptedCondition)
	} else {
		condition.ObservedGeneration = core.Generation
		condition.LastTransitionTime = metav1.NewTime(now.UTC().Truncate(time.Second))
		meta.SetStatusCondition(&after.Status.Conditions, *condition)
	}
	return after
}

// Changed reports whether the in-tree controller has changed its report of the pause of a check.
func (*Adoption) Changed(before, after client.Object) bool {
	return pauseReportChanged(before.(*clusterv1.MachineHealthCheck), after.(*clusterv1.MachineHealthCheck))
}

func pauseReportChanged(before, after *clusterv1.MachineHealthCheck) bool {
	pausedBefore, unpausedBefore := reportedPause(before.Status.Conditions)
	paused, unpaused := reportedPause(after.Status.Conditions)
	return pausedBefore != paused || unpausedBefore != unpaused
}

// OwnsStatus reports whether the manager writes the status of a check and the conditions of its Machines. Until the in-tree controller has
// paused, it writes them, also for a check that is being deleted.
func (a *Adoption) OwnsStatus(check *healthcheck.Check) bool {
	paused, _ := reportedPause(check.Status.Conditions)
	return a.Replace || paused
}
