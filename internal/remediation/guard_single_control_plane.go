// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// SingleControlPlane means: it is the only member of its control plane: there is nothing that could take over.
const SingleControlPlane Reason = "SingleControlPlane"

func guardSingleControlPlane(p *pass, t *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	members := p.s.ControlPlane.Etcd.Members
	single := p.s.ControlPlane.Etcd.State == EtcdStacked && len(members) == 1 && members[0].Node == t.Node
	return t.ControlPlane && single, time.Time{}, Seen{Have: len(members)}
}
