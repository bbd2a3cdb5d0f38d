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
	var none Storm
	type stormRow struct {
		why    string
		before Storm
		gate   LimitState
		policy Policy
		check  Check
		want   Storm
	}
	storm := func(why string, before Storm, gate LimitState, policy Policy, check Check, want Storm) stormRow {
		return stormRow{why, before, gate, policy, check, want}
	}
	tests := []stormRow{
		storm("a limit that is kept is no storm", none, kept, five, Check{}, none),
		storm("one more and it begins", none, broken, five, Check{}, Storm{Since: noon}),
		storm("without a cool-down there are no storms", none, broken, Policy{}, Check{}, none),
		storm("and one that was noted down is over", Storm{Since: since}, broken, Policy{}, Check{}, none),
		storm("a negative one is none", Storm{Since: since}, broken, Policy{StormCooldown: -moment}, Check{}, none),
		storm("who only observes notes no storm down", Storm{Since: since}, broken, Policy{StormCooldown: time.Minute, Observe: true}, Check{},
			none),
		storm("it began when it began", Storm{Since: since}, broken, five, Check{}, Storm{Since: since}),
		storm("unless a clock was ahead", Storm{Since: ago(-time.Hour)}, broken, five, Check{}, Storm{Since: noon}),
		storm("when the limit is kept again it cools down", Storm{Since: since}, kept, five, Check{}, Storm{Since: since, CooldownSince: noon}),
		storm("for as long as it takes", Storm{Since: since, CooldownSince: ago(5*time.Minute - moment)}, kept, five, Check{},
			Storm{Since: since, CooldownSince: ago(5*time.Minute - moment)}),
		storm("to the moment", Storm{Since: since, CooldownSince: ago(5 * time.Minute)}, kept, five, Check{}, none),
		storm("a cool-down from a clock that was ahead begins now", Storm{Since: since, CooldownSince: ago(-time.Hour)}, kept, five, Check{},
			Storm{Since: since, CooldownSince: noon}),
		storm("a relapse begins the cool-down again", Storm{Since: since, CooldownSince: ago(4 * time.Minute)}, broken, five, Check{},
			Storm{Since: since}),
		storm("unreachable cluster: the storm does not end", Storm{Since: since, CooldownSince: ago(time.Hour)}, kept, five,
			Check{Unreachable: true}, Storm{Since: since}),
		storm("and none begins", none, broken, five, Check{Unreachable: true}, none),
		storm("renewed connection: the cool-down goes on", Storm{Since: since, CooldownSince: ago(4 * time.Minute)}, kept, five,
			Check{Unreachable: true, Renewing: true}, Storm{Since: since, CooldownSince: ago(4 * time.Minute)}),
		storm("but does not end", Storm{Since: since, CooldownSince: ago(time.Hour)}, kept, five, Check{Unreachable: true, Renewing: true},
			Storm{Since: since, CooldownSince: ago(time.Hour)}),
		storm("nor just after a reconnect", Storm{Since: since, CooldownSince: ago(time.Hour)}, kept, five, Check{Reconnecting: true},
			Storm{Since: since}),
		storm("nor while the Cluster has no control plane", Storm{Since: since, CooldownSince: ago(time.Hour)}, kept, five,
			Check{Uninitialized: true}, Storm{Since: since}),
		storm("where none has joined", none, broken, five, Check{Uninitialized: true}, none),
		storm("where all are undetermined", none, broken, five, Check{Reconnecting: true}, none),
		storm("a frozen check notes nothing down: no beginning", none, broken, five, Check{Paused: true}, none),
		storm("and no end", Storm{Since: since, CooldownSince: ago(time.Hour)}, kept, five, Check{Paused: true},
			Storm{Since: since, CooldownSince: ago(time.Hour)}),
		storm("too few unhealthy targets for a range are no storm", none, LimitState{Limit: Limit{Min: 3, Max: 5}, Unhealthy: 2}, five, Check{},
			none),
		storm("fewer targets than must be healthy are one", none, LimitState{Limit: Limit{Max: -1}}, five, Check{}, Storm{Since: noon}),
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
