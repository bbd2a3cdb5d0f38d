// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestStorm_Limit_BeginsAndEnds(t *testing.T) {
	five := Policy{StormCooldown: 5 * time.Minute}
	kept, broken := LimitState{Limit: Limit{Max: 2}, Unhealthy: 2, Allowed: true}, LimitState{Limit: Limit{Max: 2}, Unhealthy: 3}
	since := ago(time.Hour)
	tests := []struct {
		why    string
		before Storm
		gate   LimitState
		policy Policy
		check  Check
		want   Storm
	}{
		{why: "a limit that is kept is no storm", gate: kept, policy: five},
		{why: "one more and it begins", gate: broken, policy: five, want: Storm{Since: noon}},
		{why: "without a cool-down there are no storms", gate: broken},
		{why: "and one that was noted down is over", before: Storm{Since: since}, gate: broken},
		{why: "a negative one is none", before: Storm{Since: since}, gate: broken, policy: Policy{StormCooldown: -moment}},
		{
			why: "who only observes notes no storm down", before: Storm{Since: since}, gate: broken,
			policy: Policy{StormCooldown: time.Minute, Observe: true},
		},
		{why: "it began when it began", before: Storm{Since: since}, gate: broken, policy: five, want: Storm{Since: since}},
		{why: "unless a clock was ahead", before: Storm{Since: ago(-time.Hour)}, gate: broken, policy: five, want: Storm{Since: noon}},
		{
			why: "when the limit is kept again it cools down", before: Storm{Since: since}, gate: kept, policy: five,
			want: Storm{Since: since, CooldownSince: noon},
		},
		{
			why: "for as long as it takes", before: Storm{Since: since, CooldownSince: ago(5*time.Minute - moment)}, gate: kept, policy: five,
			want: Storm{Since: since, CooldownSince: ago(5*time.Minute - moment)},
		},
		{why: "to the moment", before: Storm{Since: since, CooldownSince: ago(5 * time.Minute)}, gate: kept, policy: five},
		{
			why: "a cool-down from a clock that was ahead begins now", before: Storm{Since: since, CooldownSince: ago(-time.Hour)}, gate: kept,
			policy: five, want: Storm{Since: since, CooldownSince: noon},
		},
		{
			why: "a relapse begins the cool-down again", before: Storm{Since: since, CooldownSince: ago(4 * time.Minute)}, gate: broken,
			policy: five, want: Storm{Since: since},
		},
		{
			why: "unreachable cluster: the storm does not end", before: Storm{Since: since, CooldownSince: ago(time.Hour)}, gate: kept, policy: five,
			check: Check{Unreachable: true}, want: Storm{Since: since},
		},
		{why: "and none begins", gate: broken, policy: five, check: Check{Unreachable: true}},
		{
			why: "renewed connection: the cool-down goes on", before: Storm{Since: since, CooldownSince: ago(4 * time.Minute)}, gate: kept,
			policy: five, check: Check{Unreachable: true, Renewing: true}, want: Storm{Since: since, CooldownSince: ago(4 * time.Minute)},
		},
		{
			why: "but does not end", before: Storm{Since: since, CooldownSince: ago(time.Hour)}, gate: kept, policy: five,
			check: Check{Unreachable: true, Renewing: true}, want: Storm{Since: since, CooldownSince: ago(time.Hour)},
		},
		{
			why: "nor just after a reconnect", before: Storm{Since: since, CooldownSince: ago(time.Hour)}, gate: kept, policy: five,
			check: Check{Reconnecting: true}, want: Storm{Since: since},
		},
		{
			why: "nor while the Cluster has no control plane", before: Storm{Since: since, CooldownSince: ago(time.Hour)}, gate: kept, policy: five,
			check: Check{Uninitialized: true}, want: Storm{Since: since},
		},
		{why: "where none has joined", gate: broken, policy: five, check: Check{Uninitialized: true}},
		{why: "where all are undetermined", gate: broken, policy: five, check: Check{Reconnecting: true}},
		{why: "a frozen check notes nothing down: no beginning", gate: broken, policy: five, check: Check{Paused: true}},
		{
			why: "and no end", before: Storm{Since: since, CooldownSince: ago(time.Hour)}, gate: kept, policy: five, check: Check{Paused: true},
			want: Storm{Since: since, CooldownSince: ago(time.Hour)},
		},
		{why: "too few unhealthy targets for a range are no storm", gate: LimitState{Limit: Limit{Min: 3, Max: 5}, Unhealthy: 2}, policy: five},
		{why: "fewer targets than must be healthy are one", gate: LimitState{Limit: Limit{Max: -1}}, policy: five, want: Storm{Since: noon}},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			got := test.before.next(test.gate, &test.policy, &test.check, noon)
			g.Expect(got).To(Equal(test.want))
			g.Expect(!got.Since.IsZero()).To(Equal(!test.want.Since.IsZero()))
		})
	}
}

func TestStorm_Cooldown_EndsAfterIt(t *testing.T) {
	g := NewWithT(t)
	p := Policy{StormCooldown: 5 * time.Minute}
	g.Expect(Storm{Since: ago(time.Hour)}.ends(&p)).To(BeZero(), "no end is known while too many are unhealthy")
	g.Expect(Storm{Since: ago(time.Hour), CooldownSince: ago(time.Minute)}.ends(&p)).To(Equal(ago(-4 * time.Minute)))
}

// Every reconcile updates a storm, also when no target is unhealthy.
func TestStorm_NoUnhealthyTarget_Ends(t *testing.T) {
	g := NewWithT(t)
	plan := usual(cooldown, stormy(4*time.Minute), is(well)).plan()
	g.Expect(plan.Storm).To(Equal(Storm{Since: ago(time.Hour), CooldownSince: ago(4 * time.Minute)}))
	g.Expect(plan.WakeUp).To(Equal(ago(-time.Minute)))
	g.Expect(usual(cooldown, stormy(5*time.Minute), is(well)).plan().Storm).To(BeZero())
}
