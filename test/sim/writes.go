// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/pipeline"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// write lands a write, unless the controller crashes before it does, or just after: then its result is lost.
func (r *run) write(what string, land func() error) error {
	w := r.w
	what = r.name + ": " + what
	if r.old {
		what = "old leader of " + what
	}
	if r.crashed || r.crashIn == 0 && !r.crashLate {
		r.crashed = true
		w.note("crash before: " + what)
		return errCrashed
	}
	w.must(!r.frozen, "frozen means frozen", "%s", what)
	err := error(errConflict)
	if r.moves == w.moves {
		err = land()
	}
	if err == nil {
		r.pass.Writes++
		r.order.changes++
		w.changed()
		w.note(what)
		w.FollowOwners()
		w.audit()
	}
	if err != nil {
		w.note("fails: " + what)
	}
	if r.crashIn == 0 {
		r.crashed = true
		w.note("crash after: " + what)
		return errCrashed
	}
	r.crashIn--
	return err
}

// unchanged reports whether a version is the one that was read, apart from the writes of this reconcile.
func (r *run) unchanged(object string, seen, live int) bool {
	if live != seen+r.written[object] {
		return false
	}
	r.written[object]++
	return true
}

// machine is the object that a cached one stands for. Writes carry the version that was seen.
func (r *run) machine(seen *Machine) (*Machine, error) {
	if seen == nil {
		return nil, errConflict
	}
	live := r.w.API.Machines[seen.Name]
	if live == nil || live.UID != seen.UID || !r.unchanged("machine/"+seen.Name, seen.Version, live.Version) {
		return nil, errConflict
	}
	live.Version++
	return live, nil
}

func (r *run) node(seen *Node) (*Node, error) {
	if seen == nil {
		return nil, errConflict
	}
	live := r.w.API.Nodes[seen.Name]
	if !r.w.Reachable {
		return nil, errUnreachable
	}
	if live == nil || live.UID != seen.UID || !r.unchanged("node/"+seen.Name, seen.Version, live.Version) {
		return nil, errConflict
	}
	live.Version++
	return live, nil
}

// WriteCheck implements pipeline.Client.
func (r *run) WriteCheck(_ context.Context, plan *remediation.Planned, write remediation.CheckWrite) error {
	if r.call(); r.crashed {
		return errCrashed
	}
	err := r.write(fmt.Sprintf("check write %d, storm %v, replacing %+v", write, plan.Storm.Since, plan.Replacing), func() error {
		return r.landCheck(plan, write)
	})
	if err == nil {
		r.pass.CheckWrote = append(r.pass.CheckWrote, write)
	}
	return err
}

func (r *run) landCheck(plan *remediation.Planned, write remediation.CheckWrite) error {
	live := r.w.API.Checks[r.name]
	if write == remediation.ReleaseControlPlaneLease {
		return r.releaseTurn()
	}
	if live == nil || !r.unchanged("check/"+r.name, r.check.Version, live.Version) {
		return errConflict
	}
	live.Version++
	switch write { //nolint:exhaustive // the Lease is another object
	case remediation.AddFinalizer:
		live.Finalizer = true
	case remediation.WriteStorm:
		live.Storm = plan.Storm
		r.w.noteView(r)
	case remediation.WriteReplacing:
		live.Replacing = plan.Replacing
	case remediation.RemoveFinalizer:
		// The controller reads live before: its cache may not have the last writes yet.
		if r.w.leaves(live.Name) {
			return nil
		}
		r.w.releasedByOld = r.old
		if live.Finalizer = false; r.w.API.Turn.Holder == live.Name && !r.view.monitorsMember(r.check) {
			r.w.expires = r.w.API.Turn.Version
		}
		if live.Deleting {
			r.w.premise("a check that is deleted goes")
			r.w.removeCheck(live)
		}
	}
	r.own = *live
	return nil
}

// releaseTurn releases the control-plane lease that was read at the beginning. A later holder needs it.
func (r *run) releaseTurn() error {
	turn := &r.w.API.Turn
	if !r.w.Reachable {
		return errUnreachable
	}
	if turn.Holder != r.name || turn.Version != r.leaseKnown {
		return errConflict
	}
	*turn = Turn{Version: turn.Version + 1}
	return nil
}

// WriteTarget implements pipeline.Client.
func (r *run) WriteTarget(_ context.Context, i int, _ *health.Verdict, d *remediation.Decision, write remediation.Write) error {
	if r.crashed {
		return errCrashed
	}
	w, t := r.w, &r.facts.Situation.Targets[i]
	if write == d.Writes(t)[0] {
		r.auditOrder(i, d, t.Name)
		r.auditAct(t, d)
	}
	w.must(!r.pausedNow[t.Name], "frozen means frozen", "%s writes to %s", r.name, t.Name)
	if write == remediation.CreateRequest {
		released := slices.Contains(r.pass.Wrote[t.Name], remediation.ReleaseLease)
		w.must(!released, "a Lease is kept from step to step", "%s releases that of %s first", r.name, t.Name)
	}
	if r.call(); write == remediation.CreateRequest && w.Refuses != "" {
		return &pipeline.RejectedError{Message: w.Refuses}
	}
	if m := r.latest(t.Name); write == remediation.SetMarkedBy && m != nil && m.Author == r.name && (m.Owner != "" || d.Action != remediation.RequestOwnerRemediation) {
		// A patch without a change is not sent.
		return nil
	}
	err := r.writeTarget(t, d, write)
	if err == nil {
		r.pass.wrote(t.Name, write)
	}
	return err
}

