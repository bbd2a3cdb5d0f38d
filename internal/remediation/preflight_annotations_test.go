// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A decision to wait needs no confirmation. But it has annotations to write, which a pause blocks, too.
func TestPreflight_OnlyAnnotations_ArePausedToo(t *testing.T) {
	for _, options := range [][]option{{requested(healthySince(noon)), ours(ago(-time.Minute))}, {is(well), remembers(1, noon)}} {
		g := NewWithT(t)
		x := usual(options...)
		t1 := &x.situation.Targets[0]
		plan := x.plan()
		d := plan.Decisions[0]
		g.Expect(d.Writes(t1)).ToNot(BeEmpty())
		g.Expect(Confirm(&plan, t1, &d, &x.verdicts[0], &PreflightCheck{}, noon)).To(Equal(d))
		// A target that could not be read may be paused or deleted.
		for _, look := range []*PreflightCheck{{Paused: true}, {Failed: true}, {Changed: true}} {
			held := Confirm(&plan, t1, &d, &x.verdicts[0], look, noon)
			g.Expect(held.Writes(t1)).To(BeEmpty())
			g.Expect([]any{held.Action, held.Until, held.InFlight}).To(Equal([]any{d.Action, d.Until, d.InFlight}))
		}
	}
}

func TestPreflightGuards_Order_IsAsListed(t *testing.T) {
	g := NewWithT(t)
	g.Expect(PreflightGuards()).To(Equal([]Reason{Paused, PreflightPending, PreflightFailed, Terminating, Excluded, OwnerRefuses, ClockSkew, ReconnectGracePeriod, TooManyUnhealthy, TooFewUnhealthy, AnnotationNotRemoved, RequestNameConflict, NodeLeaseHeld, ControlPlaneBusy, QuorumUnknown, SingleControlPlane, QuorumAtRisk, LeaseRenewed}))
}
