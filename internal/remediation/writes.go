// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "slices"

// Write is one write to one object. The set is closed.
type Write uint8

// The writes. After an interruption, the next plan contains those that are missing.
const (
	// NoteLedger writes the remediation history to the target.
	NoteLedger Write = iota
	// NoteNodeGone writes to the Machine since when its Node does not exist, or removes that.
	NoteNodeGone
	// NoteRecovery writes to the request since when the target is healthy, or removes that.
	NoteRecovery
	// HoldLease acquires or renews the Lease of the Node.
	HoldLease
	// TakeTurn acquires the Lease of the control plane, as it was read in the preflight check.
	TakeTurn
	// SetAuthor records this check as the one that has set the conditions of the Machine.
	SetAuthor
	// CreateRequest creates the request of the step.
	CreateRequest
	// SetMark sets OwnerRemediated=False.
	SetMark
	// TellToStop annotates the request so that its remediator stops.
	TellToStop
	// DeleteRequest deletes the request.
	DeleteRequest
	// RemoveMark cancels owner remediation.
	RemoveMark
	// ClearMarks removes the conditions of this check, and then the record of SetAuthor.
	ClearMarks
	// DropAuthor removes the record of SetAuthor when there are no conditions.
	DropAuthor
	// DropConfirmation removes the confirmation of the recovery from the Node.
	DropConfirmation
	// ReleaseLease releases the Lease of the Node.
	ReleaseLease
)

// Writes are the writes for a decision about a target, in this order. After one has failed, the others are left out.
func (d *Decision) Writes(t *Target) []Write {
	var writes []Write
	// A start or a failure is recorded before it is acted on. Other records are written after the action: a Node that cannot be written to
	// must not keep a remediator running.
	first, noted := d.starts() || d.Action == GiveUp, !d.Ledger.same(&t.Ledger)
	holds := d.LeaseUntil.After(t.Lease.Until) || !d.LeaseUntil.IsZero() && !t.Lease.Ours
	writes = appendIf(writes, first && noted, NoteLedger)
	writes = appendIf(writes, !d.NodeGoneSince.Equal(t.NodeGoneSince), NoteNodeGone)
	writes = appendIf(writes, t.Request != nil && !d.HealthySince.Equal(t.Request.HealthySince), NoteRecovery)
	writes = appendIf(writes, first && holds, HoldLease)
	writes = appendIf(writes, d.Action == MakeRequest && !d.TurnUntil.IsZero(), TakeTurn)
	writes = appendIf(writes, d.Author && !t.Mark.Ours, SetAuthor)
	writes = d.act(writes, t.Request)
	writes = appendIf(writes, !d.Author && t.Mark.Ours && d.Action != Unmark, DropAuthor)
	writes = appendIf(writes, !first && noted, NoteLedger)
	writes = appendIf(writes, d.DropConfirmation, DropConfirmation)
	writes = appendIf(writes, !first && holds, HoldLease)
	return appendIf(writes, d.LeaseUntil.IsZero() && t.Lease.Ours, ReleaseLease)
}

func appendIf[W Write | CheckWrite](writes []W, needed bool, write W) []W {
	if needed {
		return append(writes, write)
	}
	return writes
}

// StrayWrites are the writes for an orphaned target.
func (d *Decision) StrayWrites(s *Stray) []Write {
	writes := d.act(nil, s.Request)
	writes = appendIf(writes, !d.NodeGoneSince.Equal(s.NodeGoneSince), NoteNodeGone)
	writes = appendIf(writes, !d.Ledger.same(&s.Ledger), NoteLedger)
	writes = appendIf(writes, d.LeaseUntil.After(s.Lease.Until), HoldLease)
	return appendIf(writes, d.LeaseUntil.IsZero() && s.Lease.Ours, ReleaseLease)
}

// act appends the writes of the action itself.
func (d *Decision) act(writes []Write, r *Request) []Write {
	switch d.Action {
	case MakeRequest:
		writes = append(writes, CreateRequest)
	case GiveMark:
		writes = append(writes, SetMark)
	case GiveUp, Withdraw:
		if d.Why != Recovered && !r.TimedOut && !r.Succeeded {
			writes = append(writes, TellToStop)
		}
		if r.DeletingSince.IsZero() {
			writes = append(writes, DeleteRequest)
		}
	case TakeBack:
		writes = append(writes, RemoveMark)
	case Unmark:
		writes = append(writes, ClearMarks)
	case None, Wait:
	}
	return writes
}

func (l *Ledger) same(other *Ledger) bool {
	return l.Failures == other.Failures && l.Tried == other.Tried && l.NotBefore.Equal(other.NotBefore)
}

// CheckWrite is one write to the check itself. The set is closed.
type CheckWrite uint8

// The writes to the check. All but the last two precede the writes to targets.
const (
	// AddFinalizer keeps the check until it is cleaned up.
	AddFinalizer CheckWrite = iota
	// NoteStorm records the times of a storm.
	NoteStorm
	// NoteReplacing records which Machines their owners replace.
	NoteReplacing
	// ReleaseTurn releases the Lease of the control plane.
	ReleaseTurn
	// RemoveFinalizer ends the cleanup.
	RemoveFinalizer
)

// CheckWrites are the writes to a check with or without a finalizer, in this order. A paused check is not written to.
func (plan *Planned) CheckWrites(s *Situation, finalizer bool) []CheckWrite {
	if s.Check.Frozen {
		return nil
	}
	// No finalizer can be added to an object that is being deleted.
	writes := appendIf(nil, plan.Finalizer && !finalizer && !s.Check.Deleting, AddFinalizer)
	writes = appendIf(writes, !plan.Storm.same(s.Check.Storm), NoteStorm)
	writes = appendIf(writes, !slices.EqualFunc(plan.Replacing, s.Replacing, Replacement.same), NoteReplacing)
	writes = appendIf(writes, plan.ReleaseTurn, ReleaseTurn)
	return appendIf(writes, !plan.Finalizer && finalizer, RemoveFinalizer)
}

func (s Storm) same(other Storm) bool {
	return s.Since.Equal(other.Since) && s.CooldownSince.Equal(other.CooldownSince)
}

func (r Replacement) same(other Replacement) bool {
	return r.Target == other.Target && r.Owner == other.Owner && r.GoneSince.Equal(other.GoneSince)
}
