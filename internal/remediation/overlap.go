// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"cmp"
	"time"
)

// Claim is a check that would take care of a target.
type Claim struct {
	Rank Rank
	// Namespace and Name are those of the check. It is never its age that counts: a move makes all ages equal.
	Namespace, Name string
	// Handed: it is one of Cluster API, which may bear the very name of one of ours.
	Handed bool
	// Holds: it has a live request, mark or Lease for the target.
	Holds bool
	// Observes: it only looks on. It takes care of nothing but what it has not withdrawn yet. A check that is paused or held up claims all
	// the same: pausing one check must not hand its targets to another.
	Observes bool
	// Until is when it lets go by itself, as where it has nothing but a Lease; zero if it does not.
	Until time.Time
}

// Rank is which kind of check comes first.
type Rank uint8

const (
	// ForeignMachineHealthCheck is one of Cluster API that was not handed to us. We never fight it.
	ForeignMachineHealthCheck Rank = iota
	// MachineHealthCheck is one of ours, or one of Cluster API that was handed to us.
	MachineHealthCheck
	// NodeHealthCheck is one of ours.
	NodeHealthCheck
)

// Carer is the one of several checks that takes care of a target: whoever holds something for it keeps it until that is gone; then a
// MachineHealthCheck comes before a NodeHealthCheck; then it goes by namespace and name. False if nobody does.
func Carer(claims []Claim) (Claim, bool) {
	var carer Claim
	found := false
	for _, claim := range claims {
		if (claim.Holds || !claim.Observes) && (!found || claim.before(carer)) {
			carer, found = claim, true
		}
	}
	return carer, found
}

func (c Claim) before(other Claim) bool {
	return cmp.Or(
		first(c.Holds, other.Holds),
		cmp.Compare(c.Rank, other.Rank),
		cmp.Compare(c.Namespace, other.Namespace),
		cmp.Compare(c.Name, other.Name),
		first(!c.Handed, !other.Handed),
	) < 0
}
