// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// EscalationExhausted means: every step has been tried, and it is still not healthy. They begin anew after a wait.
const EscalationExhausted Reason = "EscalationExhausted"

func guardEscalationExhausted(p *pass, _ *Target, c *candidate) (held bool, until time.Time, seen Seen) {
	ledger := &p.plan.Decisions[c.index].Ledger
	return len(p.policy.Steps) > 1 && p.now.Before(ledger.NotBefore), ledger.NotBefore, Seen{Have: ledger.Failures}
}
