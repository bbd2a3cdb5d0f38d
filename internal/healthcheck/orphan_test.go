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

// The cache shows that the check does not select a Machine any more, but not what has changed since. The Machine is read live before its
// request is withdrawn.
func TestOrphan_StaleMachineCache_IsReadLive(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change, finish func(s *stage.Stage, m *clusterv1.Machine)
		withdrawn      bool
	}{
		"selected again": {
			change: func(s *stage.Stage, m *clusterv1.Machine) { s.Change(m, func() { m.Labels["pool"] = "workers" }) },
			finish: func(*stage.Stage, *clusterv1.Machine) {},
		},
		"paused": {
			change:    func(s *stage.Stage, m *clusterv1.Machine) { s.Annotate(m, clusterv1.PausedAnnotation, "yes") },
			finish:    func(s *stage.Stage, m *clusterv1.Machine) { s.Annotate(m, clusterv1.PausedAnnotation, "") },
			withdrawn: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
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
			reconciles := c.Reconciles("workers")
			before := reconciles.Load()
			test.change(s, m)
			s.Eventually(reconciles.Load).Should(BeNumerically(">", before+2), "the reconciles observe that the Machine is not selected")
			s.Expect(s.Request(remediator.Metal3, "m-1")()).ToNot(BeNil())
			c.Watches().Release()
			c.WaitIdle()
			s.Expect(s.Request(remediator.Metal3, "m-1")().GetUID()).To(Equal(request.GetUID()))
			test.finish(s, m)
			if test.withdrawn {
				s.Eventually(s.Request(remediator.Metal3, "m-1")).Should(BeNil())
			}
		})
	}
}
