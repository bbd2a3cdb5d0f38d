// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// InBackoff means: the last remediation failed, and its backoff is not over.
const InBackoff Reason = "Backoff"

func guardInBackoff(p *pass, _ *Target, c *candidate) (bool, Hold) {
	history := &p.plan.Decisions[c.index].History
	return p.now.Before(history.NotBefore), Hold{Until: history.NotBefore, Seen: Seen{Have: history.Failures}}
}
