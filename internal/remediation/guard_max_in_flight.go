// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// MaxInFlight means: maxInFlight is reached, and the target is queued.
const MaxInFlight Reason = "MaxInFlight"

func guardMaxInFlight(p *pass, t *Target, c *candidate) (bool, Hold) {
	// The owner of a control plane replaces one Machine after the other, and needs all of them to be marked.
	if !p.plan.Limited || c.step.Owner && t.ControlPlane {
		return false, Hold{}
	}
	return p.plan.Counts.InFlight >= p.plan.Slots, Hold{Seen: Seen{Who: p.holder.Target, Owner: p.holder.Owner, Have: p.plan.Counts.InFlight, Most: p.plan.Slots}}
}
