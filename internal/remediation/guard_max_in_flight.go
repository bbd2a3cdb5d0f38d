// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// MaxInFlight means: as many targets are under remediation as may be at the same time, and others come first.
const MaxInFlight Reason = "MaxInFlight"

func guardMaxInFlight(p *pass, t *Target, c *candidate) (held bool, until time.Time, seen Seen) {
	// The owners of control planes take one Machine after the other by themselves, and have to see all of them.
	if !p.plan.Limited || c.step.Owner && t.ControlPlane {
		return false, time.Time{}, Seen{}
	}
	return p.plan.Counts.InFlight >= p.plan.Slots, time.Time{}, Seen{Who: p.holder, Have: p.plan.Counts.InFlight, Most: p.plan.Slots}
}
