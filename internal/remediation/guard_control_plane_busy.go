// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// ControlPlaneBusy means: another Node of its control plane is being remediated, by this check or any other.
const ControlPlaneBusy Reason = "ControlPlaneBusy"

func guardControlPlaneBusy(p *pass, t *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	if !t.ControlPlane {
		return false, time.Time{}, Seen{}
	}
	if p.busy != "" && p.busy != t.Name {
		return true, time.Time{}, Seen{Who: p.busy}
	}
	for _, name := range p.s.ControlPlane.Busy {
		if name != t.Name && name != t.Node {
			return true, time.Time{}, Seen{Who: name}
		}
	}
	// Another check is about to begin. If it never does, its turn runs out.
	turn := p.s.ControlPlane.Turn
	return turn.Holder != "" && !turn.Ours && p.now.Before(turn.Until), turn.Until, Seen{Who: turn.Holder}
}
