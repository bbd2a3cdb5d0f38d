// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

const (
	moment = time.Nanosecond
	owner  = "MachineSet/a"
)

// The steps of the tables: two with templates, and one of owner remediation.
var (
	stepA = StepID{Order: 1, Template: "A/a"}
	stepB = StepID{Order: 2, Template: "B/b"}
	stepO = StepID{Order: 9}
)

// scene is everything that a plan is made of.
type scene struct {
	situation Situation
	verdicts  []health.Verdict
	policy    Policy
}

// option changes a scene, so that a row shows only what matters.
type option func(*scene)

// usual is one worker that is unhealthy, about which nothing has been done yet: all that a check has to do is to start its only step.
func usual(options ...option) *scene {
	x := &scene{
		situation: Situation{Targets: []Target{{Name: "m1", Node: "n1", Owner: owner}}},
		verdicts:  []health.Verdict{sickFor(time.Hour)},
		policy: Policy{
			Limits: Limits{Default: intstr.FromString("100%")}, Backoff: Backoff{Initial: time.Minute, Limit: 10 * time.Minute},
			ReplacementTimeout: 10 * time.Minute, Steps: []Step{{ID: stepA, Timeout: 10 * time.Minute}},
		},
	}
	for _, o := range options {
		o(x)
	}
	return x
}

func (x *scene) plan() Planned {
	a := assessed(x.verdicts)
	return Plan(&x.situation, &a, &x.policy, noon)
}

// alone is the result of one guard for the first target, without the other guards.
func (x *scene) alone(reason Reason) []Answer {
	var only []guard
	for _, each := range guards {
		if each.reason == reason {
			only = append(only, each)
		}
	}
	a := assessed(x.verdicts)
	return planWith(only, &x.situation, &a, &x.policy, noon).Decisions[0].Answers
}

func target(change func(*Target)) option { return func(x *scene) { change(&x.situation.Targets[0]) } }
func check(change func(*Check)) option   { return func(x *scene) { change(&x.situation.Check) } }
func policy(change func(*Policy)) option { return func(x *scene) { change(&x.policy) } }
func is(v health.Verdict) option         { return func(x *scene) { x.verdicts[0] = v } }
func etcd(e Etcd) option                 { return func(x *scene) { x.situation.ControlPlane.Etcd = e } }
func steps(all ...Step) option           { return func(x *scene) { x.policy.Steps = all } }

func pausedCheck(x *scene)           { x.situation.Check.Paused = true }
func excluded(x *scene)              { x.situation.Targets[0].Excluded = true }
func markedByThis(x *scene)          { x.situation.Targets[0].OwnerRemediation.MarkedByThis = true }
func hasTried(id StepID) option      { return target(func(t *Target) { t.History.Tried = id }) }
func nameTakenBy(name string) option { return target(func(t *Target) { t.RequestNameConflict = name }) }
func unpausedAt(at time.Time) option { return check(func(c *Check) { c.UnpausedAt = at }) }
func limitedTo(r *Range) option      { return policy(func(p *Policy) { p.Limits.Range = r }) }
func heldUntil(until time.Time) Lease {
	return Lease{Used: true, Holder: "node-maintenance", Until: until}
}
func heldByThis(until time.Time) Lease { return Lease{HeldByThis: true, Until: until} }

// signed is the annotation of this check, without any condition.
var signed = OwnerRemediation{MarkedByThis: true}

// turn is a Lease of the control plane.
func turn(l Lease) option { return func(x *scene) { x.situation.ControlPlane.Lease = l } }

// alsoSick adds another cause to the first target, and soonSick one that is only about to be.
func alsoSick(x *scene) {
	x.verdicts[0].Findings = append(slices.Clone(x.verdicts[0].Findings), readyUnknownFor(time.Hour))
}

func soonSick(x *scene) {
	x.verdicts[0].Findings = append(slices.Clone(x.verdicts[0].Findings), readyUnknownFor(time.Minute))
}

// also adds a target.
func also(t Target, v health.Verdict) option {
	return func(x *scene) {
		x.situation.Targets, x.verdicts = append(x.situation.Targets, t), append(x.verdicts, v)
	}
}

func orphan(s Orphan) option {
	return func(x *scene) { x.situation.Orphans = append(x.situation.Orphans, s) }
}

