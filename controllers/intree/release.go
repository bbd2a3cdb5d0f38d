// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree

import (
	"context"
	"maps"
	"slices"

	"github.com/pkg/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/machinehealthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/takeover"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// release removes the manager's annotations from the Machines and requests of a check that is released. What stands there beside them is
// what the in-tree controller would have done itself, and it goes on with it. All of this comes before the pause is removed, so that a
// process that stops in between begins again.
func (a *Adoption) release(ctx context.Context, core *clusterv1.MachineHealthCheck, cluster *clusterv1.Cluster) error {
	check := checkOf(core)
	selected, others, err := machinehealthcheck.Source{}.Targets(ctx, a.Live, check, true)
	if err != nil {
		return err
	}
	claims, err := a.Claims(ctx, check, cluster)
	if err != nil {
		return err
	}
	machines := slices.Concat(selected, others)
	found, err := a.liveRequests(ctx, check)
	failed := []error{err}
	if holdsControlPlane(check, machines, found) {
		// A Lease expires where the workload cluster cannot be reached.
		if err := a.releaseLease(ctx, check, claims); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "The control-plane Lease was not released before it expires")
		}
	}
	for i, m := range machines {
		failed = append(failed, a.releaseMachine(ctx, check, m, i < len(selected), claims))
	}
	for _, request := range found {
		if core.DeletionTimestamp.IsZero() {
			failed = append(failed, a.Requests.GiveBack(ctx, request))
		} else {
			failed = append(failed, a.Requests.Withdraw(ctx, request))
		}
	}
	return utilerrors.NewAggregate(failed)
}

// releaseMachine leaves the conditions of a Machine to the in-tree controller, which reports the same. Where the check is deleted, no
// controller would remove them.
func (a *Adoption) releaseMachine(
	ctx context.Context, check *healthcheck.Check, t *healthcheck.Target, selected bool, claims []healthcheck.Claim,
) error {
	actor, object := machinehealthcheck.Actor{Client: a.Client}, t.Object
	signed := notes.Author(t.Machine.Annotations) == check.Author()
	if !check.Object.GetDeletionTimestamp().IsZero() && signed {
		var err error
		if object, err = actor.ClearConditions(ctx, object); err != nil {
			return errors.Wrap(client.IgnoreNotFound(err), "failed to write to the Machine")
		}
	}
	off := annotationsOff(t, signed, selected, claims)
	if _, changes := off.On(object.GetAnnotations()); !changes {
		return nil
	}
	_, err := actor.Annotate(ctx, object, off)
	return errors.Wrap(client.IgnoreNotFound(err), "failed to write to the Machine")
}

// annotationsOff are those that are removed from a Machine. The history of its remediations is for whichever check selects it, and is
// removed only if no other check of the manager does.
func annotationsOff(t *healthcheck.Target, signed, selected bool, claims []healthcheck.Claim) notes.Notes {
	if !signed && !selected {
		return nil
	}
	off := notes.Notes{}
	if signed {
		off = notes.OfAuthor("")
	}
	if !slices.ContainsFunc(claims, func(c healthcheck.Claim) bool { return c.Author != "" && c.Selects(t) }) {
		maps.Copy(off, notes.WithoutHistory())
	}
	return off
}

// holdsControlPlane reports whether a check has something in flight for a Machine of the control plane.
func holdsControlPlane(check *healthcheck.Check, machines []*healthcheck.Target, found []*requests.Found) bool {
	return slices.ContainsFunc(machines, func(t *healthcheck.Target) bool {
		asked := slices.ContainsFunc(found, func(f *requests.Found) bool { return slices.Contains(f.Machines, t.Machine.UID) })
		return t.ControlPlane && (asked || notes.Author(t.Machine.Annotations) == check.Author())
	})
}

func (a *Adoption) releaseLease(ctx context.Context, check *healthcheck.Check, claims []healthcheck.Claim) error {
	lease, err := a.Clusters.At(check.Cluster).Live().Lease(ctx, workload.ControlPlaneLease)
	if err != nil || lease == nil || workload.LeaseHolder(lease) != check.ID.String() {
		return err
	}
	return a.ReleaseLease(ctx, check, lease, claims)
}

// remains reports whether something of the manager is left on a Machine of a check that has nothing on itself, and is not to be the
// manager's. An earlier leader may have signed one a moment after everything was cleaned up.
func (*Adoption) remains(ctx context.Context, cache client.Reader, core *clusterv1.MachineHealthCheck, f *takeover.Facts) (bool, error) {
	if f.Traces || f.Wanted {
		return false, nil
	}
	signed := &clusterv1.MachineList{}
	err := cache.List(ctx, signed, client.InNamespace(core.Namespace), client.MatchingFields{machinehealthcheck.ByAuthor: authorOf(core)},
		client.UnsafeDisableDeepCopy)
	ofCluster := func(m clusterv1.Machine) bool { return m.Labels[clusterv1.ClusterNameLabel] == core.Spec.ClusterName }
	return slices.ContainsFunc(signed.Items, ofCluster), errors.Wrap(err, "failed to read the Machines")
}

// liveRequests are those of the check, of all kinds of which there may be any. What cannot be read is an error beside what was found.
func (a *Adoption) liveRequests(ctx context.Context, check *healthcheck.Check) ([]*requests.Found, error) {
	found, err := a.Requests.LiveOf(ctx, check.ID, healthcheck.RequestKinds(check)...)
	return found, errors.Wrap(err, "failed to read the requests")
}
