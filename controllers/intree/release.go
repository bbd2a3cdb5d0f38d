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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/adoption"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// release removes the annotations of the manager from the Machines and requests of a check. The in-tree controller continues with the
// conditions and the requests. The pause is removed afterwards, so a process that stops in between starts again.
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
	// ListLive returns requests together with an error.
	found, err := a.Requests.ListLive(ctx, check.ID, healthcheck.RequestKinds(check)...)
	failed := []error{errors.Wrap(err, "failed to read the requests")}
	if holdsControlPlane(check, machines, found) {
		// If the workload cluster is unreachable, the Lease expires.
		if err := a.releaseLease(ctx, check, claims); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to release the control-plane Lease, which expires later")
		}
	}
	for i, m := range machines {
		failed = append(failed, a.releaseMachine(ctx, check, m, i < len(selected), claims))
	}
	for _, request := range found {
		if core.DeletionTimestamp.IsZero() {
			failed = append(failed, a.Requests.Release(ctx, request))
		} else {
			failed = append(failed, a.Requests.Withdraw(ctx, request))
		}
	}
	return utilerrors.NewAggregate(failed)
}

// releaseMachine removes annotations from a Machine. The in-tree controller sets the same conditions, so it removes these only if the check
// is being deleted.
func (a *Adoption) releaseMachine(
	ctx context.Context, check *healthcheck.Check, t *healthcheck.Target, selected bool, claims []healthcheck.Claim,
) error {
	actor, object := machinehealthcheck.Actor{Client: a.Client}, t.Object
	signed := check.Signed(t.Machine)
	if !check.Object.GetDeletionTimestamp().IsZero() && signed {
		var err error
		if object, err = actor.ClearConditions(ctx, object); err != nil {
			return errors.Wrap(client.IgnoreNotFound(err), "failed to patch the Machine")
		}
	}
	off := annotationsOff(t, signed, selected, claims)
	if _, changes := off.Apply(object.GetAnnotations()); !changes {
		return nil
	}
	_, err := actor.Annotate(ctx, client.ObjectKey{}, object, off)
	return errors.Wrap(client.IgnoreNotFound(err), "failed to patch the Machine")
}

// annotationsOff returns the annotations to remove from a Machine. The history of its remediations is removed only if no other check of the
// manager selects the Machine.
func annotationsOff(t *healthcheck.Target, signed, selected bool, claims []healthcheck.Claim) notes.Notes {
	if !signed && !selected {
		return nil
	}
	off := notes.Notes{}
	if signed {
		off = notes.OfResponsibleCheck("")
	}
	if !slices.ContainsFunc(claims, func(c healthcheck.Claim) bool { return c.MarkedBy != "" && c.Selects(t) }) {
		maps.Copy(off, notes.WithoutHistory())
	}
	return off
}

// holdsControlPlane reports whether a check remediates a Machine of the control plane.
func holdsControlPlane(check *healthcheck.Check, machines []*healthcheck.Target, found []*requests.Request) bool {
	return slices.ContainsFunc(machines, func(t *healthcheck.Target) bool {
		asked := slices.ContainsFunc(found, func(f *requests.Request) bool { return slices.Contains(f.Machines, t.Machine.UID) })
		return t.ControlPlane && (asked || check.Signed(t.Machine))
	})
}

func (a *Adoption) releaseLease(ctx context.Context, check *healthcheck.Check, claims []healthcheck.Claim) error {
	lease, err := a.Clusters.Get(check.Cluster).Live().Lease(ctx, workload.ControlPlaneLease)
	if err != nil || lease == nil || workload.LeaseHolder(lease) != check.ID.String() {
		return err
	}
	return a.ReleaseLease(ctx, check, lease, claims)
}

// remains reports whether a Machine of a check that the manager does not adopt is signed by the check. An earlier leader may have signed it
// after the cleanup.
func (*Adoption) remains(ctx context.Context, cache client.Reader, core *clusterv1.MachineHealthCheck, f *adoption.Facts) (bool, error) {
	if f.Traces || f.Wanted {
		return false, nil
	}
	signed := &clusterv1.MachineList{}
	err := cache.List(ctx, signed, client.InNamespace(core.Namespace), client.MatchingFields{machinehealthcheck.ByMarkedBy: markedBy(core)},
		client.UnsafeDisableDeepCopy)
	ofCluster := func(m clusterv1.Machine) bool { return m.Labels[clusterv1.ClusterNameLabel] == core.Spec.ClusterName }
	return slices.ContainsFunc(signed.Items, ofCluster), errors.Wrap(err, "failed to read the Machines")
}
