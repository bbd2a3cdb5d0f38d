// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

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
