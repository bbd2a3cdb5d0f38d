// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// write lands a write, unless the controller crashes before it does, or just after: then nobody learns that it has landed.
func (w *World) write(what string, land func() error) error {
	if w.crashIn == 0 && !w.crashLate {
		w.note("crash before: " + what)
		return errCrashed
	}
	err := land()
	if err == nil {
		w.landed++
		w.note(what)
		w.audit()
	}
	if w.crashIn == 0 {
		w.note("crash after: " + what)
		return errCrashed
	}
	w.crashIn--
	return err
}

// unchanged says whether a version is the one that was seen, but for what this very pass has written since.
func (w *World) unchanged(object string, seen, live int) bool {
	if live != seen+w.written[object] {
		return false
	}
	w.written[object]++
	return true
}

// machine is the object that a cached one stands for. Writes carry the version that was seen.
func (w *World) machine(seen *Machine) (*Machine, error) {
	live := w.API.Machines[seen.Name]
	if live == nil || live.UID != seen.UID || !w.unchanged("machine/"+seen.Name, seen.Version, live.Version) {
		return nil, errConflict
	}
	live.Version++
	return live, nil
}

func (w *World) node(seen *Node) (*Node, error) {
	live := w.API.Nodes[seen.Name]
	if !w.Reachable || live == nil || live.UID != seen.UID || !w.unchanged("node/"+seen.Name, seen.Version, live.Version) {
		return nil, errConflict
	}
	live.Version++
	return live, nil
}

func (w *World) writeCheck(seen *Check, write remediation.CheckWrite, plan *remediation.Planned) error {
	return w.write(fmt.Sprintf("%s: check write %d, replacing %+v", seen.Name, write, plan.Replacing), func() error {
		live := w.API.Checks[seen.Name]
		if live == nil || !w.unchanged("check/"+seen.Name, seen.Version, live.Version) {
			return errConflict
		}
		live.Version++
		switch write {
		case remediation.AddFinalizer:
			live.Finalizer = true
		case remediation.NoteStorm:
			live.Storm = plan.Storm
		case remediation.NoteReplacing:
			live.Replacing = plan.Replacing
		case remediation.ReleaseTurn:
			if w.Reachable && w.API.Turn.Holder == seen.Name {
				w.API.Turn = Turn{Version: w.API.Turn.Version + 1}
			}
		case remediation.RemoveFinalizer:
			live.Finalizer = false
			if live.Deleting {
				delete(w.API.Checks, live.Name)
			}
		}
		return nil
	})
}

// writeTarget does one write for a target.
func (w *World) writeTarget(c *Check, t *remediation.Target, d *remediation.Decision, write remediation.Write, facts *health.Target) error {
	switch write {
	case remediation.TakeTurn:
		return w.write(c.Name+": takes its turn for "+t.Name, func() error { return w.takeTurn(c, d) })
	case remediation.NoteLedger, remediation.NoteNodeGone, remediation.HoldLease, remediation.DropConfirmation, remediation.ReleaseLease:
		return w.write(fmt.Sprintf("%s: %s write %d %+v", c.Name, t.Name, write, d.Ledger), func() error { return w.noteOnTarget(c, t, d, write) })
	case remediation.CreateRequest:
		return w.write(fmt.Sprintf("%s: request %v for %s, attempt %d", c.Name, d.Step, t.Name, d.Attempt), func() error { return w.createRequest(c, t, d) })
	case remediation.SetAuthor, remediation.DropAuthor, remediation.SetMark, remediation.RemoveMark, remediation.ClearMarks:
		return w.write(fmt.Sprintf("%s: %s mark write %d (%s)", c.Name, t.Name, write, d.Why), func() error { return w.writeMark(c, t, d, write) })
	case remediation.NoteRecovery, remediation.TellToStop, remediation.DeleteRequest:
		return w.writeRequest(c, facts.Name, t.Request, write, d)
	}
	return nil
}

func (w *World) noteOnTarget(c *Check, t *remediation.Target, d *remediation.Decision, write remediation.Write) error {
	if write == remediation.DropConfirmation {
		n, err := w.node(w.Cache.Nodes[t.Node])
		if err == nil {
			n.Confirmed = false
		}
		return err
	}
	if !c.ForNodes {
		m, err := w.machine(w.Cache.Machines[t.Name])
		if err != nil {
			return err
		}
		switch write { //nolint:exhaustive // the others are written elsewhere
		case remediation.NoteLedger:
			m.Ledger = d.Ledger
		case remediation.NoteNodeGone:
			m.NodeGoneSince = d.NodeGoneSince
		default:
		}
		return nil
	}
	n, err := w.node(w.Cache.Nodes[t.Name])
	if err != nil {
		return err
	}
	switch write { //nolint:exhaustive // the others are written elsewhere
	case remediation.NoteLedger:
		n.Ledger = d.Ledger
	case remediation.HoldLease:
		n.Holder, n.HeldUntil = c.Name, d.LeaseUntil
	default:
		n.Holder = ""
	}
	return nil
}

