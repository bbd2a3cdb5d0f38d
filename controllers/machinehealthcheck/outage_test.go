// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

// TestNothingIsRemediatedOnStaleKnowledge cuts a workload cluster off, in each way that a network can, at a moment when its Nodes were about to be
// unhealthy.
func TestNothingIsRemediatedOnStaleKnowledge(t *testing.T) {
	t.Parallel()
	for _, mode := range []faults.Mode{faults.RefuseConnections, faults.BlackHole, faults.HalfOpen} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, withProxy, withClock)
			quiet, asked := s.machine("m-1"), s.machine("m-2")
			s.ready("m-1", corev1.ConditionUnknown, time.Minute)
			check := s.check("workers")
			c := s.start()
			s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Observed ")))
			c.settle()
			s.Expect(s.proxy.Set(mode)).To(Succeed())
			s.wait(time.Hour)
			s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.ClusterReachableCondition), Equal("False ClusterUnreachable")))
			s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(0)))
			s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, quiet)())).To(BeEmpty())
			s.Expect(check.Status.Undetermined).To(HaveValue(BeEquivalentTo(2)))

			// What needs no Node is done all the same.
			s.annotate(asked, clusterv1.RemediateMachineAnnotation, "yes")
			s.Eventually(get(s, asked)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
			s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, quiet)())).To(BeEmpty())

			// It is back, and was well all the time: no burst.
			s.ready("m-1", corev1.ConditionTrue, 0)
			s.Expect(s.proxy.Set(faults.Pass)).To(Succeed())
			s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.ClusterReachableCondition), Or(Equal("Unknown Reconnecting"), Equal("True ClusterReachable"))))
			s.wait(time.Hour)
			s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.ClusterReachableCondition), Equal("True ClusterReachable")))
			s.Eventually(get(s, quiet)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal(isWell)))
			for _, w := range c.Writes() {
				s.Expect(w.Name == "m-1" && w.Resource == "machines" && w.Subresource == "").To(BeFalse(), "m-1 was never signed")
			}
		})
	}
}
