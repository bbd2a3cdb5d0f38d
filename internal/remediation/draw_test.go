// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

var noon = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

// Times are drawn close together and often equal, as it is at the edges where guards go wrong.
func drawTime(t *rapid.T, name string) time.Time {
	return ago(time.Duration(rapid.IntRange(-3, 40).Draw(t, name)) * time.Minute)
}

func maybeTime(t *rapid.T, name string) time.Time {
	if often(t, "no "+name) {
		return time.Time{}
	}
	return drawTime(t, name)
}

// rarely is true now and then. Rapid likes the ends of a range, so that neither of them is chosen.
func rarely(t *rapid.T, name string) bool { return rapid.IntRange(0, 15).Draw(t, name) == 4 }
func often(t *rapid.T, name string) bool  { return rapid.IntRange(0, 9).Draw(t, name) != 4 }

func some[T any](t *rapid.T, name string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, name)
}

func drawPolicy(t *rapid.T, targets int) Policy {
	p := Policy{
		Limits: Limits{Default: intstr.FromString("100%")}, Counting: some(t, "counting", CountNotHealthy, CountUnhealthy),
		Backoff:            Backoff{Initial: time.Minute, Limit: 10 * time.Minute},
		StormCooldown:      time.Duration(max(0, rapid.IntRange(-9, 9).Draw(t, "cooldown"))) * time.Minute,
		HealthyDelay:       time.Duration(max(0, rapid.IntRange(-5, 5).Draw(t, "healthy delay"))) * time.Minute,
		RecoveryConfirmed:  rapid.IntRange(0, 4).Draw(t, "recovery confirmed") == 2,
		Observe:            rarely(t, "observe"),
		ReplacementTimeout: 10 * time.Minute,
	}
	limit := intstr.FromInt32(rapid.Int32Range(0, int32(targets)+1).Draw(t, "limit"))
	switch rapid.IntRange(0, 6).Draw(t, "limits") {
	case 1:
		p.Limits.MaxUnhealthy = &limit
	case 2:
		p.Limits.MinHealthy = &limit
	case 3:
		p.Limits.Range = &Range{Min: rapid.IntRange(0, limit.IntValue()).Draw(t, "least"), Max: limit.IntValue()}
	}
	if rapid.Bool().Draw(t, "limited") {
		slots := intstr.FromInt32(rapid.Int32Range(1, int32(targets)+1).Draw(t, "max in flight"))
		p.MaxInFlight = &slots
	}
	steps := rapid.IntRange(0, 3).Draw(t, "steps")
	for i := range steps {
		p.Steps = append(p.Steps, Step{ID: drawStepID(t, int32(i)), Timeout: 30 * time.Minute, Unresolved: rarely(t, "unresolved")})
		if rarely(t, "needs a Machine") {
			p.Steps[i].NeedsMachineIn = "prod"
		}
		if rarely(t, "for a cause") {
			p.Steps[i].Conditions = []Cause{{Type: "Ready", Status: some(t, "status of cause", "Unknown", "False")}}
		}
	}
	if steps == 0 || rapid.Bool().Draw(t, "owner last") {
		p.Steps = append(p.Steps, Step{ID: StepID{Order: 9}, Owner: true})
	}
	return p
}

func drawStepID(t *rapid.T, order int32) StepID {
	return StepID{Order: order, Template: some(t, "template", "A/a", "B/b")}
}

func drawVerdict(t *rapid.T) health.Verdict {
	kind := some(
		t, "kind", health.Unhealthy, health.Unhealthy, health.Unhealthy, health.Healthy, health.Suspect, health.Undetermined, health.Skipped,
	)
	v := health.Verdict{Kind: kind}
	switch kind {
	case health.Skipped:
		v.Reason = some(t, "skipped", health.Paused, health.SkipRemediation)
	case health.Undetermined:
		v.Reason = some(t, "undetermined", health.ReconnectGracePeriod, health.NodeUnreadable, health.Deleting)
	case health.Suspect, health.Unhealthy:
		f := health.Finding{
			Rule:  some(t, "rule", health.UnhealthyNode, health.UnhealthyNode, health.HasRemediateAnnotation, health.UnhealthyMachine, health.NodeDeleted),
			Since: drawTime(t, "since"), Met: kind == health.Unhealthy, Lasting: 5 * time.Minute,
		}
		f.Due = f.Since.Add(f.Lasting)
		if f.Rule == health.UnhealthyNode {
			f.Condition, f.Status = "Ready", some(t, "status", "Unknown", "False")
		}
		v.Reason, v.Since, v.Findings = f.Rule, f.Since, []health.Finding{f}
		if kind == health.Suspect {
			v.Until = noon.Add(time.Minute)
		}
	case health.Healthy:
	}
	if v.Reason == health.NodeDeleted {
		v.NodeGoneSince = v.Since
	}
	return v
}

