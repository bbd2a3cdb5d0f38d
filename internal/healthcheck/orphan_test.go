// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// The cache shows that the check does not select a target any more, but not what has changed since. The target is read live before its
// request is withdrawn.
func TestOrphan_StaleMachineCache_IsReadLive(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change, finish func(s *kindStage)
		withdrawn      bool
	}{
		"selected again": {
			change: func(s *kindStage) { s.moveTo("m-1", "workers") },
			finish: func(*kindStage) {},
		},
		"paused": {
			change:    func(s *kindStage) { s.Annotate(s.target("m-1"), clusterv1.PausedAnnotation, "yes") },
			finish:    func(s *kindStage) { s.Annotate(s.target("m-1"), clusterv1.PausedAnnotation, "") },
			withdrawn: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachKind(t, func(s *kindStage) {
				s.createUnhealthy("m-1")
				check := s.createCheck()
				c := s.Start()
				request := s.waitRequest("m-1")
				s.Eventually(check.decision("m-1")).Should(Equal("Remediating "))
				c.WaitIdle()
				c.Watches().Lag(1, s.targets)
				s.moveTo("m-1", "others")
				reconciles := c.Reconciles(check.GetName())
				before := reconciles.Load()
				test.change(s)
				s.Eventually(reconciles.Load).Should(BeNumerically(">", before+2), "the reconciles observe that the target is not selected")
				s.Expect(s.request("m-1")()).ToNot(BeNil())
				c.Watches().Release()
				c.WaitIdle()
				s.Expect(s.request("m-1")().GetUID()).To(Equal(request.GetUID()))
				test.finish(s)
				if test.withdrawn {
					s.Eventually(s.request("m-1")).Should(BeNil())
				}
			})
		})
	}
}
