// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// QuorumUnknown means: the etcd members of the control plane cannot be read.
const QuorumUnknown Reason = "QuorumUnknown"

func guardQuorumUnknown(p *pass, t *Target, _ *candidate) (bool, Hold) {
	// After a reconnect, the reported members are as old as the lost connection.
	if t.ControlPlane && p.s.Check.Reconnecting {
		return true, Hold{Until: p.s.Check.ReconnectingUntil}
	}
	return t.ControlPlane && p.s.ControlPlane.Etcd.State == EtcdUnreadable, Hold{}
}
