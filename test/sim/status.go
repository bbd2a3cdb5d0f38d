// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// trueStatus is what the status of a check must report about one view, counted from the objects of the simulated world. The core is not asked.
type trueStatus struct {
	w    *World
	c    *Check
	view *State
	conn Connection
	// health has every target; remediated are those with a request or requested owner remediation.
	health     map[string]shape
	remediated map[string]bool
	// orphaned is the number of orphaned targets, and withRequest how many of them have a request.
	orphaned, withRequest int
	overlaps              bool
	limits                limited
	// storm: there is one, if stormKnown.
	storm, stormKnown bool
}

// trueStatus counts the targets of a check in one view. started are those that get a remediation, and are not in the view.
func (w *World) trueStatus(view *State, conn Connection, c *Check, started func(target string) bool) *trueStatus {
	// The time since when a Node is missing is what was recorded on its Machine.
	recorded := *w
	recorded.log = nil
	x := &trueStatus{w: w, c: c, view: view, conn: conn, health: map[string]shape{}, remediated: map[string]bool{}, limits: recorded.count(view, conn, c)}
	each := func(name string, uid int) {
		m, n := view.pair(c, name)
		x.health[name] = recorded.judge(view, conn, c, m, n).health
		covered := coveredBy(view, c, m, n, w.Now) != ""
		byOwner := !c.ForNodes && m.Owner != "" && m.Owner != Refused && m.Unhealthy && !m.Orphan && x.health[name] != well && !covered
		x.overlaps = x.overlaps || covered
		request := requestFor(view, c, uid)
		over := kept(request, w.Now) && recorded.ownersTurn(view, c, name, x.health[name])
		x.remediated[name] = byOwner || request != nil && !over || started(name)
	}
	for name, m := range view.Machines {
		if !c.ForNodes && c.selects(m.ControlPlane, name) {
			each(name, m.UID)
		}
	}
	for name, n := range view.Nodes {
		if c.ForNodes && c.selects(n.ControlPlane, name) {
			each(name, n.UID)
		}
	}
	for _, o := range orphans(view, c) {
		if x.orphaned++; o.Request != nil {
			x.withRequest++
		}
	}
	return x
}

// count counts the targets with one of these states of health that are remediated, or are not.
func (x *trueStatus) count(remediated bool, which ...shape) int {
	n := 0
	for name, health := range x.health {
		if x.remediated[name] == remediated && slices.Contains(which, health) {
			n++
		}
	}
	return n
}

func (x *trueStatus) all(which ...shape) int {
	return x.count(true, which...) + x.count(false, which...)
}

func (x *trueStatus) unreachable() bool {
	return !x.view.NoControlPlane && (!x.conn.Up || x.conn.Breaking)
}

func (x *trueStatus) reconnecting() bool { return x.w.Now.Before(x.conn.ReconnectingUntil) }

const statusIsTrue = "the status is true"

// must is must of the world, and cheaper: a status has many numbers.
func (x *trueStatus) must(holds bool, invariant, format string, args ...any) {
	if !holds {
		x.w.must(false, invariant, format, args...)
	}
}

// audit compares a status with the truth.
func (x *trueStatus) audit(status *remedyv1.CheckStatus, before []remedyv1.UnhealthyTarget) {
	x.w.premise(statusIsTrue)
	is := func(what string, reported *int32, truth int) {
		x.must(int(ptr.Deref(reported, -1)) == truth, statusIsTrue, "%s reports %d %s of %d", x.c.Name, ptr.Deref(reported, -1), what, truth)
	}
	is("unhealthy", status.Unhealthy, x.all(ill))
	is("suspect", status.Suspect, x.all(soon))
	is("undetermined", status.Undetermined, x.all(unknown))
	blocked, waiting := 0, 0
	listed := map[string]bool{}
	for i := range status.UnhealthyTargets {
		t := &status.UnhealthyTargets[i]
		x.must(!listed[t.Name], statusIsTrue, "%s lists %s twice", x.c.Name, t.Name)
		listed[t.Name] = true
		x.listed(t, before)
		if t.Decision == remedyv1.Blocked || t.Decision == remedyv1.Observed {
			if blocked++; x.remediated[t.Name] {
				waiting++
			}
		}
	}
	for name, health := range x.health {
		x.must(listed[name] || health != ill && health != soon, statusIsTrue, "%s does not list %s", x.c.Name, name)
	}
	is("in the list", status.UnhealthyTargetsTotal, len(listed))
	is("blocked", status.Blocked, blocked)
	is("remediating", status.Remediating, len(x.remediated)-x.count(false, unknown, skipped, well, excused, soon, ill)-waiting)
	left := 0
	if x.limits.least <= x.limits.sick && x.limits.sick <= x.limits.most {
		left = x.limits.most - x.limits.sick
	}
	is("remediations allowed", status.RemediationsAllowed, left)
	is("at most unhealthy", &status.Limit.MaxUnhealthy, max(0, x.limits.most))
	x.conditions(status)
}

