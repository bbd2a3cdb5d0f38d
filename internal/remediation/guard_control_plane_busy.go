// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// ControlPlaneBusy means: another Node of the control plane is being remediated, by this check or another one.
const ControlPlaneBusy Reason = "ControlPlaneBusy"

func guardControlPlaneBusy(p *pass, t *Target, _ *candidate) (bool, Hold) {
	if !t.ControlPlane {
		return false, Hold{}
	}
	if p.busy != "" && p.busy != t.Name {
		return true, Hold{Seen: Seen{Who: p.busy}}
	}
	for _, name := range p.s.ControlPlane.Busy {
		if name != t.Name && name != t.Node {
			return true, Hold{Seen: Seen{Who: name}}
		}
	}
	// Another check is about to start a remediation. If it does not, its Lease expires.
	turn := p.s.ControlPlane.Lease
	return turn.Holder != "" && !turn.BlockedByThis && p.now.Before(turn.Until), Hold{Until: turn.Until, Seen: Seen{Who: turn.Holder}}
}