// WriteOrphan implements pipeline.Client.
func (r *run) WriteOrphan(_ context.Context, i int, d *remediation.Decision, write remediation.Write) error {
	orphan := &r.facts.Situation.Orphans[i]
	if r.call(); r.crashed {
		return errCrashed
	}
	// The target is read live before.
	if m := r.w.API.Machines[orphan.Name]; m != nil && m.Paused && !r.check.ForNodes {
		return errConflict
	}
	if write == d.OrphanWrites(orphan)[0] {
		r.auditOrphan(orphan, d)
		r.w.records.cancels(r.name, orphan.Name, r.old)
	}
	err := r.writeOrphan(orphan, d, write)
	if err == nil {
		r.pass.wrote(orphan.Name, write)
	}
	return err
}

// writeTarget does one write for a target.
func (r *run) writeTarget(t *remediation.Target, d *remediation.Decision, write remediation.Write) error {
	switch write {
	case remediation.AcquireControlPlaneLease:
		return r.write("takes its turn for "+t.Name, func() error { return r.takeTurn(d) })
	case remediation.WriteHistory, remediation.WriteNodeGone, remediation.AcquireLease, remediation.RemoveConfirmation, remediation.ReleaseLease:
		return r.write(fmt.Sprintf("%s write %d %+v", t.Name, write, d.History), func() error { return r.noteOnTarget(t, d, write) })
	case remediation.CreateRequest:
		return r.write(fmt.Sprintf("request %v for %s, attempt %d", d.Step, t.Name, d.Attempt), func() error { return r.createRequest(t, d) })
	case remediation.SetMarkedBy, remediation.RemoveMarkedBy, remediation.SetOwnerRemediated, remediation.RemoveOwnerRemediated, remediation.ClearConditions:
		return r.write(fmt.Sprintf("%s mark write %d (%s)", t.Name, write, d.Why), func() error { return r.writeMark(t, d, write) })
	case remediation.WriteRecovery, remediation.StopRemediator, remediation.DeleteRequest:
		return r.writeRequest(t.Name, t.Request, write, d)
	}
	return nil
}

func (r *run) noteOnTarget(t *remediation.Target, d *remediation.Decision, write remediation.Write) error {
	if write == remediation.RemoveConfirmation {
		n, err := r.node(r.view.Nodes[t.Node])
		if err == nil {
			n.Confirmed = false
		}
		return err
	}
	if !r.check.ForNodes {
		m, err := r.machine(r.view.Machines[t.Name])
		if err != nil {
			return err
		}
		switch write { //nolint:exhaustive // the others are written elsewhere
		case remediation.WriteHistory:
			m.History = d.History
		case remediation.WriteNodeGone:
			m.NodeGoneSince = d.NodeGoneSince
		default:
		}
		return nil
	}
	n, err := r.node(r.view.Nodes[t.Name])
	if err != nil {
		return err
	}
	switch write { //nolint:exhaustive // the others are written elsewhere
	case remediation.WriteHistory:
		n.History = d.History
	case remediation.AcquireLease:
		n.Holder, n.BlockedUntil = r.name, d.LeaseUntil
	default:
		n.Holder, n.BlockedUntil = "", time.Time{}
	}
	return nil
}

// takeTurn acquires the control-plane lease in the version of the preflight check, or renews the one that was read at the beginning, or not
// at all.
func (r *run) takeTurn(d *remediation.Decision) error {
	live := &r.w.API.Turn
	if !r.w.Reachable {
		return errUnreachable
	}
	if seen := map[bool]int{true: r.leaseSeen, false: r.leaseKnown}[d.Starts()]; live.Version != seen {
		return errConflict
	}
	*live = Turn{Holder: r.name, Until: d.ControlPlaneLeaseUntil, Version: live.Version + 1}
	r.leaseKnown, r.leaseSeen = live.Version, live.Version
	return nil
}

// createRequest is create-only: what bears the name already stays as it is.
func (r *run) createRequest(t *remediation.Target, d *remediation.Decision) error {
	w, key := r.w, d.Step.Template+"/"+t.Name
	if w.API.Requests[key] != nil {
		return errConflict
	}
	request := &Request{
		Kind: d.Step.Template, Name: t.Name, Check: r.name, Target: t.Name, TargetUID: r.view.uidOf(r.check, t.Name), Stuck: w.draw.IntN(5) == 0,
		ControlPlane: t.ControlPlane, Serial: w.moment(), Looked: r.order.preflightMoment,
		Request: remediation.Request{Step: d.Step, Attempt: d.Attempt, Started: w.Now},
	}
	request.UID = strconv.Itoa(request.Serial)
	w.auditCreate(r, request)
	w.auditCreateAgain(r, d, t.Name)
	w.API.Requests[key] = request
	w.noteCreated(r, request)
	w.records.created(request, len(r.check.Policy.Steps), r.old)
	return nil
}

