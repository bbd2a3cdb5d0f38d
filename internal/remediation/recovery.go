// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// awaitRecovery decides when the request of a target that is healthy again is withdrawn. Its health is told at once all the same.
func (p *pass) awaitRecovery(t *Target, d *Decision) {
	d.HealthySince = noted(t.Request.HealthySince, p.now)
	over := d.HealthySince.Add(p.policy.HealthyDelay)
	switch {
	// A person who says that it is well need not wait.
	case t.Confirmed:
	case p.policy.RecoveryConfirmed:
		d.Hold = Hold{Reason: RecoveryNotConfirmed, Seen: Seen{Since: d.HealthySince}}
		return
	case p.now.Before(over):
		d.Action, d.Until = Wait, over
		return
	}
	// The note would be one write more, for an object that is about to go.
	d.Action, d.Why, d.HealthySince, d.Ledger = Withdraw, Recovered, t.Request.HealthySince, Ledger{}
}

// RecoveryNotConfirmed means: it is healthy again, and waits for a person to say so.
const RecoveryNotConfirmed Reason = "RecoveryNotConfirmed"
