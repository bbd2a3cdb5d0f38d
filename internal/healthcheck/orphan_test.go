// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// TestWhatIsLeftIsLookedAtBeforeItGoes: the cache shows a Machine that the check does not select any more, and not what has happened to it
// since.
func TestWhatIsLeftIsLookedAtBeforeItGoes(t *testing.T) {
	t.Parallel()
	for what, happens := range map[string]struct {
		then, atLast func(s *stage.Stage, m *clusterv1.Machine)
		goes         bool
	}{
		"it is selected again": {
			then:   func(s *stage.Stage, m *clusterv1.Machine) { s.Change(m, func() { m.Labels["pool"] = "workers" }) },
			atLast: func(*stage.Stage, *clusterv1.Machine) {},
		},
		"it is paused": {
			then:   func(s *stage.Stage, m *clusterv1.Machine) { s.Annotate(m, clusterv1.PausedAnnotation, "yes") },
			atLast: func(s *stage.Stage, m *clusterv1.Machine) { s.Annotate(m, clusterv1.PausedAnnotation, "") },
			goes:   true,
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			m := s.CreateUnhealthyMachine("m-1")
			check := s.CreateCheck("workers", stage.ByNewTemplate(s))
			c := s.Start()
			request := s.WaitRequest(remediator.Metal3, "m-1")
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Remediating ")))
			c.WaitIdle()
			c.Watches().Lag(1, "machines.cluster.x-k8s.io")
			s.Change(m, func() { m.Labels["pool"] = "others" })
			passes := c.Reconciles("workers")
			before := passes.Load()
			happens.then(s, m)
			s.Eventually(passes.Load).Should(BeNumerically(">", before+2), "it has seen that the Machine is not selected, and tries again")
			s.Expect(s.Request(remediator.Metal3, "m-1")()).ToNot(BeNil())
			c.Watches().Release()
			c.WaitIdle()
			s.Expect(s.Request(remediator.Metal3, "m-1")().GetUID()).To(Equal(request.GetUID()))
			happens.atLast(s, m)
			if happens.goes {
				s.Eventually(s.Request(remediator.Metal3, "m-1")).Should(BeNil())
			}
		})
	}
}
