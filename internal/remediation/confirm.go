// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"slices"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// Look is what was read again, uncached, just before an act: exactly what the act rests on.
type Look struct {
	// Failed: something could not be read, or, where it is Unwritten, not be written that has to stand first.
	Failed, Unwritten bool
	// Late: the pass has taken so long that nothing more is begun in it.
	Late bool
	// Cause is why something could not be read, the Node among it; empty if that is not known. It is fit to be shown.
	Cause string
	// LeaseUnread: it is not known whether the kubelet has renewed its Lease. That matters for what is begun only.
	LeaseUnread bool
	// RequestsUnread: it is not known whether there is a request for it that was not seen. That matters for what is begun only.
	RequestsUnread bool
	// Frozen: the check, its Cluster or the target is paused now.
	Frozen bool
	// Changed: the check is not the one that was planned for, by its spec, its deletion or its storm; or its Cluster is about to go and was not.
	Changed bool
	// Verdict is what follows from the facts as they are now.
	Verdict health.Verdict
	// Target is as it is now.
	Target Target
	// Others is how many other targets take up a place now.
	Others int
	// ControlPlane is as it is now; of those that are busy, also the ones of this check. It is read for Nodes of the control plane only.
	ControlPlane ControlPlane
	// LeaseRenewed is when the kubelet renewed the Lease of its Node last, by the clock of the Node's cluster; zero if there is none.
	LeaseRenewed time.Time
}

// lookGuard is a guard that is asked once more about an action, with what was read just before.
type lookGuard struct {
	reason Reason
	about  scope
	asks   func(l *lastLook) (held bool, until time.Time, seen Seen)
}

// lastLook is one decision that is looked at once more: what was planned for a target, on which verdict, and what was read since.
type lastLook struct {
	plan *Planned
	t    *Target
	d    *Decision
	v    *health.Verdict
	look *Look
	now  time.Time
}

// lookGuards are asked in this order. A freeze stops everything; the others stop what would be started.
var lookGuards = [...]lookGuard{
	{Paused, anything, lookPaused},
	{NotConfirmed, anything, lookNotConfirmed},
	{Leaving, requests, lookTarget(guardLeaving)},
	{Excluded, starts, lookTarget(guardExcluded)},
	{OwnerRefuses, marks, lookTarget(guardOwnerRefuses)},
	{AnnotationNotRemoved, requests, lookAnnotationNotRemoved},
	{NameTaken, requests, lookTarget(guardNameTaken)},
	{LeaseTaken, requests, lookTarget(guardLeaseTaken)},
	{ControlPlaneBusy, requests, lookControlPlane(guardControlPlaneBusy)},
	{QuorumUnknown, requests, lookControlPlane(guardQuorumUnknown)},
	{SingleControlPlane, requests, lookControlPlane(guardSingleControlPlane)},
	{QuorumAtRisk, requests, lookControlPlane(guardQuorumAtRisk)},
	{LeaseRenewed, anything, lookLeaseRenewed},
}

// lookTarget asks a guard of the target once more: with the target as it is now.
func lookTarget(asks func(p *pass, t *Target, c *candidate) (bool, time.Time, Seen)) func(l *lastLook) (bool, time.Time, Seen) {
	return func(l *lastLook) (held bool, until time.Time, seen Seen) {
		return asks(&pass{now: l.now}, &l.look.Target, &candidate{step: Step{Owner: l.d.Action == GiveMark}})
	}
}

// lookControlPlane asks a guard of the control plane once more: with its members as they are now.
func lookControlPlane(asks func(p *pass, t *Target, c *candidate) (bool, time.Time, Seen)) func(l *lastLook) (bool, time.Time, Seen) {
	return func(l *lastLook) (held bool, until time.Time, seen Seen) {
		return asks(&pass{s: &Situation{ControlPlane: l.look.ControlPlane}, now: l.now}, l.t, nil)
	}
}

