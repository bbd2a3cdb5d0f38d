// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// EscalationExhausted means: every step has failed. The first one is tried again after the backoff.
const EscalationExhausted Reason = "EscalationExhausted"

func guardEscalationExhausted(p *pass, _ *Target, c *candidate) (bool, Hold) {
	history := &p.plan.Decisions[c.index].History
	return len(p.policy.Steps) > 1 && p.now.Before(history.NotBefore), Hold{Until: history.NotBefore, Seen: Seen{Have: history.Failures}}
}
