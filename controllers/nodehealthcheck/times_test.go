// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// A client that may write the status of Nodes claims that a healthy Node has not been Ready for an hour. So does a kubelet whose clock is
// behind, when it restarts.
func TestTransition_BackdatedOnHealthyNode_CountsFromNow(t *testing.T) {
	t.Parallel()
	for _, reported := range []corev1.ConditionStatus{corev1.ConditionUnknown, corev1.ConditionFalse} {
		t.Run(string(reported), func(t *testing.T) {
			t.Parallel()
			s := stage.New(t, stage.WithAllNamespaces, stage.WithOwnTimes)
			for _, name := range []string{"n-1", "n-2", "n-3"} {
				s.CreateNode(name)
			}
			check := s.CreateNodeCheck("workers")
			c := s.Start()
			s.Eventually(stage.Get(s, check)).Should(WithTransform(status, Equal([]int32{3, 3, 0})))
			s.SetReady("n-3", reported, time.Hour)
			decided(s, check, "n-3", Equal("Pending "))
			s.Eventually(stage.Get(s, check)).Should(reportsMessage("ClockSkew: its time "))
			c.WaitIdle()
			s.Expect(s.NodeRequest(remediator.FenceAgents, "n-3")()).To(BeNil())
		})
	}
}
