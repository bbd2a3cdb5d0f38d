// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// NodeLeaseHeld means: another component has the Lease of the Node.
const NodeLeaseHeld Reason = "NodeLeaseHeld"

func guardNodeLeaseHeld(p *pass, t *Target, _ *candidate) (bool, Hold) {
	if !t.Lease.Used || t.Lease.Holder == "" || t.Lease.BlockedByThis {
		return false, Hold{}
	}
	return p.now.Before(t.Lease.Until), Hold{Until: t.Lease.Until, Seen: Seen{Who: t.Lease.Holder}}
}
