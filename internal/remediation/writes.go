// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "slices"

// Write is one write to one object. The set is closed.
type Write uint8

// The writes. After an interruption, the next plan contains those that are missing.
const (
	// WriteHistory writes the remediation history to the target.
	WriteHistory Write = iota
	// WriteNodeGone writes to the Machine since when its Node does not exist, or removes that.
	WriteNodeGone
	// WriteRecovery writes to the request since when the target is healthy, or removes that.
	WriteRecovery
	// AcquireLease acquires or renews the Lease of the Node.
	AcquireLease
	// AcquireControlPlaneLease acquires or renews the Lease of the control plane, as it was read last.
	AcquireControlPlaneLease
	// SetMarkedBy records this check as the one that has set the conditions of the Machine, and when it requests owner remediation.
	SetMarkedBy
	// RemoveConfirmation removes the confirmation of the recovery from the Node.
	RemoveConfirmation
	// CreateRequest creates the request of the step.
	CreateRequest
	// SetOwnerRemediated sets OwnerRemediated=False.
	SetOwnerRemediated
	// StopRemediator annotates the request so that its remediator stops.
	StopRemediator
	// DeleteRequest deletes the request.
	DeleteRequest
	// RemoveOwnerRemediated cancels owner remediation.
	RemoveOwnerRemediated
	// ClearConditions removes the conditions of this check, and then the record of SetMarkedBy.
	ClearConditions
	// RemoveMarkedBy removes the record of SetMarkedBy when there are no conditions.
	RemoveMarkedBy
	// ReleaseLease releases the Lease of the Node.
	ReleaseLease
)

// Acts reports whether a write carries out an action, and does not only record something.
func (w Write) Acts() bool { return CreateRequest <= w && w <= ClearConditions }

// Writes are the writes for a decision about a target, in this order. After one has failed, the others are left out.
func (d *Decision) Writes(t *Target) []Write {
	var writes []Write
	// A start or a failure is recorded before it is acted on. Other records are written after the action: a Node that cannot be written to
	// must not keep a remediator running.
	// A Node that cannot be read now keeps its records.
	first, noted := d.Starts() || d.Action == GiveUp, !d.History.same(&t.History)
	holds := d.LeaseUntil.After(t.Lease.Until) || !d.LeaseUntil.IsZero() && !t.Lease.HeldByThis
	// A confirmation that stays would confirm the recovery from the remediation that starts now.
	writes = appendIf(writes, d.Action == StartRequest && d.DropConfirmation, RemoveConfirmation)
	writes = appendIf(writes, first && noted, WriteHistory)
	writes = appendIf(writes, !d.NodeGoneSince.Equal(t.NodeGoneSince), WriteNodeGone)
	writes = appendIf(writes, t.Request != nil && !d.HealthySince.Equal(t.Request.HealthySince), WriteRecovery)
	writes = appendIf(writes, first && holds, AcquireLease)
	writes = appendIf(writes, d.Action == StartRequest && !d.ControlPlaneLeaseUntil.IsZero(), AcquireControlPlaneLease)
	writes = appendIf(writes, d.MarkedBy && !t.OwnerRemediation.MarkedByThis || d.Action == RequestOwnerRemediation, SetMarkedBy)
	writes = d.act(writes, t.Request)
	writes = appendIf(writes, !d.MarkedBy && t.OwnerRemediation.MarkedByThis && d.Action != RemoveConditions, RemoveMarkedBy)
	writes = appendIf(writes, !first && noted && !t.Unread, WriteHistory)
	writes = appendIf(writes, d.Action != StartRequest && d.DropConfirmation && !t.Unread, RemoveConfirmation)
	writes = appendIf(writes, !first && holds, AcquireLease)
	writes = appendIf(writes, d.RenewsControlPlaneLease, AcquireControlPlaneLease)
	return appendIf(writes, d.LeaseUntil.IsZero() && t.Lease.HeldByThis, ReleaseLease)
}

func appendIf[W Write | CheckWrite](writes []W, needed bool, write W) []W {
	if needed {
		return append(writes, write)
	}
	return writes
}

// OrphanWrites are the writes for an orphaned target.
func (d *Decision) OrphanWrites(s *Orphan) []Write {
	writes := d.act(nil, s.Request)
	writes = appendIf(writes, !d.NodeGoneSince.Equal(s.NodeGoneSince), WriteNodeGone)
	writes = appendIf(writes, !d.History.same(&s.History), WriteHistory)
	writes = appendIf(writes, d.LeaseUntil.After(s.Lease.Until), AcquireLease)
	writes = appendIf(writes, d.RenewsControlPlaneLease, AcquireControlPlaneLease)
	return appendIf(writes, d.LeaseUntil.IsZero() && s.Lease.HeldByThis, ReleaseLease)
}

// act appends the writes of the action itself.
func (d *Decision) act(writes []Write, r *Request) []Write {
	switch d.Action {
	case StartRequest:
		writes = append(writes, CreateRequest)
	case RequestOwnerRemediation:
		writes = append(writes, SetOwnerRemediated)
	case GiveUp, Withdraw:
		if d.Why != Recovered && !r.TimedOut && (!r.Succeeded || d.Why == NodeNotFound) {
			writes = append(writes, StopRemediator)
		}
		if r.DeletingSince.IsZero() {
			writes = append(writes, DeleteRequest)
		}
	case CancelOwnerRemediation:
		writes = append(writes, RemoveOwnerRemediated)
	case RemoveConditions:
		writes = append(writes, ClearConditions)
	case None, Wait:
	}
	return writes
}

func (l *History) same(other *History) bool {
	return l.Failures == other.Failures && l.Tried == other.Tried && l.NotBefore.Equal(other.NotBefore)
}

// CheckWrite is one write to the check itself. The set is closed.
type CheckWrite uint8

// The writes to the check. All but the last two precede the writes to targets.
const (
	// AddFinalizer keeps the check until it is cleaned up.
	AddFinalizer CheckWrite = iota
	// WriteStorm records the times of a storm.
	WriteStorm
	// WriteReplacing records which Machines their owners replace.
	WriteReplacing
	// ReleaseControlPlaneLease releases the Lease of the control plane.
	ReleaseControlPlaneLease
	// RemoveFinalizer ends the cleanup.
	RemoveFinalizer
)

// CheckWrites are the writes to a check with or without a finalizer, in this order. A paused check is not written to.
func (plan *Planned) CheckWrites(s *Situation, finalizer bool) []CheckWrite {
	if s.Check.Paused {
		return nil
	}
	// No finalizer can be added to an object that is being deleted.
	writes := appendIf(nil, plan.Finalizer && !finalizer && !s.Check.Deleting, AddFinalizer)
	writes = appendIf(writes, !plan.Storm.same(s.Check.Storm), WriteStorm)
	writes = appendIf(writes, !slices.EqualFunc(plan.Replacing, s.Replacing, Replacement.same), WriteReplacing)
	writes = appendIf(writes, plan.ReleaseControlPlaneLease, ReleaseControlPlaneLease)
	return appendIf(writes, !plan.Finalizer && finalizer, RemoveFinalizer)
}

func (s Storm) same(other Storm) bool {
	return s.Since.Equal(other.Since) && s.CooldownSince.Equal(other.CooldownSince)
}

func (r Replacement) same(other Replacement) bool {
	return r.Target == other.Target && r.Owner == other.Owner && r.GoneSince.Equal(other.GoneSince)
}
