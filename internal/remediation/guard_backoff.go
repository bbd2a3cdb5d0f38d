// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// InBackoff means: its last remediation has failed a short while ago.
const InBackoff Reason = "Backoff"

func guardInBackoff(p *pass, _ *Target, c *candidate) (held bool, until time.Time, seen Seen) {
	ledger := &p.plan.Decisions[c.index].Ledger
	return p.now.Before(ledger.NotBefore), ledger.NotBefore, Seen{Have: ledger.Failures}
}
