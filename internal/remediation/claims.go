// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"cmp"
	"time"
)

// Claim is a check that selects a target.
type Claim struct {
	Rank Rank
	// Namespace and Name are those of the check. Its age does not count, because a move to another management cluster makes all ages equal.
	Namespace, Name string
	// Adopted: it is an in-tree check that the manager has adopted. It may have the name of another check.
	Adopted bool
	// Holds: it has a request, conditions or a Lease for the target.
	Holds bool
	// Observes: it only observes, and is responsible only for what it has not withdrawn. A paused or blocked check claims its targets all the
	// same, so that a pause does not hand them to another check.
	Observes bool
	// Until is when Holds ends without a write, as for a Lease; zero if it does not.
	Until time.Time
}

// Rank orders the kinds of checks.
type Rank uint8

const (
	// ForeignCheck is one that Remedy does not reconcile: an in-tree check that is not adopted, or one of medik8s. It always wins.
	ForeignCheck Rank = iota
	// MachineHealthCheck is a MachineHealthCheck of Remedy, or an adopted in-tree check.
	MachineHealthCheck
	// NodeHealthCheck is a NodeHealthCheck of Remedy.
	NodeHealthCheck
)

// ResponsibleClaim is the responsible check of a target: the one that holds something; then a MachineHealthCheck before a NodeHealthCheck;
// then by namespace and name. False if there is none.
func ResponsibleClaim(claims []Claim) (Claim, bool) {
	var responsible Claim
	found := false
	for _, claim := range claims {
		if (claim.Holds || !claim.Observes) && (!found || claim.before(responsible)) {
			responsible, found = claim, true
		}
	}
	return responsible, found
}

func (c Claim) before(other Claim) bool {
	return cmp.Or(
		first(c.Holds, other.Holds),
		cmp.Compare(c.Rank, other.Rank),
		cmp.Compare(c.Namespace, other.Namespace),
		cmp.Compare(c.Name, other.Name),
		first(!c.Adopted, !other.Adopted),
	) < 0
}