// listed compares a target in the status with the truth.
func (x *trueStatus) listed(t *remedyv1.UnhealthyTarget, before []remedyv1.UnhealthyTarget) {
	health := x.health[t.Name]
	wanted := map[shape]remedyv1.TargetHealth{
		ill: remedyv1.UnhealthyTargetHealth, soon: remedyv1.SuspectTargetHealth, well: remedyv1.RecoveringTargetHealth, excused: remedyv1.RecoveringTargetHealth,
	}[health]
	kept := (x.unreachable() || x.reconnecting()) && health == unknown &&
		slices.ContainsFunc(before, func(b remedyv1.UnhealthyTarget) bool { return b.Name == t.Name && b.Health == t.Health })
	x.must(t.Health == wanted || kept, statusIsTrue, "%s lists %s as %q, which is %d", x.c.Name, t.Name, t.Health, health)
	x.must(health != skipped, statusIsTrue, "%s lists %s, which an annotation excludes", x.c.Name, t.Name)
	switch t.Decision {
	case remedyv1.Remediating:
		x.must(x.remediated[t.Name], statusIsTrue, "%s reports that %s is being remediated", x.c.Name, t.Name)
		x.must(t.BlockedReason == "", statusIsTrue, "%s reports that %s is being remediated, and %s", x.c.Name, t.Name, t.BlockedReason)
	case remedyv1.Blocked:
		x.must(t.BlockedReason != "", statusIsTrue, "%s reports no reason for %s", x.c.Name, t.Name)
	case remedyv1.Observed:
		x.must(x.c.Policy.Observe, statusIsTrue, "%s observes %s", x.c.Name, t.Name)
	case remedyv1.Pending:
		x.must(health == soon, statusIsTrue, "%s reports that %s is pending", x.c.Name, t.Name)
	}
	// A status has whole seconds.
	x.must(t.NextCheckTime == nil || t.NextCheckTime.Add(time.Second).After(x.w.Now), statusIsTrue, "%s checks %s next at %v", x.c.Name, t.Name, t.NextCheckTime)
	x.must(t.SinceTime == nil || !t.SinceTime.After(x.w.Now), statusIsTrue, "%s reports %s since %v", x.c.Name, t.Name, t.SinceTime)
}

// conditions compares the conditions with the truth.
func (x *trueStatus) conditions(status *remedyv1.CheckStatus) {
	c, view := x.c, x.view
	yes := func(condition bool) metav1.ConditionStatus {
		return map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[condition]
	}
	over := x.limits.sick < x.limits.least || x.limits.sick > x.limits.most || x.limits.most <= 0 && x.limits.expected > 0
	intended := c.Deleting || c.Policy.Observe || view.Deleting || len(c.PauseRequests) > 0
	allowed := yes(!intended && !view.Missing && !x.unreachable() && !x.reconnecting() && !over && !x.storm)
	reachable := yes(!view.Missing && !x.unreachable())
	if !view.Missing && view.NoControlPlane || reachable == metav1.ConditionTrue && x.reconnecting() {
		reachable = metav1.ConditionUnknown
	}
	x.condition(status, remedyv1.ClusterReachableCondition, reachable)
	x.condition(status, remedyv1.SelectorsDisjointCondition, yes(!x.overlaps))
	x.condition(status, remedyv1.PausedCondition, metav1.ConditionFalse)
	if !x.stormKnown {
		return
	}
	x.condition(status, remedyv1.RemediationAllowedCondition, allowed)
	stuck := slices.ContainsFunc(status.UnhealthyTargets, func(t remedyv1.UnhealthyTarget) bool {
		return slices.Contains(waitsForAdmin, remediation.Reason(t.BlockedReason))
	})
	stuck = stuck || x.keptByFinalizers() || x.withoutRemediator()
	tooFew := x.limits.sick < x.limits.least && x.limits.most > 0
	// The limit is 0 only because targets are paused or skipped, and all others are healthy.
	paused := x.limits.most == 0 && x.limits.sick == 0 && x.limits.least == 0 && mostOf(&c.Policy.Limits, x.limits.expected+x.all(skipped)) > 0
	if !c.Deleting {
		ready := reachable == metav1.ConditionTrue && !x.overlaps && !stuck && (allowed == metav1.ConditionTrue || intended || tooFew || paused || x.storm && !over)
		found := meta.FindStatusCondition(status.Conditions, remedyv1.ReadyCondition)
		x.must(found != nil && (found.Status == metav1.ConditionTrue) == ready, statusIsTrue, "%s is Ready=%v, and it is %v", c.Name, found, ready)
	}
}

