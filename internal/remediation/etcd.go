// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// EtcdOf is the etcd of a control plane that could be read, by the first of several sources that knows any members: conditions of Machines,
// then mirror pods, then the Nodes of the control plane. Where nobody knows any, it is somewhere else.
func EtcdOf(sources ...[]Member) Etcd {
	for _, members := range sources {
		if len(members) > 0 {
			return Etcd{State: EtcdStacked, Members: members}
		}
	}
	return Etcd{State: EtcdExternal}
}
