// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// Look is what was read again, uncached, just before an act: exactly what the act rests on.
type Look struct {
	// Failed: something could not be read.
	Failed bool
	// Frozen: the check, its Cluster or the target is paused now.
	Frozen bool
	// Barred: the check or its Cluster is going, or the check was changed.
	Barred bool
	// Verdict is what follows from the facts as they are now.
	Verdict health.Verdict
	// Deleting: the deletion of the target was asked for. Requested: there is a request of this check for it.
	Deleting, Requested bool
	Ledger              Ledger
	// Others is how many other targets take up a place now; ControlPlaneBusy: one of them, or anybody's, is another Node of the control plane.
	Others           int
	ControlPlaneBusy bool
	// LeaseRenewed is when the kubelet renewed the Lease of its Node last, by the clock of the Node's cluster; zero if there is none.
	LeaseRenewed time.Time
}

// lookGuard is a guard that is asked once more about an action, with what was read just before.
type lookGuard struct {
	reason Reason
	asks   func(plan *Planned, d *Decision, v *health.Verdict, look *Look, now time.Time) (held bool, until time.Time, seen Seen)
}

// lookGuards are asked in this order. A freeze stops everything; the others stop what would be started.
var lookGuards = [...]lookGuard{
	{Paused, lookPaused},
	{NotConfirmed, lookNotConfirmed},
	{LeaseRenewed, lookLeaseRenewed},
}

// Confirm is a decision after a last look at the facts: what they do not bear out any more becomes a hold. v is the verdict that it rests on.
func Confirm(plan *Planned, d *Decision, v *health.Verdict, look *Look, now time.Time) Decision {
	confirmed := *d
	if d.Action == None || d.Action == Wait {
		return confirmed
	}
	confirmed.Asked = append([]Answer(nil), d.Asked...)
	for i := range lookGuards {
		held, until, seen := lookGuards[i].asks(plan, d, v, look, now)
		confirmed.Asked = append(confirmed.Asked, Answer{Guard: lookGuards[i].reason, Held: held, Until: until, Seen: seen})
		if held {
			return confirmed.held(Hold{Reason: lookGuards[i].reason, Until: until, Seen: seen}, look)
		}
	}
	return confirmed
}

// Refused is a decision whose request the API server refused to create. Seen is why, in its own words.
func Refused(d *Decision, message string, look *Look) Decision {
	return d.held(Hold{Reason: RequestFailed, Seen: Seen{Who: message}}, look)
}

// RequestFailed means: the API server refused to create its request.
const RequestFailed Reason = "RequestFailed"

// held turns a decision into a hold. What was to be started is not in flight.
func (d *Decision) held(hold Hold, look *Look) Decision {
	h := *d
	if d.starts() {
		h.InFlight, h.Budgeted, h.Attempt = look.Requested, look.Requested, 0
		h.LeaseUntil = time.Time{}
	}
	h.Action, h.Why, h.Hold, h.Until = None, "", hold, hold.Until
	h.Ledger, h.KeepHealth = look.Ledger, false
	return h
}

// starts says whether an action starts something.
func (d *Decision) starts() bool {
	return d.Action == MakeRequest || d.Action == GiveMark
}