func drawRequest(t *rapid.T, p *Policy) *Request {
	if rapid.IntRange(0, 2).Draw(t, "request") != 1 {
		return nil
	}
	r := &Request{Step: drawStepID(t, rapid.Int32Range(0, 2).Draw(t, "order")), Attempt: rapid.IntRange(1, 3).Draw(t, "attempt"), Started: drawTime(t, "started")}
	if step := rapid.SampledFrom(p.Steps).Draw(t, "step"); !step.Owner && often(t, "a step of the check") {
		r.Step = step.ID
	}
	r.DeletingSince, r.HealthySince = maybeTime(t, "deleting"), maybeTime(t, "healthy since")
	r.TimedOut, r.NodeDeletionExpected = rarely(t, "timed out"), rapid.Bool().Draw(t, "deletes the Node")
	r.Failed = rarely(t, "failed")
	r.Succeeded = !r.Failed && rarely(t, "succeeded")
	return r
}

func drawTarget(t *rapid.T, p *Policy, i int) Target {
	target := Target{
		Name: fmt.Sprintf("m%02d", i), Node: fmt.Sprintf("n%02d", i), ControlPlane: rapid.IntRange(0, 3).Draw(t, "control plane") >= 2,
		Owner: "MachineSet/a", Unread: rarely(t, "unread"), Excluded: rarely(t, "excluded"), Confirmed: rarely(t, "confirmed"), Request: drawRequest(t, p),
		History: History{NotBefore: maybeTime(t, "not before")}, DeletingSince: maybeTime(t, "deleting"),
		NodeDeletingSince: maybeTime(t, "node deleting"),
	}
	if !target.History.NotBefore.IsZero() {
		target.History.Failures = rapid.IntRange(1, 3).Draw(t, "failures")
	}
	if rarely(t, "tried") {
		target.History.Tried = drawStepID(t, rapid.Int32Range(0, 2).Draw(t, "order"))
	}
	if rarely(t, "covered") {
		target.CoveredBy = "MachineHealthCheck/other"
	}
	if rarely(t, "node gone") {
		target.NodeGoneSince = drawTime(t, "node gone since")
	}
	target.UnpausedAt = maybeTime(t, "unpaused")
	if rarely(t, "leaving") {
		target.Terminating = Departure{Sign: "taint", Since: maybeTime(t, "leaving since")}
	}
	if rarely(t, "no owner") {
		target.Owner = ""
	}
	if rapid.IntRange(0, 2).Draw(t, "mark") == 1 {
		target.OwnerRemediation = OwnerRemediation{Requested: true, MarkedByThis: often(t, "marked by this"), Since: drawTime(t, "marked"), Refused: rapid.IntRange(0, 4).Draw(t, "refused") == 2}
		target.OwnerRemediation.RequestedByThis = target.OwnerRemediation.MarkedByThis && often(t, "requested by this")
		target.OwnerRemediation.Waiting = !target.OwnerRemediation.Refused && rapid.Bool().Draw(t, "waiting")
	}
	if target.OwnerRemediation.HandedOverAt = maybeTime(t, "handed over"); target.OwnerRemediation.Requested {
		target.OwnerRemediation.HandedOverAt = time.Time{}
	}
	if target.Request == nil && rarely(t, "request deleted") {
		// It is the last one: no later step was tried.
		target.DeletedRequests = DeletedRequests{Times: 1, Last: &Request{Step: drawStepID(t, target.History.Tried.Order), Attempt: 1}}
	}
	if target.Request == nil && rarely(t, "name taken") {
		target.RequestNameConflict = "another request"
	}
	if target.Lease.Used = rapid.Bool().Draw(t, "leases"); target.Lease.Used && rapid.IntRange(0, 3).Draw(t, "lease") == 2 {
		target.Lease.Until, target.Lease.HeldByThis = drawTime(t, "lease until"), rapid.Bool().Draw(t, "held by this")
		target.Lease.Holder = "other"
	}
	return target
}

func drawStray(t *rapid.T, p *Policy, i int) Orphan {
	s := Orphan{Name: fmt.Sprintf("gone%02d", i), Paused: rarely(t, "frozen"), Gone: rapid.Bool().Draw(t, "gone"), Request: drawRequest(t, p)}
	if rarely(t, "noted") {
		s.History.Failures = 1
	}
	s.Marked = s.Request == nil || rapid.Bool().Draw(t, "marked")
	s.ControlPlane = rapid.Bool().Draw(t, "orphan of the control plane")
	return s
}