// keptByFinalizers reports whether finalizers keep a request of the check for too long.
func (x *trueStatus) keptByFinalizers() bool {
	for _, r := range x.view.Requests {
		m := x.view.Machines[r.Target]
		paused := m != nil && m.UID == r.TargetUID && m.Paused
		late := !r.DeletingSince.IsZero() && !x.w.Now.Before(r.DeletingSince.Add(remediation.ReleaseTimeout))
		if r.Check == x.c.Name && late && !paused {
			return true
		}
	}
	return false
}

// withoutRemediator reports whether a remediator has written nothing to a request of the check for too long.
func (x *trueStatus) withoutRemediator() bool {
	for _, r := range x.view.Requests {
		thawed, m := time.Time{}, x.view.Machines[r.Target]
		if m != nil && m.UID == r.TargetUID && !x.c.ForNodes {
			thawed = m.UnpausedAt
		}
		late := !r.Acted && r.HealthySince.IsZero() && r.DeletingSince.IsZero() && !x.w.Now.Before(began(x.c, &r.Request, thawed).Add(remediation.ActingTimeout))
		if r.Check == x.c.Name && late && (m == nil || m.UID != r.TargetUID || !m.Paused) {
			return true
		}
	}
	return false
}

// waitsForAdmin are the reasons of targets for which Ready is False.
var waitsForAdmin = []remediation.Reason{
	remediation.EscalationExhausted, remediation.InBackoff, remediation.OwnerNotActing, remediation.RequestFailed,
	remediation.PreviousStepNotReleased, remediation.RecoveryNotConfirmed,
}

// condition compares one condition. A limit that is exceeded while Nodes cannot be read is unknown.
func (x *trueStatus) condition(status *remedyv1.CheckStatus, kind string, wanted metav1.ConditionStatus) {
	found := meta.FindStatusCondition(status.Conditions, kind)
	if found == nil {
		x.must(false, statusIsTrue, "%s has no condition %s", x.c.Name, kind)
		return
	}
	unknown := kind == remedyv1.RemediationAllowedCondition && found.Status == metav1.ConditionUnknown && wanted == metav1.ConditionFalse
	x.must(found.Status == wanted || unknown, statusIsTrue, "%s has %s=%s (%s), and it is %s", x.c.Name, kind, found.Status, found.Reason, wanted)
}

const metricsAreTrue = "metrics are true"

// auditGauges compares the gauges with the truth, and with the status of the same reconcile.
func (x *trueStatus) auditGauges(o *metrics.Observation, status *remedyv1.CheckStatus) {
	x.w.premise(metricsAreTrue)
	is := func(what string, observed, truth int) {
		x.must(observed == truth, metricsAreTrue, "%s has %d %s of %d", x.c.Name, observed, what, truth)
	}
	is("remediating", o.States[explain.Remediating], x.count(true, unknown, skipped, well, excused, soon, ill)+x.withRequest)
	is("unhealthy", o.States[explain.Unhealthy], x.count(false, ill))
	is("suspect", o.States[explain.Suspect], x.count(false, soon))
	is("undetermined", o.States[explain.Undetermined], x.count(false, unknown))
	is("healthy", o.States[explain.Healthy], x.count(false, well, excused))
	is("skipped", o.States[explain.Skipped], x.count(false, skipped)+x.orphaned-x.withRequest)
	is("not healthy", o.LimitState.Unhealthy, x.limits.sick)
	is("at most", o.LimitState.Limit, x.limits.most)
	listed, excepted := map[string]int{}, x.all(skipped)
	for i := range status.UnhealthyTargets {
		if t := &status.UnhealthyTargets[i]; t.BlockedReason != "" {
			listed[string(t.BlockedReason)]++
		}
	}
	// The status does not list targets that an annotation excludes.
	unlisted := 0
	for reason, n := range o.Blocked {
		unlisted += n - listed[reason]
		delete(listed, reason)
	}
	x.must(0 <= unlisted && unlisted <= excepted && len(listed) == 0, metricsAreTrue, "%s has blocked %v, and lists %+v", x.c.Name, o.Blocked, status.UnhealthyTargets)
	x.must(slices.Equal(o.Conditions, status.Conditions), metricsAreTrue, "the conditions of %s", x.c.Name)
}
