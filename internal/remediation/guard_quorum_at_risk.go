// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// QuorumAtRisk means: its control plane would lose its quorum.
const QuorumAtRisk Reason = "QuorumAtRisk"

func guardQuorumAtRisk(p *pass, t *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	if !t.ControlPlane || p.s.ControlPlane.Etcd.State != EtcdStacked {
		return false, time.Time{}, Seen{}
	}
	members := p.s.ControlPlane.Etcd.Members
	others := 0
	for _, member := range members {
		switch {
		case member.Node != t.Node && member.Healthy:
			others++
		case member.Node == t.Node && member.Unhealthy:
			// It does not count towards the quorum as it is: nothing can be lost.
			return false, time.Time{}, Seen{Who: "its own member is not healthy"}
		}
	}
	return !KeepsQuorum(len(members), others), time.Time{}, Seen{Have: others, Least: len(members)/2 + 1, Most: len(members)}
}
