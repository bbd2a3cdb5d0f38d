// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// A tenant creates many checks for a Cluster that does not exist, and then patches one of them again and again. Each patch costs one
// reconcile, and not one of every check.
func TestAttack_ManyChecksWithoutCluster_CostLittle(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	const checks = 50
	ofNoCluster := func(spec *remedyv1.MachineHealthCheckSpec) { spec.ClusterName = "none" }
	c := s.Start()
	var patched *remedyv1.MachineHealthCheck
	for i := range checks {
		patched = s.CreateCheck(fmt.Sprintf("check-%d", i), ofNoCluster)
	}
	s.Eventually(func() int {
		evaluated := 0
		for i := range checks {
			if c.Evaluated(fmt.Sprintf("check-%d", i)) {
				evaluated++
			}
		}
		return evaluated
	}).Should(Equal(checks))
	before := c.WaitNoReconciles()
	total := int64(0)
	for _, n := range before {
		total += n
	}
	s.Expect(total).To(BeNumerically("<=", 5*checks), "a check does not reconcile the others when it is created")
	for _, change := range []func(spec *remedyv1.MachineHealthCheckSpec){
		func(spec *remedyv1.MachineHealthCheckSpec) {
			spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": "others"}
		},
		func(spec *remedyv1.MachineHealthCheckSpec) { spec.Mode = remedyv1.ObserveMode },
	} {
		s.Change(patched, func() { change(&patched.Spec) })
		s.Eventually(func() bool { return stage.Get(s, patched)().Status.ObservedGeneration == patched.Generation }).Should(BeTrue())
	}
	s.Expect(stage.Changed(before, c.WaitNoReconciles())).To(Equal([]string{patched.Name}))
	outcome(t, "%d checks of no Cluster: %d reconciles, and one for each patch", checks, total)
}
