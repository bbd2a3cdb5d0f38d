// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// LeaseTaken means: somebody else is working on its Node.
const LeaseTaken Reason = "LeaseTaken"

func guardLeaseTaken(p *pass, t *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	if !t.Lease.Used || t.Lease.Holder == "" || t.Lease.Ours {
		return false, time.Time{}, Seen{}
	}
	return p.now.Before(t.Lease.Until), t.Lease.Until, Seen{Who: t.Lease.Holder}
}
