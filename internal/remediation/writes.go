// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "slices"

// Write is one write to one object. The set is closed.
type Write uint8

// The writes. Whoever is stopped between two of them finds what was not done yet in the next plan.
const (
	// NoteLedger: attempts, not-before and the step that was tried, on the target.
	NoteLedger Write = iota
	// NoteNodeGone: since when the Node is gone, or that it is back, on the Machine.
	NoteNodeGone
	// NoteRecovery: healthy-since, or its absence, on the request.
	NoteRecovery
	// HoldLease takes or renews our Lease of the Node.
	HoldLease
	// TakeTurn takes the turn at the control plane, by the Lease that was seen in the last look.
	TakeTurn
	// SetAuthor names this check as the author of the Machine's marks.
	SetAuthor
	// CreateRequest makes the request of the step.
	CreateRequest
	// SetMark asks the owner to remediate.
	SetMark
	// TellToStop puts the word to stop on the request.
	TellToStop
	// DeleteRequest deletes it.
	DeleteRequest
	// RemoveMark takes back what the owner was asked.
	RemoveMark
	// ClearMarks clears what is said about health and remediation, as far as it is ours, and then the author.
	ClearMarks
	// DropAuthor takes that name away again, once there are no marks left.
	DropAuthor
	// DropConfirmation takes a person's confirmation off the Node.
	DropConfirmation
	// ReleaseLease gives our Lease of the Node back.
	ReleaseLease
)

// Writes are what has to be written for a decision about a target, in this order, each only when the one before has succeeded.
func (d *Decision) Writes(t *Target) []Write {
	var writes []Write
	// What a start or a failure rests on is remembered before. What is only wiped or renewed waits: a Node that cannot be written to is no
	// reason to let a remediator go on.
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

// appendIf adds a write if it is needed.
func appendIf(writes []Write, needed bool, write Write) []Write {
	if needed {
		return append(writes, write)
	}
	return writes
}

// StrayWrites are the same for a stray.
func (d *Decision) StrayWrites(s *Stray) []Write {
	writes := d.act(nil, s.Request)
	writes = appendIf(writes, !d.NodeGoneSince.Equal(s.NodeGoneSince), NoteNodeGone)
	writes = appendIf(writes, !d.Ledger.same(&s.Ledger), NoteLedger)
	writes = appendIf(writes, d.LeaseUntil.After(s.Lease.Until), HoldLease)
	return appendIf(writes, d.LeaseUntil.IsZero() && s.Lease.Ours, ReleaseLease)
}

// act is what an action itself writes.
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

// The writes to the check. All but the last two come before anything is written for a target.
const (
	// AddFinalizer keeps the check until it has cleaned up.
	AddFinalizer CheckWrite = iota
	// NoteStorm remembers the times of a storm.
	NoteStorm
	// NoteReplacing remembers which Machines were handed to their owner.
	NoteReplacing
	// ReleaseTurn gives the turn at the control plane to others.
	ReleaseTurn
	// RemoveFinalizer lets the check go.
	RemoveFinalizer
)

// CheckWrites are what has to be written to a check that has a finalizer or not, in this order. A frozen one is not written to.
func (plan *Planned) CheckWrites(s *Situation, finalizer bool) []CheckWrite {
	if s.Check.Frozen {
		return nil
	}
	var writes []CheckWrite
	// A check that is about to go cannot be given a finalizer any more.
	if plan.Finalizer && !finalizer && !s.Check.Deleting {
		writes = append(writes, AddFinalizer)
	}
	if !plan.Storm.Since.Equal(s.Check.Storm.Since) || !plan.Storm.CooldownSince.Equal(s.Check.Storm.CooldownSince) {
		writes = append(writes, NoteStorm)
	}
	if !slices.EqualFunc(plan.Replacing, s.Replacing, Replacement.same) {
		writes = append(writes, NoteReplacing)
	}
	if plan.ReleaseTurn {
		writes = append(writes, ReleaseTurn)
	}
	if !plan.Finalizer && finalizer {
		writes = append(writes, RemoveFinalizer)
	}
	return writes
}

func (r Replacement) same(other Replacement) bool {
	return r.Target == other.Target && r.Owner == other.Owner && r.GoneSince.Equal(other.GoneSince)
}
