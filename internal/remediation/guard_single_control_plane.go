// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// SingleControlPlane means: the target is the only member of its control plane.
const SingleControlPlane Reason = "SingleControlPlane"

func guardSingleControlPlane(p *pass, t *Target, _ *candidate) (bool, Hold) {
	members := p.s.ControlPlane.Etcd.Members
	single := p.s.ControlPlane.Etcd.State == EtcdStacked && len(members) == 1 && members[0].Node == t.Node
	return t.ControlPlane && single, Hold{Seen: Seen{Have: len(members)}}
}