func drawCheck(t *rapid.T) Check {
	c := Check{Paused: rarely(t, "frozen"), Deleting: rarely(t, "deleting"), Unreachable: rarely(t, "unreachable"), Reconnecting: rarely(t, "first look"), Uninitialized: rarely(t, "uninitialized")}
	c.Renewing = c.Unreachable && rapid.Bool().Draw(t, "renewing")
	c.Cluster = some(
		t, "cluster", ClusterFound, ClusterFound, ClusterFound, ClusterFound, ClusterFound, ClusterFound, ClusterFound, ClusterIsDeleting,
		ClusterIsMissing,
	)
	if rarely(t, "clocks differ") {
		c.ClockOffset = time.Minute
	}
	c.KubeletsUntil = maybeTime(t, "kubelets return")
	c.UnpausedAt = maybeTime(t, "check unpaused")
	if rarely(t, "pause requests") {
		c.PauseRequests = []string{"an upgrade", "a holiday"}
	}
	if c.Storm.Since = maybeTime(t, "storm"); !c.Storm.Since.IsZero() {
		c.Storm.CooldownSince = maybeTime(t, "cooldown since")
	}
	return c
}

func drawControlPlane(t *rapid.T, n int) ControlPlane {
	c := ControlPlane{Etcd: Etcd{State: some(t, "etcd", EtcdStacked, EtcdStacked, EtcdStacked, EtcdExternal, EtcdUnreadable)}}
	if rarely(t, "busy") {
		c.Busy = []string{fmt.Sprintf("n%02d", rapid.IntRange(0, n+1).Draw(t, "busy node"))}
	}
	if c.Lease.Used = rapid.Bool().Draw(t, "turns"); c.Lease.Used && rapid.IntRange(0, 3).Draw(t, "turn") == 2 {
		c.Lease.Until, c.Lease.HeldByThis = drawTime(t, "turn until"), rapid.Bool().Draw(t, "control-plane lease held by this")
		c.Lease.Holder = "other"
	}
	for range rapid.IntRange(1, 5).Draw(t, "members") {
		m := Member{Node: fmt.Sprintf("n%02d", rapid.IntRange(0, min(n, 4)).Draw(t, "member")), Healthy: rapid.IntRange(0, 3).Draw(t, "member healthy") != 2}
		m.Unhealthy = !m.Healthy && rapid.Bool().Draw(t, "member unhealthy")
		c.Etcd.Members = append(c.Etcd.Members, m)
	}
	if len(c.Etcd.Members) == 1 {
		c.Etcd.Members[0].Node = "n02"
	}
	return c
}

// drawn is everything that a plan is made of.
type drawn struct {
	situation  Situation
	assessment health.Assessment
	policy     Policy
}

func draw(t *rapid.T) drawn {
	n := rapid.IntRange(0, 8).Draw(t, "targets")
	d := drawn{policy: drawPolicy(t, n)}
	// In half of the cases nothing bars everything from the outset, or what comes last would hardly be seen.
	calm := rapid.Bool().Draw(t, "calm")
	if d.situation.ControlPlane = drawControlPlane(t, n); !calm {
		d.situation.Check = drawCheck(t)
	}
	verdicts := make([]health.Verdict, 0, n)
	for i := range n {
		verdicts = append(verdicts, drawVerdict(t))
		d.situation.Targets = append(d.situation.Targets, drawTarget(t, &d.policy, i))
		if single := len(d.situation.ControlPlane.Etcd.Members) == 1; single {
			d.situation.Targets[i].ControlPlane = i == 2
		}
		if last := &d.situation.Targets[i]; calm && i > 1 {
			last.Request, last.OwnerRemediation.Requested, last.DeletingSince = nil, last.OwnerRemediation.Refused, time.Time{}
		}
	}
	d.assessment = assessed(verdicts)
	for i := range max(0, rapid.IntRange(-6, 2).Draw(t, "orphaned targets")) {
		d.situation.Orphans = append(d.situation.Orphans, drawStray(t, &d.policy, i))
	}
	for i := range max(0, rapid.IntRange(-6, 3).Draw(t, "replacing")) {
		r := Replacement{Target: fmt.Sprintf("r%02d", i), Owner: some(t, "owner", "MachineSet/a", "MachineSet/b"), GoneSince: maybeTime(t, "gone since")}
		d.situation.Replacing = append(d.situation.Replacing, r)
	}
	d.situation.Owners = []Owner{{Name: "MachineSet/a", Desired: 3, WithNode: rapid.IntRange(1, 4).Draw(t, "with node")}}
	return d
}

// assessed is the assessment with these verdicts.
func assessed(verdicts []health.Verdict) health.Assessment {
	a := health.Assessment{Verdicts: verdicts}
	for i := range verdicts {
		if verdicts[i].Kind != health.Skipped {
			a.Counts.Expected++
		}
		switch verdicts[i].Kind {
		case health.Healthy:
			a.Counts.Healthy++
		case health.Unhealthy:
			a.Counts.Unhealthy++
		case health.Suspect:
			a.Counts.Suspect++
		case health.Undetermined:
			a.Counts.Undetermined++
		case health.Skipped:
			a.Counts.Skipped++
		}
		a.WakeUp = health.Earliest(a.WakeUp, verdicts[i].Until)
	}
	return a
}

func (d *drawn) plan() Planned { return Plan(&d.situation, &d.assessment, &d.policy, noon) }