// byOwner hands the target to its owner. twoSteps asks one remediator after the other.
func byOwner(x *scene) {
	x.policy.Steps, x.policy.ReportsHealth = []Step{{ID: stepO, Owner: true}}, true
}

func twoSteps(x *scene) {
	x.policy.Steps = []Step{{ID: stepA, Timeout: 10 * time.Minute}, {ID: stepB, Timeout: 10 * time.Minute}}
}
func slots(n int32) option { return func(x *scene) { x.policy.MaxInFlight = number(n) } }

// ofControlPlane makes it one of three Nodes of a control plane, whose others are well.
func ofControlPlane(x *scene) {
	x.situation.Targets[0].ControlPlane = true
	x.situation.ControlPlane.Etcd = members(3, "n2", "n3")
}

// members are so many members of etcd, on n1, n2 and so on, of which those named are healthy. The health of the others is unknown.
func members(n int, healthy ...string) Etcd {
	e := Etcd{State: EtcdStacked}
	for i := range n {
		m := Member{Node: "n" + string(rune('1'+i))}
		for _, name := range healthy {
			m.Healthy = m.Healthy || name == m.Node
		}
		e.Members = append(e.Members, m)
	}
	return e
}

// requested is a request for the first step, made a minute ago.
func requested(changes ...func(*Request)) option {
	return target(func(t *Target) {
		t.Request = &Request{Step: stepA, Attempt: 1, Started: ago(time.Minute)}
		for _, change := range changes {
			change(t.Request)
		}
	})
}

// lost is the same for an orphaned target.
func lost(changes ...func(*Request)) *Request {
	r := &Request{Step: stepA, Attempt: 1, Started: ago(time.Minute)}
	for _, change := range changes {
		change(r)
	}
	return r
}

// marked is a mark that this check gave a minute ago, and that the owner has not answered.
func marked(changes ...func(*OwnerRemediation)) option {
	return target(func(t *Target) {
		t.OwnerRemediation = OwnerRemediation{Requested: true, MarkedByThis: true, RequestedByThis: true, Waiting: true, Since: ago(time.Minute)}
		for _, change := range changes {
			change(&t.OwnerRemediation)
		}
	})
}

func sickFor(d time.Duration) health.Verdict {
	return health.Verdict{Kind: health.Unhealthy, Reason: health.UnhealthyNode, Since: ago(d), Findings: []health.Finding{readyUnknownFor(d)}}
}

func readyUnknownFor(d time.Duration) health.Finding {
	return health.Finding{
		Rule: health.UnhealthyNode, Met: d >= 5*time.Minute, Since: ago(d), Due: ago(d).Add(5 * time.Minute), Lasting: 5 * time.Minute,
		Condition: string(corev1.NodeReady), Status: string(corev1.ConditionUnknown),
	}
}

var (
	well    = health.Verdict{Kind: health.Healthy}
	suspect = health.Verdict{
		Kind: health.Suspect, Reason: health.UnhealthyNode, Since: ago(time.Minute), Until: ago(-4 * time.Minute), Findings: []health.Finding{readyUnknownFor(time.Minute)},
	}
	unreadable = health.Verdict{Kind: health.Undetermined, Reason: health.NodeUnreadable}
	leftAlone  = health.Verdict{Kind: health.Skipped, Reason: health.SkipRemediation}
	paused     = health.Verdict{Kind: health.Skipped, Reason: health.Paused}
	calledWell = health.Verdict{Kind: health.Healthy, Reason: health.InfrastructureNotReady}
	wished     = health.Verdict{
		Kind: health.Unhealthy, Reason: health.HasRemediateAnnotation, Findings: []health.Finding{{Rule: health.HasRemediateAnnotation, Met: true}},
	}
)

// row is a scene, and what is decided about its first target.
type row struct {
	why     string
	options []option
	want    Decision
}

func decides(why string, want Decision, options ...option) row { return row{why, options, want} }

// decide runs the rows. What the guards were asked on the way, and who signs, is looked at elsewhere.
func decide(t *testing.T, rows []row, base ...option) {
	t.Helper()
	for _, test := range rows {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			got := usual(append(append([]option{}, base...), test.options...)...).plan().Decisions[0]
			got.Answers, got.MarkedBy = nil, false
			g.Expect(got).To(Equal(test.want))
		})
	}
}
