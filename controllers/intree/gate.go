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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/takeover"
)

// Admit brings a check of Cluster API one step further on its way to us, or back. It says whether the check is handed to us now, and when
// to look again if nothing happens.
//
// Whatever is written rests on what an API server says at that moment, and is written to the version that said it.
func (a *Adoption) Admit(ctx context.Context, key client.ObjectKey, now time.Time) (admitted bool, wakeUp time.Time, err error) {
	core, cluster, err := a.read(ctx, a.Cache, key)
	if err != nil {
		return false, time.Time{}, err
	}
	facts := a.factsFor(core, cluster)
	leftOver, err := a.leftOver(ctx, a.Cache, core, facts)
	if err != nil {
		return false, time.Time{}, err
	}
	facts.Traces = facts.Traces || leftOver
	d := takeover.Decide(facts, "", now)
	if writes := d.Move != takeover.Act && d.Move != takeover.Leave && d.Move != takeover.Await; writes && a.Observe {
		// What is in our hands stays there, and nothing is begun for it; what is not stays where it is.
		return false, time.Time{}, a.tellWhose(ctx, core, now)
	} else if writes {
		if core, cluster, err = a.read(ctx, a.Live, key); err != nil {
			return false, time.Time{}, err
		}
		facts = a.factsFor(core, cluster)
		facts.Traces = facts.Traces || leftOver
		d = takeover.Decide(facts, string(uuid.NewUUID()), now)
	}
	if d.Move == takeover.Act || d.Memory.Replaced {
		// Also of one that another process has taken over. What is paused by others nothing is noted on.
		a.memories.acting(key, core.UID, &d.Memory)
	}
	return d.Move == takeover.Act, d.Until, a.follow(ctx, core, cluster, &d, now)
}

// follow does what was decided, and tells it.
func (a *Adoption) follow(
	ctx context.Context, core *clusterv1.MachineHealthCheck, cluster *clusterv1.Cluster, d *takeover.Decision, now time.Time,
) error {
	var left error
	if d.Move == takeover.Release {
		// Whatever could not be cleaned up must keep nobody from looking after the Machines. What tells on the check whose it was stays, so that
		// it is tried again; where somebody else has done it, and has taken that away, nothing is to be done again.
		if left = a.giveBack(ctx, core, cluster); left == nil {
			core, left = a.tellState(ctx, core, d.State, nil, now)
		}
		if left != nil && healthcheck.OnlyConflicts(left) {
			return left
		} else if left != nil {
			d.Move, d.Memory = takeover.Unpause, takeover.Memory{Instance: a.facts(core, cluster).Memory.Instance}
		}
	}
	moved, err := a.move(ctx, core, d)
	if err != nil {
		return err
	}
	_, err = a.tellState(ctx, moved, d.State, left, now)
	return utilerrors.NewAggregate([]error{left, err})
}

// tellWhose says of a check, with which nothing is done, in whose hands it is.
func (a *Adoption) tellWhose(ctx context.Context, core *clusterv1.MachineHealthCheck, now time.Time) error {
	state := takeover.Theirs
	if pauseOf(core) == takeover.OurPause {
		state = takeover.Ours
	}
	_, err := a.tellState(ctx, core, state, nil, now)
	return err
}

// Leave gives back what this instance has taken over, also before its last start. An instance that acts for it from now on takes it over
// anew.
func (a *Adoption) Leave(ctx context.Context, key client.ObjectKey, now time.Time) error {
	if a.Observe {
		return nil
	}
	core := &clusterv1.MachineHealthCheck{}
	if err := a.Cache.Get(ctx, key, core); err != nil || !a.took(core, a.WatchFilter) {
		if err == nil {
			// It is in other hands, if in any of ours.
			a.memories.forget(key)
		}
		return errors.Wrap(client.IgnoreNotFound(err), "failed to read the check")
	}
	core, cluster, err := a.read(ctx, a.Live, key)
	if err != nil || !a.took(core, a.WatchFilter) || a.Responsible(core) {
		return client.IgnoreNotFound(err)
	}
	facts := a.factsFor(core, cluster)
	// Also one that is about to go: nobody else may be there who would clean up before.
	facts.Wanted, facts.Deleting = false, false
	d := takeover.Decide(facts, "", now)
	return a.follow(ctx, core, cluster, &d, now)
}

// took says whether a check was taken over by an instance of this filter, or whether that was said of it. One that had none would act for
// this check as well, if it were still there.
func (*Adoption) took(object client.Object, filter string) bool {
	if noted := takeover.ParseMemory(object.GetAnnotations()[remedyv1.TakeOverIDAnnotation]); noted.ID != "" || noted.Instance != "" {
		return slices.Contains([]string{filter, ""}, noted.Instance)
	}
	said := meta.FindStatusCondition(object.(*clusterv1.MachineHealthCheck).Status.Conditions, remedyv1.TakenOverCondition)
	return said != nil && slices.Contains([]string{filter, ""}, explain.FilterOf(said))
}

// Forget drops what is remembered of a check that no longer exists.
func (a *Adoption) Forget(key client.ObjectKey) { a.memories.forget(key) }

