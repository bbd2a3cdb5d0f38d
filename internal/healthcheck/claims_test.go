// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// A request of the in-tree controller has no annotation of a check, so its check is empty. A claim of a check that is not known is empty,
// too: it must not match.
func TestHolds_RequestNamesNoCheck_HoldsNothing(t *testing.T) {
	g := NewWithT(t)
	target := &Target{Object: &clusterv1.Machine{}}
	own := requests.Check{Kind: "MachineHealthCheck", Namespace: "a", Name: "b"}
	unnamed := &snapshot{elsewhere: map[types.UID][]requests.Check{"": {{}}}}
	g.Expect(unnamed.holds(&Claim{}, target)).To(BeFalse())
	g.Expect(unnamed.holds(&Claim{Check: own}, target)).To(BeFalse())
	named := &snapshot{elsewhere: map[types.UID][]requests.Check{"": {own}}}
	g.Expect(named.holds(&Claim{Check: own}, target)).To(BeTrue())
}