func (r *run) writeMark(t *remediation.Target, d *remediation.Decision, write remediation.Write) error {
	w := r.w
	m, err := r.machine(r.view.Machines[t.Name])
	if err != nil {
		return err
	}
	switch write { //nolint:exhaustive // the others are written elsewhere
	case remediation.SetMarkedBy:
		// One leader removes the finalizer, and the other sets the annotation after it has read the check: only leader election prevents that.
		if c := w.API.Checks[r.name]; (r.old || w.releasedByOld) && w.log != nil && (c == nil || !c.Finalizer) {
			return errConflict
		}
		m.Author = r.name
		if d.Action == remediation.RequestOwnerRemediation && m.Owner == "" {
			m.AskedOwnerAt = w.Now
		}
	case remediation.RemoveMarkedBy:
		m.Author, m.AskedOwnerAt = "", time.Time{}
	case remediation.SetOwnerRemediated:
		m.Unhealthy, m.Healthy = true, false
		// An owner's own reason is never overwritten.
		if m.Owner == "" {
			m.Owner, m.MarkedSince, m.Counted = Waiting, w.Now, d.Budgeted && r.check.Policy.MaxInFlight != nil
		}
		if !m.Orphan && m.Owner != Refused {
			w.records.ownerRequested(r.name, m, r.old, w.Now)
		}
	case remediation.RemoveOwnerRemediated:
		if m.Owner == Waiting {
			m.Owner = ""
		}
	default:
		if m.MarkedSince.Equal(m.AskedOwnerAt) && (m.DeletingSince.IsZero() || m.Owner == Waiting) {
			m.Owner = ""
		}
		m.Author, m.AskedOwnerAt, m.Unhealthy, m.Healthy, m.Counted = "", time.Time{}, false, false, false
	}
	return nil
}

// writeOrphan does one write for a orphan.
func (r *run) writeOrphan(orphan *remediation.Orphan, d *remediation.Decision, write remediation.Write) error {
	t := &remediation.Target{Name: orphan.Name}
	switch write { //nolint:exhaustive // the others are about requests
	case remediation.ReleaseLease, remediation.WriteHistory, remediation.WriteNodeGone, remediation.AcquireLease:
		return r.write(fmt.Sprintf("%s orphan write %d", orphan.Name, write), func() error { return r.noteOnTarget(t, d, write) })
	case remediation.AcquireControlPlaneLease:
		return r.write("renews its turn for "+orphan.Name, func() error { return r.takeTurn(d) })
	case remediation.ClearConditions:
		return r.write("clears "+orphan.Name, func() error { return r.writeMark(t, d, write) })
	default:
		return r.writeRequest(orphan.Name, orphan.Request, write, d)
	}
}

// writeRequest writes to the request that was seen, or to none.
func (r *run) writeRequest(target string, seen *remediation.Request, write remediation.Write, d *remediation.Decision) error {
	if seen == nil {
		return nil
	}
	key := seen.Step.Template + "/" + target
	return r.write(fmt.Sprintf("%s write %d (%s)", key, write, d.Why), func() error {
		w := r.w
		live := w.API.Requests[key]
		if seen := r.view.Requests[key]; live == nil || seen == nil || live.Serial != seen.Serial || live.Check != r.name || !live.Started.Equal(seen.Started) || live.Attempt != seen.Attempt {
			return errConflict
		}
		if write == remediation.StopRemediator && d.Why == remediation.NodeNotFound && live.NodeDeletionExpected && !seen.NodeDeletionExpected {
			return errConflict
		}
		// What was seen of its recovery must be so still; the other writes are right whatever others have written.
		if !r.unchanged("request/"+key, r.view.Requests[key].Version, live.Version) && write == remediation.WriteRecovery {
			return errConflict
		}
		live.Version++
		switch write { //nolint:exhaustive // the others are written elsewhere
		case remediation.WriteRecovery:
			if live.HealthySince = d.HealthySince; w.log != nil {
				w.log.healthyRecorded[live.Serial] = w.Now
				// A reconcile that crashes before it reports has seen who is well, too.
				w.noteHealth(r, false)
			}
		case remediation.StopRemediator:
			live.TimedOut = true
			w.noteEnd(r, live, d)
		case remediation.DeleteRequest:
			w.noteDeleted(r, target)
			w.must(live.TimedOut || live.Succeeded || d.Why == remediation.Recovered, "stopped first", "%s goes (%s)", key, d.Why)
			w.noteEnd(r, live, d)
			w.records.deleted(live, d.Why, r.old)
			if live.DeletingSince.IsZero() {
				live.DeletingSince = w.Now
			}
		default:
		}
		return nil
	})
}
