// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// ControlPlaneBusy means: another Node of the control plane is being remediated, by this check or another one.
const ControlPlaneBusy Reason = "ControlPlaneBusy"

func guardControlPlaneBusy(p *planner, t *Target, _ *candidate) (bool, Block) {
	if !t.ControlPlane {
		return false, Block{}
	}
	if p.busy != "" && p.busy != t.Name {
		return true, Block{Details: Details{Cause: p.busy}}
	}
	for _, name := range p.s.ControlPlane.Busy {
		if name != t.Name && name != t.Node {
			return true, Block{Details: Details{Cause: name}}
		}
	}
	// Another check is about to start a remediation. If it does not, its Lease expires.
	turn := p.s.ControlPlane.Lease
	return turn.Holder != "" && !turn.HeldByThis && p.now.Before(turn.Until), Block{Until: turn.Until, Details: Details{Cause: turn.Holder}}
}

// QuorumUnknown means: the etcd members of the control plane cannot be read.
const QuorumUnknown Reason = "QuorumUnknown"

func guardQuorumUnknown(p *planner, t *Target, _ *candidate) (bool, Block) {
	// After a reconnect, the reported members are as old as the lost connection.
	if t.ControlPlane && p.s.Check.Reconnecting {
		return true, Block{Until: p.s.Check.ReconnectingUntil}
	}
	return t.ControlPlane && p.s.ControlPlane.Etcd.State == EtcdUnreadable, Block{Details: Details{Cause: p.s.ControlPlane.Unread}}
}

// SingleControlPlane means: the target is the only member of its control plane.
const SingleControlPlane Reason = "SingleControlPlane"

func guardSingleControlPlane(p *planner, t *Target, _ *candidate) (bool, Block) {
	members := p.s.ControlPlane.Etcd.Members
	single := p.s.ControlPlane.Etcd.State == EtcdStacked && len(members) == 1 && members[0].Node == t.Node
	return t.ControlPlane && single, Block{Details: Details{Count: len(members)}}
}

// QuorumAtRisk means: the control plane would lose its etcd quorum.
const QuorumAtRisk Reason = "QuorumAtRisk"

func guardQuorumAtRisk(p *planner, t *Target, _ *candidate) (bool, Block) {
	if !t.ControlPlane || p.s.ControlPlane.Etcd.State != EtcdStacked {
		return false, Block{}
	}
	members := p.s.ControlPlane.Etcd.Members
	others := 0
	for _, member := range members {
		switch {
		case member.Node != t.Node && member.Healthy:
			others++
		case member.Node == t.Node && member.Unhealthy:
			// It does not count towards the quorum already.
			return false, Block{Details: Details{Cause: "its own member is not healthy"}}
		}
	}
	return !KeepsQuorum(len(members), others), Block{Details: Details{Count: others, Min: len(members)/2 + 1, Max: len(members)}}
}

// EtcdOf is the etcd of a control plane that could be read, by the first source that has members: conditions of Machines, then mirror Pods,
// then the Nodes of the control plane. Without members, etcd is external.
func EtcdOf(sources ...[]Member) Etcd {
	for _, members := range sources {
		if len(members) > 0 {
			return Etcd{State: EtcdStacked, Members: members}
		}
	}
	return Etcd{State: EtcdExternal}
}

// KeepsQuorum reports whether etcd with n members keeps its quorum without one member that may be healthy.
//
// A write needs a majority of Q = floor(n/2) + 1 members. Until the member is removed, n includes it, but only the others answer:
//
//	healthyOthers >= floor(n/2) + 1
//
//	n = 3: Q = 2. Both others must be healthy.
//	n = 5: Q = 3. One of the four others may be unhealthy.
//	n = 1: Q = 1. There are no others, so the only member is never remediated.
func KeepsQuorum(n, healthyOthers int) bool {
	return healthyOthers >= n/2+1
}
