// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"cmp"
	"time"
)

// Decide returns what to do next with a check of Cluster API. id identifies an adoption that may start now.
func Decide(f *Facts, id string, now time.Time) Decision {
	d := Decision{Memory: f.Memory}
	d.Memory.Replaced = f.Memory.Replaced && f.Pause != RemedyPause
	switch {
	// A check that is being deleted only cleans up. Without that, its finalizer would stay. A check that was never adopted is released: its
	// writer has set the finalizer.
	case f.Deleting && f.Cleanup && f.Pause != ForeignPause && (f.Wanted || f.Pause == RemedyPause || !f.Memory.Empty()):
		d.Move, d.State = Act, Adopted
	case f.Exclusive && f.Wanted:
		d.exclusive(f)
	case !f.Wanted:
		d.notWanted(f)
	case f.Pause == ForeignPause:
		d.State = Paused
		d.Memory.Replaced = f.Memory.ID != ""
	case f.Pause == RemedyPause && f.ReportsPaused && f.Memory.Instance != f.Instance && !f.Memory.Recorded && !f.ClusterPaused:
		d.Move, d.State, d.Memory.Instance, d.Memory.Recorded = Record, Adopted, f.Instance, true
		d.Memory.ID = cmp.Or(f.Memory.ID, id)
	case f.Pause == RemedyPause && f.ReportsPaused:
		d.Move, d.State = Act, Adopted
	case f.Pause == RemedyPause:
		d.Move, d.State = Await, Waiting
	default:
		d.unpaused(f, id, now)
	}
	d.record(f)
	return d
}

// record records this manager, if there is no other, before it sets the condition Adopted or adopts a check. So it recognises the check
// after a restart.
func (d *Decision) record(f *Facts) {
	if d.State == InTree || f.Deleting || f.Memory.Recorded || f.Memory.ID != "" || d.Memory.Instance != "" || f.Instance == "" {
		return
	}
	d.Memory.Instance = f.Instance
	if d.Move == Leave || d.Move == Await || d.Move == Act {
		d.Move, d.Memory.Recorded = Record, true
	}
}

// exclusive decides where the in-tree controller does not run. A pause that Remedy set while it ran is removed.
func (d *Decision) exclusive(f *Facts) {
	d.Move, d.State = Act, Adopted
	if f.Pause == RemedyPause {
		d.Move, d.Memory = Unpause, d.Memory.Ended()
	}
}

// notWanted decides about a check that is not to be adopted, or no longer.
func (d *Decision) notWanted(f *Facts) {
	ours := f.Pause == RemedyPause || f.Cleanup || f.Traces || !f.Memory.Empty()
	switch {
	case !ours:
	// A pause applies to Remedy, too: the release waits for its end.
	case f.ClusterPaused || f.Pause == ForeignPause:
		d.State = Paused
	default:
		d.Move, d.Memory = Release, Memory{}
	}
}

// unpaused decides about a check that is to be adopted, and that is not paused.
func (d *Decision) unpaused(f *Facts, id string, now time.Time) {
	contested := f.Memory.contestedUntil(now)
	switch {
	case f.Deleting:
	case f.ClusterPaused:
		d.State = Paused
	case f.Memory.ID != "" && !f.Memory.Replaced:
		d.Move, d.State, d.Memory = NoteLoss, Waiting, f.Memory.lost(now)
		if until := d.Memory.contestedUntil(now); !until.IsZero() {
			d.State, d.Until = PauseConflict, until
		}
	case !contested.IsZero():
		d.State, d.Until = PauseConflict, contested
	case f.ReportsUnpaused:
		d.Move, d.State, d.Memory = Adopt, Waiting, Memory{ID: id, Instance: f.Instance, Losses: f.Memory.Losses}
	default:
		d.Move, d.State = Await, Waiting
	}
}
