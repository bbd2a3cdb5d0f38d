// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// obstacle is one reason to block a target, for the steps to which its guard applies.
type obstacle struct {
	reason          Reason
	request, byMark bool
	option          option
}

// in reports whether its guard applies to owner remediation, or to a step with a template.
func (o *obstacle) in(byOwner bool) bool {
	if byOwner {
		return o.byMark
	}
	return o.request
}

// The order in which obstacles are reported. It is repeated here, because users see it.
var obstacles = []obstacle{
	{Paused, true, true, pausedCheck},
	{CheckDeleting, true, true, goes},
	{ClusterNotFound, true, true, clusterIs(ClusterIsMissing)},
	{ClusterDeleting, true, true, clusterIs(ClusterIsDeleting)},
	{ManagedByOtherCheck, true, true, coveredBy("MachineHealthCheck/other")},
	{StuckDeleting, true, true, deletingFor(time.Hour)},
	{Terminating, true, true, deletingFor(time.Minute)},
	{NoStepForCondition, true, true, policy(func(p *Policy) { p.Steps[0].Conditions = []Cause{{Type: "DiskPressure"}} })},
	{Excluded, true, true, excluded},
	{NoRemediatingOwner, false, true, target(func(t *Target) { t.Owner = "" })},
	{OwnerRefuses, false, true, marked(func(m *OwnerRemediation) { m.Refused, m.Waiting, m.MarkedByThis = true, false, false })},
	{PauseRequested, true, true, pauseRequested},
	{ClockSkew, true, true, check(func(c *Check) { c.ClockOffset = time.Minute })},
	{ReconnectGracePeriod, true, true, check(func(c *Check) { c.KubeletsUntil = ago(-time.Minute) })},
	{ClusterUnreachable, true, true, unreachable},
	{TooManyUnhealthy, true, true, limited(0)},
	{TooFewUnhealthy, true, true, limitedTo(&Range{5, 9})},
	{InStorm, true, true, func(x *scene) { cooldown(x); stormy(time.Minute)(x) }},
	{AnnotationNotRemoved, true, false, func(x *scene) { is(wished)(x); remembers(1, ago(-time.Minute))(x) }},
	{EscalationExhausted, true, false, func(x *scene) {
		x.policy.Steps = append(x.policy.Steps, Step{ID: StepID{Order: 10, Template: "Z/z"}})
		remembers(1, ago(-time.Minute))(x)
	}},
	{InBackoff, true, false, remembers(1, ago(-time.Minute))},
	{TemplateNotResolved, true, false, policy(func(p *Policy) { p.Steps[0].Unresolved = true })},
	{NoMachine, true, false, policy(func(p *Policy) { p.Steps[0].NeedsMachineIn = "prod" })},
	{RequestNameConflict, true, false, nameTakenBy("for another target")},
	{NodeLeaseHeld, true, false, lease(heldUntil(ago(-time.Minute)))},
	{ControlPlaneBusy, true, false, func(x *scene) { x.situation.Targets[0].ControlPlane = true; busyWith("n9")(x) }},
	{QuorumUnknown, true, false, func(x *scene) { x.situation.Targets[0].ControlPlane = true; etcd(Etcd{})(x) }},
	{SingleControlPlane, true, false, func(x *scene) { x.situation.Targets[0].ControlPlane = true; etcd(members(1))(x) }},
	{QuorumAtRisk, true, false, func(x *scene) { x.situation.Targets[0].ControlPlane = true; etcd(members(3, "n2"))(x) }},
	{MaxInFlight, true, true, func(x *scene) { slots(1)(x); inFlightToo(false)(x) }},
	{ObserveMode, true, true, observes},
}

// external is a control plane with external etcd, so its quorum guards block only where a row wants them to.
func external(x *scene) { etcd(Etcd{State: EtcdExternal})(x) }

// exclusive are obstacles that cannot stand side by side: a Cluster is in one state, and a check that is being deleted has no wait ahead, and no
// storm.
var exclusive = map[[2]Reason]bool{
	// One that observes is asked as if it was alone.
	{ManagedByOtherCheck, ObserveMode}: true,
	{ClusterNotFound, ClusterDeleting}: true, {StuckDeleting, Terminating}: true, {TooManyUnhealthy, TooFewUnhealthy}: true,
	{CheckDeleting, EscalationExhausted}: true, {EscalationExhausted, ObserveMode}: true, {ClusterNotFound, EscalationExhausted}: true,
	{CheckDeleting, InBackoff}: true, {InBackoff, ObserveMode}: true, {ClusterNotFound, InBackoff}: true, {InStorm, ObserveMode}: true,
	{CheckDeleting, AnnotationNotRemoved}: true, {AnnotationNotRemoved, ObserveMode}: true, {ClusterNotFound, AnnotationNotRemoved}: true,
	// What does not apply to any step.
	{NoStepForCondition, NoRemediatingOwner}: true, {NoStepForCondition, OwnerRefuses}: true, {NoStepForCondition, EscalationExhausted}: true,
	{NoStepForCondition, TemplateNotResolved}: true, {NoStepForCondition, NoMachine}: true,
	// A wish needs no Node to confirm it.
	{ClusterUnreachable, AnnotationNotRemoved}: true, {ReconnectGracePeriod, AnnotationNotRemoved}: true,
	{QuorumUnknown, SingleControlPlane}: true, {QuorumUnknown, QuorumAtRisk}: true, {SingleControlPlane, QuorumAtRisk}: true,
}

