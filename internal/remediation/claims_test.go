// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestResponsibleClaim_SeveralClaims_FollowsRank(t *testing.T) {
	machines := Claim{Rank: MachineHealthCheck, Namespace: "b", Name: "b"}
	nodes := Claim{Rank: NodeHealthCheck, Name: "a"}
	foreign := Claim{Rank: ForeignCheck, Namespace: "z", Name: "z"}
	holding := func(c Claim) Claim { c.Holds = true; return c }
	observing := func(c Claim) Claim { c.Observes = true; return c }
	tests := []struct {
		why    string
		claims []Claim
		carer  Claim
		none   bool
	}{
		{why: "no claim", none: true},
		{why: "one does", claims: []Claim{nodes}, carer: nodes},
		{why: "a MachineHealthCheck comes before a NodeHealthCheck", claims: []Claim{nodes, machines}, carer: machines},
		{why: "in-tree check that is not adopted comes first", claims: []Claim{nodes, machines, foreign}, carer: foreign},
		{why: "check with a request keeps the target until the request is deleted", claims: []Claim{foreign, machines, holding(nodes)}, carer: holding(nodes)},
		{why: "of two that do, it is as without", claims: []Claim{holding(nodes), holding(machines)}, carer: holding(machines)},
		{
			why: "then it goes by namespace", claims: []Claim{machines, {Rank: MachineHealthCheck, Namespace: "a", Name: "z"}},
			carer: Claim{Rank: MachineHealthCheck, Namespace: "a", Name: "z"},
		},
		{
			why: "then by name", claims: []Claim{machines, {Rank: MachineHealthCheck, Namespace: "b", Name: "a"}},
			carer: Claim{Rank: MachineHealthCheck, Namespace: "b", Name: "a"},
		},
		{
			why:    "check of Remedy comes before an adopted one of the same name",
			claims: []Claim{{Rank: MachineHealthCheck, Namespace: "b", Name: "b", Adopted: true}, machines}, carer: machines,
		},
		{why: "a check that observes is never responsible", claims: []Claim{observing(machines)}, none: true},
		{why: "and leaves it to others", claims: []Claim{observing(machines), nodes}, carer: nodes},
		{why: "once it has withdrawn what it had", claims: []Claim{holding(observing(machines)), nodes}, carer: holding(observing(machines))},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			for range test.claims {
				carer, found := ResponsibleClaim(test.claims)
				g.Expect(found).To(Equal(!test.none))
				g.Expect(carer).To(Equal(test.carer))
				// The order of the claims does not matter.
				test.claims = append(test.claims[1:], test.claims[0])
			}
			_, found := ResponsibleClaim(test.claims)
			g.Expect(found).To(Equal(!test.none))
		})
	}
}