// takeTurn takes the turn at the control plane as it was seen in the last look, or not at all.
func (w *World) takeTurn(c *Check, d *remediation.Decision) error {
	live := &w.API.Turn
	if !w.Reachable || live.Version != w.turnSeen {
		return errConflict
	}
	*live = Turn{Holder: c.Name, Until: d.TurnUntil, Version: live.Version + 1}
	return nil
}

// createRequest is create-only: what bears the name already stays as it is.
func (w *World) createRequest(c *Check, t *remediation.Target, d *remediation.Decision) error {
	key := d.Step.Template + "/" + t.Name
	if w.API.Requests[key] != nil {
		return errConflict
	}
	w.API.Requests[key] = &Request{
		Kind: d.Step.Template, Name: t.Name, Check: c.Name, Target: t.Name, TargetUID: w.uidOf(w.API, c, t.Name), Stuck: w.draw.IntN(12) == 0,
		ControlPlane: t.ControlPlane,
		Request:      remediation.Request{Step: d.Step, Attempt: d.Attempt, Started: w.Now},
	}
	w.auditStart(c, t.Name, d)
	return nil
}

func (w *World) writeMark(c *Check, t *remediation.Target, d *remediation.Decision, write remediation.Write) error {
	m, err := w.machine(w.Cache.Machines[t.Name])
	if err != nil {
		return err
	}
	switch write { //nolint:exhaustive // the others are written elsewhere
	case remediation.SetAuthor:
		m.Author = c.Name
	case remediation.DropAuthor:
		m.Author = ""
	case remediation.SetMark:
		m.Sick, m.Well = true, false
		// An owner's own reason is never overwritten.
		if m.Owner == "" {
			m.Owner, m.MarkedSince, m.Counted = Waiting, w.Now, d.Budgeted && w.API.Checks[c.Name].Policy.MaxInFlight != nil
			w.auditStart(c, t.Name, d)
		}
	case remediation.RemoveMark:
		if m.Owner == Waiting {
			m.Owner = ""
		}
	default:
		if m.Owner == Waiting {
			m.Owner = ""
		}
		m.Author, m.Sick, m.Well = "", false, false
	}
	return nil
}

// writeStray does one write for a stray.
func (w *World) writeStray(c *Check, stray *remediation.Stray, d *remediation.Decision, write remediation.Write) error {
	t := &remediation.Target{Name: stray.Name}
	switch write { //nolint:exhaustive // the others are about requests
	case remediation.ReleaseLease, remediation.NoteLedger, remediation.NoteNodeGone, remediation.HoldLease:
		return w.write(fmt.Sprintf("%s: %s stray write %d", c.Name, stray.Name, write), func() error { return w.noteOnTarget(c, t, d, write) })
	case remediation.ClearMarks:
		return w.write(c.Name+": clears "+stray.Name, func() error { return w.writeMark(c, t, d, write) })
	default:
		return w.writeRequest(c, stray.Name, stray.Request, write, d)
	}
}

// writeRequest writes to the request that was seen, or to none.
func (w *World) writeRequest(c *Check, target string, seen *remediation.Request, write remediation.Write, d *remediation.Decision) error {
	if seen == nil {
		return nil
	}
	key := seen.Step.Template + "/" + target
	return w.write(fmt.Sprintf("%s: %s write %d (%s)", c.Name, key, write, d.Why), func() error {
		live := w.API.Requests[key]
		if live == nil || live.Check != c.Name || !live.Started.Equal(seen.Started) || live.Attempt != seen.Attempt {
			return errConflict
		}
		switch write { //nolint:exhaustive // the others are written elsewhere
		case remediation.NoteRecovery:
			live.HealthySince = d.HealthySince
		case remediation.TellToStop:
			live.TimedOut = true
		case remediation.DeleteRequest:
			w.auditDelete(live, d)
			if live.DeletingSince.IsZero() {
				live.DeletingSince = w.Now
			}
		default:
		}
		return nil
	})
}
