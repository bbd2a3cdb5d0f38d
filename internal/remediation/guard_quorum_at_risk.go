// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// QuorumAtRisk means: the control plane would lose its etcd quorum.
const QuorumAtRisk Reason = "QuorumAtRisk"

func guardQuorumAtRisk(p *pass, t *Target, _ *candidate) (bool, Hold) {
	if !t.ControlPlane || p.s.ControlPlane.Etcd.State != EtcdStacked {
		return false, Hold{}
	}
	members := p.s.ControlPlane.Etcd.Members
	others := 0
	for _, member := range members {
		switch {
		case member.Node != t.Node && member.Healthy:
			others++
		case member.Node == t.Node && member.Unhealthy:
			// It does not count towards the quorum already.
			return false, Hold{Seen: Seen{Who: "its own member is not healthy"}}
		}
	}
	return !KeepsQuorum(len(members), others), Hold{Seen: Seen{Have: others, Least: len(members)/2 + 1, Most: len(members)}}
}