func TestGuards_Order_IsAsListed(t *testing.T) {
	g := NewWithT(t)
	wanted := make([]Reason, 0, len(obstacles))
	for _, each := range obstacles {
		wanted = append(wanted, each.reason)
	}
	g.Expect(Guards()).To(Equal(wanted))
}

// Each obstacle blocks the steps to which its guard applies, and no others.
func TestGuard_StepInScope_IsBlocked(t *testing.T) {
	for _, step := range []bool{false, true} {
		for _, each := range obstacles {
			t.Run(fmt.Sprintf("%s, by its owner: %t", each.reason, step), func(t *testing.T) {
				g := NewWithT(t)
				base, started, held := []option{external}, StartRequest, each.request
				if step {
					base, started, held = append(base, byOwner), RequestOwnerRemediation, each.byMark
				}
				got := usual(append(base, each.option)...).plan().Decisions[0]
				if !held {
					g.Expect(got.Action).To(Equal(started))
					g.Expect(got.Block).To(BeZero())
					return
				}
				want := None
				if each.reason == NoRemediatingOwner {
					// It gets the conditions all the same.
					want = RequestOwnerRemediation
				}
				g.Expect(got.Action).To(Equal(want))
				g.Expect(got.Block.Reason).To(Equal(each.reason))
				last := got.Answers[len(got.Answers)-1]
				g.Expect(got.Block).To(Equal(Block{Reason: last.Guard, Until: last.Until, Details: last.Details}))
				g.Expect(last.Blocks).To(BeTrue())
			})
		}
	}
}

// Of two obstacles the first in the order is reported, whichever comes first in time.
func TestGuards_SeveralBlock_FirstIsReported(t *testing.T) {
	for i, one := range obstacles {
		for _, other := range obstacles[i+1:] {
			for _, step := range []bool{false, true} {
				if exclusive[[2]Reason{one.reason, other.reason}] || !one.in(step) || !other.in(step) {
					continue
				}
				t.Run(fmt.Sprintf("%s before %s, by its owner: %t", one.reason, other.reason, step), func(t *testing.T) {
					g := NewWithT(t)
					base := []option{external}
					if step {
						base = append(base, byOwner)
					}
					x := usual(append(base, one.option, other.option)...)
					// Both hold, or there would be nothing to see.
					for _, each := range []obstacle{one, other} {
						alone := x.alone(each.reason)
						g.Expect(alone).To(HaveLen(1))
						g.Expect(alone[0].Blocks).To(BeTrue(), "%s", each.reason)
					}
					g.Expect(x.plan().Decisions[0].Block.Reason).To(Equal(one.reason))
				})
			}
		}
	}
}

// The answers contain each guard that applies to the step, in order, up to the one that blocks.
func TestGuards_Answers_AreKept(t *testing.T) {
	g := NewWithT(t)
	started := usual(byOwner).plan().Decisions[0]
	asked := make([]Reason, 0, len(started.Answers))
	for _, each := range started.Answers {
		g.Expect(each.Blocks).To(BeFalse())
		g.Expect(each.Until).To(BeZero(), "who lets it pass names no time")
		asked = append(asked, each.Guard)
	}
	g.Expect(asked).To(Equal([]Reason{
		Paused, CheckDeleting, ClusterNotFound, ClusterDeleting, ManagedByOtherCheck, StuckDeleting, Terminating, NoStepForCondition, Excluded,
		NoRemediatingOwner, OwnerRefuses, PauseRequested, ClockSkew, ReconnectGracePeriod, ClusterUnreachable,
		TooManyUnhealthy, TooFewUnhealthy, InStorm, MaxInFlight, ObserveMode,
	}))
	held := usual(remembers(1, noon), excluded).plan().Decisions[0]
	g.Expect(held.Answers).To(HaveLen(9))
	g.Expect(held.Answers[8]).To(Equal(Answer{Guard: Excluded, Blocks: true}))
	waited := usual(remembers(1, ago(time.Minute))).plan().Decisions[0]
	g.Expect(waited.Answers).To(ContainElement(Answer{Guard: InBackoff, Details: Details{Count: 1}}), "a time that has passed is not reported")
	g.Expect(usual(is(well)).plan().Decisions[0].Answers).To(BeEmpty(), "who is well need not ask")
	g.Expect(usual(is(health.Verdict{})).plan().Decisions[0].Answers).To(BeEmpty())
}
