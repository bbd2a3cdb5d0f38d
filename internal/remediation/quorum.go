// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// KeepsQuorum says whether the etcd members of a control plane of n keep their quorum if one of them is taken away that may be healthy.
//
// Of n members, a majority of Q = floor(n/2) + 1 must answer, or nothing can be written. Once one member is taken away, only the others are
// left to answer, and n still counts it until it is removed:
//
//	healthyOthers >= floor(n/2) + 1
//
//	n = 3: Q = 2, so that both others must be healthy.
//	n = 5: Q = 3, so that one of the four others may be sick.
//	n = 1: Q = 1, and there are no others: the only member is never taken away.
func KeepsQuorum(n, healthyOthers int) bool {
	return healthyOthers >= n/2+1
}