// Confirm is a decision about a target after a last look at the facts: what they do not bear out any more becomes a hold. v is the verdict
// that the decision rests on. It is asked whenever a decision leads to any write.
func Confirm(plan *Planned, t *Target, d *Decision, v *health.Verdict, look *Look, now time.Time) Decision {
	last := &lastLook{plan: plan, t: t, d: d, v: v, look: look, now: now}
	if d.Action == None || d.Action == Wait {
		// Nothing is done, only noted down. Of what could not be read nobody knows whether it is paused, and another check is for another pass.
		if look.Frozen || look.Failed || look.Changed {
			return d.unnoted(t)
		}
		return *d
	}
	asked := slices.Clone(d.Asked)
	for i := range lookGuards {
		if !lookGuards[i].about.includes(d.Action) {
			continue
		}
		held, until, seen := lookGuards[i].asks(last)
		if !held {
			until = time.Time{}
		}
		asked = append(asked, Answer{Guard: lookGuards[i].reason, Held: held, Again: true, Until: until, Seen: seen})
		if held {
			h := d.held(t, Hold{Reason: lookGuards[i].reason, Until: until, Seen: seen})
			h.Asked = asked
			// What holds it is one thing, and its health another: that is still told, and signed.
			if h.Unconfirmed = !last.bornOut(); !h.Unconfirmed && !look.Frozen {
				h.Author = h.Author || d.Author
			}
			// Without a request there is nothing that others have to be kept from.
			if t.Request == nil && !look.Frozen && !look.Failed {
				h.LeaseUntil, h.DropConfirmation = time.Time{}, d.DropConfirmation
			}
			return h
		}
	}
	confirmed := *d
	confirmed.Asked = asked
	return confirmed
}

// bornOut says whether what was read just before the act is what the verdict rests on.
func (l *lastLook) bornOut() bool {
	now := &l.look.Verdict
	return !l.look.Failed && now.Kind == l.v.Kind && now.Reason == l.v.Reason && now.Since.Equal(l.v.Since)
}

// Again plans once more when decisions to start something were held at a last look or refused: their places are free for others. The plan is
// amended by what is new, of which it returns the targets. What was done already stays; the situation remembers who was held back.
func Again(plan *Planned, s *Situation, a *health.Assessment, policy *Policy, now time.Time) []int {
	held := false
	for i := range plan.Decisions {
		hold := &plan.Decisions[i].Hold
		if asked := plan.Decisions[i].Asked; len(asked) > 0 && hold.Reason != "" && (asked[len(asked)-1].Again || hold.Reason == RequestFailed) && s.Targets[i].HeldBack.Reason == "" {
			s.Targets[i].HeldBack, held = *hold, true
		}
	}
	if !held {
		return nil
	}
	var news []int
	next := Plan(s, a, policy, now)
	for i := range next.Decisions {
		d := &plan.Decisions[i]
		switch {
		case d.Hold.Reason == "" || s.Targets[i].HeldBack.Reason != "":
		case next.Decisions[i].starts():
			*d = next.Decisions[i]
			news = append(news, i)
		case next.Decisions[i].Hold.Reason != "":
			// What has kept it may not be there any more, and it is something else by now.
			d.Hold, d.Until, d.Asked = next.Decisions[i].Hold, next.Decisions[i].Until, next.Decisions[i].Asked
		}
	}
	// What is handed to an owner has to be remembered before, now as then.
	plan.Replacing = next.Replacing
	return news
}

// Refused is a decision whose request the API server refused to create. The message is why, in its own words.
func Refused(d *Decision, t *Target, message string) Decision {
	return d.held(t, Hold{Reason: RequestFailed, Seen: Seen{Who: message}})
}

// RequestFailed means: the API server refused to create its request.
const RequestFailed Reason = "RequestFailed"

// held turns a decision into a hold. Nothing is written for it, and what was to be started is not in flight.
func (d *Decision) held(t *Target, hold Hold) Decision {
	h := d.unnoted(t)
	if d.starts() {
		h.InFlight, h.Budgeted, h.Attempt, h.TurnUntil = false, false, 0, time.Time{}
	}
	h.Action, h.Why, h.Hold, h.Until = None, "", hold, hold.Until
	return h
}

// unnoted is a decision that changes nothing of what is remembered.
func (d *Decision) unnoted(t *Target) Decision {
	h := *d
	h.DropConfirmation = false
	h.Ledger, h.Author, h.NodeGoneSince, h.HealthySince, h.LeaseUntil = t.Ledger, t.Mark.Ours, t.NodeGoneSince, time.Time{}, time.Time{}
	if t.Request != nil {
		h.HealthySince = t.Request.HealthySince
	}
	if t.Lease.Ours {
		h.LeaseUntil = t.Lease.Until
	}
	return h
}

// starts says whether an action starts something.
func (d *Decision) starts() bool {
	return d.Action == MakeRequest || d.Action == GiveMark
}