// move makes the next move, if it is one that is written to the check.
func (a *Adoption) move(
	ctx context.Context, core *clusterv1.MachineHealthCheck, d *takeover.Decision,
) (*clusterv1.MachineHealthCheck, error) {
	after := core.DeepCopy()
	switch d.Move { //nolint:exhaustive // the others write nothing
	case takeover.Take:
		after.Annotations = withPause(after.Annotations)
		noteMemory(after, &d.Memory)
	case takeover.NoteLoss, takeover.Sign:
		noteMemory(after, &d.Memory)
	case takeover.Unpause:
		unpause(after)
		noteMemory(after, &d.Memory)
	case takeover.Release:
		unpause(after)
		letGo(after)
	default:
		return core, nil
	}
	if err := a.Client.Patch(ctx, after, client.MergeFromWithOptions(core, client.MergeFromWithOptimisticLock{})); apierrors.IsNotFound(err) {
		return core, nil
	} else if err != nil {
		return nil, errors.Wrap(err, "failed to write to the check")
	}
	a.memories.note(client.ObjectKeyFromObject(after), after.UID, &d.Memory)
	ctrl.LoggerFrom(ctx).Info("A step of a take-over", "did", moves[d.Move], "id", d.Memory.ID)
	return after, nil
}

// moves are how moves are called in the log.
var moves = map[takeover.Move]string{
	takeover.Take: "paused the check", takeover.NoteLoss: "noted that the pause was removed",
	takeover.Sign:    "noted that this instance is responsible",
	takeover.Unpause: "removed the pause", takeover.Release: "released the check",
}

// withPause is with the pause by which a check is handed to us.
func withPause(annotations map[string]string) map[string]string {
	paused := maps.Clone(annotations)
	if paused == nil {
		paused = map[string]string{}
	}
	paused[clusterv1.PausedAnnotation] = remedyv1.Pause
	return paused
}

func unpause(core *clusterv1.MachineHealthCheck) {
	if core.Annotations[clusterv1.PausedAnnotation] == remedyv1.Pause {
		delete(core.Annotations, clusterv1.PausedAnnotation)
	}
}

func noteMemory(core *clusterv1.MachineHealthCheck, memory *takeover.Memory) {
	if core.Annotations == nil {
		core.Annotations = map[string]string{}
	}
	core.Annotations[remedyv1.TakeOverIDAnnotation] = memory.Text()
	if memory.Empty() {
		delete(core.Annotations, remedyv1.TakeOverIDAnnotation)
	}
}

// traces says whether anything of ours is noted on a check, beside what people have put there.
func traces(core *clusterv1.MachineHealthCheck) bool {
	for key := range core.Annotations {
		if noted(key) {
			return true
		}
	}
	return meta.FindStatusCondition(core.Status.Conditions, remedyv1.TakenOverCondition) != nil
}

// noted says whether an annotation is one of our notes, and not a wish of a person.
func noted(key string) bool {
	return strings.HasPrefix(key, remedyv1.Prefix) && key != remedyv1.TakeOverAnnotation && key != remedyv1.RequestPluralsAnnotation
}

// letGo takes everything of ours off a check but what people have put there.
func letGo(core *clusterv1.MachineHealthCheck) {
	maps.DeleteFunc(core.Annotations, func(key, _ string) bool { return noted(key) })
	controllerutil.RemoveFinalizer(core, remedyv1.CleanupFinalizer)
}

// tellState says in a condition of our own who takes care of a check, and why something of ours is left of one that was given back. All
// others belong to whoever takes care.
func (a *Adoption) tellState(
	ctx context.Context, core *clusterv1.MachineHealthCheck, state takeover.State, left error, now time.Time,
) (*clusterv1.MachineHealthCheck, error) {
	us := explain.Instance{Filter: a.WatchFilter, Observes: a.Observe}
	told := us.TakenOver(state)
	if left != nil {
		told = us.NotCleanedUp(left)
	}
	if told == nil && meta.FindStatusCondition(core.Status.Conditions, remedyv1.TakenOverCondition) == nil {
		return core, nil
	}
	after := core.DeepCopy()
	if state != takeover.Ours {
		clusterapi.RemoveConditions(after, remedyv1.TakenOverCondition)
	}
	if told == nil {
		meta.RemoveStatusCondition(&after.Status.Conditions, remedyv1.TakenOverCondition)
	} else {
		told.ObservedGeneration = core.Generation
		told.LastTransitionTime = metav1.NewTime(now.UTC().Truncate(time.Second))
		meta.SetStatusCondition(&after.Status.Conditions, *told)
	}
	if equality.Semantic.DeepEqual(core.Status, after.Status) {
		return core, nil
	}
	err := a.Client.Status().Patch(ctx, after, clusterapi.StatusPatch(core, after))
	return after, errors.Wrap(client.IgnoreNotFound(err), "failed to write the status of the check")
}

// Holds reports whether a check was adopted by an instance of this filter.
func (a *Adoption) Holds(check client.Object) bool { return a.took(check, a.WatchFilter) }

// Changed reports whether the in-tree controller reports something else of the pause of a check.
func (*Adoption) Changed(before, after client.Object) bool {
	return pauseReportChanged(before.(*clusterv1.MachineHealthCheck), after.(*clusterv1.MachineHealthCheck))
}

func pauseReportChanged(before, after *clusterv1.MachineHealthCheck) bool {
	pausedBefore, unpausedBefore := pausedByTheirs(before.Status.Conditions)
	paused, unpaused := pausedByTheirs(after.Status.Conditions)
	return pausedBefore != paused || unpausedBefore != unpaused
}

// OwnsStatus reports whether the manager reports on a check and its Machines. One that is being deleted is cleaned up also where the
// in-tree controller has not left it to the manager, or not any more: until it no longer exists, that one reports.
func (a *Adoption) OwnsStatus(check *healthcheck.Check) bool {
	paused, _ := pausedByTheirs(check.Status.Conditions)
	return a.Exclusive || paused
}
