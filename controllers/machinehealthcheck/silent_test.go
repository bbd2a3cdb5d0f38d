// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// TestNothingIsToldOnMachinesAfterAPauseWasSeen: the caches do not show the pause for as long as the test lasts; what is read past them just before
// an act does. The first Machine has been seen to by then.
func TestNothingIsToldOnMachinesAfterAPauseWasSeen(t *testing.T) {
	t.Parallel()
	for what, stop := range map[string]func(s *stage, check *remedyv1.MachineHealthCheck){
		"the Cluster is paused": func(s *stage, _ *remedyv1.MachineHealthCheck) {
			s.change(s.cluster, func() { s.cluster.Spec.Paused = ptr.To(true) })
		},
		"the check is paused": func(s *stage, check *remedyv1.MachineHealthCheck) {
			s.annotate(check, clusterv1.PausedAnnotation, "yes")
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			first := s.sick("m-1")
			s.sick("m-2")
			s.sick("m-3")
			check := s.check("workers")
			var c *controller
			var before atomic.Int64
			started := make(chan struct{})
			c = s.startInterrupted(ownerAsked, func() {
				<-started
				c.Watches().Hold("clusters.cluster.x-k8s.io", "machinehealthchecks.remedy.cluster.x-k8s.io")
				stop(s, check)
				before.Store(int64(len(c.Writes())))
			})
			c.restless = true
			close(started)
			s.Eventually(before.Load).Should(BeNumerically(">", 0))
			passes := c.passesOf("workers")
			n := passes.Load()
			s.annotate(first, nudgeAnnotation, "now")
			s.Eventually(passes.Load).Should(BeNumerically(">", n), "the pass is over")
			for _, w := range c.Writes()[before.Load():] {
				s.Expect(w.Resource).To(Equal("events"), w.What())
			}
			c.Watches().Release()
			s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.PausedCondition), Equal("True Paused")))
		})
	}
}
