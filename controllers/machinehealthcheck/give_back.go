// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pkg/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/takeover"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// giveBack takes our notes off the Machines and requests of a check that goes back to Cluster API's own controller. What stands there beside them is
// what that would have done itself, and it goes on with it. All of this comes before our pause goes, so that whoever is interrupted begins again.
func (c *CoreChecks) giveBack(ctx context.Context, r *Reconciler, core *clusterv1.MachineHealthCheck, cluster *clusterv1.Cluster, now time.Time) error {
	v := newVisit(r, r.records.of(client.ObjectKeyFromObject(core)), asOurs(core, true), now)
	s := &seen{check: v.check, cluster: cluster}
	v.seen = s
	if err := s.readMachines(ctx, r.Live, client.MatchingLabels{clusterv1.ClusterNameLabel: core.Spec.ClusterName}); err != nil {
		return err
	}
	if err := v.readRivals(ctx, s); err != nil {
		return err
	}
	found, err := v.liveRequests(ctx)
	failed := []error{err}
	if s.holdsControlPlane(found) {
		// A turn is over by itself where that cannot be reached.
		if err := v.giveBackTurn(ctx); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "The turn at the control plane was not given back before its time")
		}
	}
	for _, m := range slices.Concat(s.machines, s.unselected) {
		if err := v.giveBackMachine(ctx, m); err != nil && !errors.Is(err, errGone) {
			failed = append(failed, err)
		}
	}
	for _, request := range found {
		failed = append(failed, v.giveBackRequest(ctx, request))
	}
	return utilerrors.NewAggregate(failed)
}

// giveBackMachine leaves what is said of a Machine to Cluster API's own controller, which says the same. Where the check goes, nobody would take it back.
func (v *visit) giveBackMachine(ctx context.Context, m *clusterv1.Machine) error {
	if goes := !v.check.DeletionTimestamp.IsZero(); goes && notes.Author(m.Annotations) == author(v.check) {
		if err := v.patchStatus(ctx, m, report.ClearMachine); err != nil {
			return err
		}
	}
	return v.noteOnMachine(ctx, m, v.seen.notesOn(m))
}

// giveBackRequest does the same with a request.
func (v *visit) giveBackRequest(ctx context.Context, request *requests.Found) error {
	if goes := !v.check.DeletionTimestamp.IsZero(); goes {
		return v.r.Requests.Withdraw(ctx, request)
	}
	return v.r.Requests.GiveBack(ctx, request)
}

// holdsControlPlane says whether a check has something under way for a Machine of the control plane.
func (s *seen) holdsControlPlane(found []*requests.Found) bool {
	return slices.ContainsFunc(slices.Concat(s.machines, s.unselected), func(m *clusterv1.Machine) bool {
		asked := slices.ContainsFunc(found, func(f *requests.Found) bool { return slices.Contains(f.Machines, m.UID) })
		return util.IsControlPlaneMachine(m) && (asked || notes.Author(m.Annotations) == author(s.check))
	})
}

func (v *visit) giveBackTurn(ctx context.Context) error {
	lease, err := v.cluster().Live().Lease(ctx, workload.TurnKey)
	if err != nil || lease == nil || !turnOf(lease, identity(v.seen.check).String()).Ours {
		return err
	}
	v.turn = lease
	return v.releaseTurn(ctx)
}

// leftOver says whether something of ours is left on a Machine of a check that has nothing on itself, and is not to be ours. An earlier leader of ours may
// have signed one a moment after everything was cleaned.
func (*CoreChecks) leftOver(ctx context.Context, cache client.Reader, core *clusterv1.MachineHealthCheck, f *takeover.Facts) (bool, error) {
	if f.Traces || f.Wanted {
		return false, nil
	}
	signed := &clusterv1.MachineList{}
	err := cache.List(ctx, signed, client.InNamespace(core.Namespace), client.MatchingFields{byAuthor: author(asOurs(core, false))}, client.UnsafeDisableDeepCopy)
	return slices.ContainsFunc(signed.Items, func(m clusterv1.Machine) bool { return m.Labels[clusterv1.ClusterNameLabel] == core.Spec.ClusterName }),
		errors.Wrap(err, "failed to read the Machines")
}

// signatureOf is who has marked a Machine.
func signatureOf(machine client.Object) []string {
	if signed := notes.Author(machine.GetAnnotations()); signed != "" {
		return []string{signed}
	}
	return nil
}

// notesOn are those that go off a Machine with its check. What is remembered of it is everybody's, and goes only if no other check of ours looks after it.
func (s *seen) notesOn(m *clusterv1.Machine) notes.Notes {
	signed := notes.Author(m.Annotations) == author(s.check)
	if !signed && !selects(s.check, m.Labels) {
		return nil
	}
	off := notes.Notes{}
	if signed {
		off = notes.OfAuthor("")
	}
	if !slices.ContainsFunc(s.rivals, func(r rival) bool { return r.author != "" && r.selects(m, nil) }) {
		maps.Copy(off, notes.OfLedger(&remediation.Ledger{}))
		maps.Copy(off, notes.OfNodeGoneSince(time.Time{}))
	}
	return off
}

// liveRequests are those of the check, of all kinds of which there may be any. What cannot be read is an error beside what was found.
func (v *visit) liveRequests(ctx context.Context) ([]*requests.Found, error) {
	s := v.seen
	kinds := withOthers(kindsOf(s.check), notes.RequestKinds(s.check.Annotations)...)
	// What is known of requests of other kinds, to which there may be no right any more. What is not known of these kinds is asked for now.
	known, _ := v.r.Requests.Of(ctx, identity(s.check), kinds...)
	for _, request := range known {
		kinds = withOthers(kinds, request.Kind)
	}
	found, err := v.r.Requests.LiveOf(ctx, identity(s.check), kinds...)
	return found, errors.Wrap(err, "failed to read the requests")
}
