//go:build long

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// The connection to the cluster of the Nodes fails, in each mode, when one of them is about to become unhealthy. Nothing is remediated, not
// even what an annotation in that cluster requests. When the connection is restored, only a Node that is still unhealthy is remediated.
func TestOutage_StaleNodesOfNodeCheck_AreNotRemediated(t *testing.T) {
	t.Parallel()
	for _, mode := range []faults.Mode{faults.RefuseConnections, faults.BlackHole, faults.HalfOpen} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := stage.New(t, stage.WithProxy, stage.WithClock)
			s.CreateNode("n-1")
			s.CreateNode("n-2")
			s.SetReady("n-1", corev1.ConditionUnknown, time.Minute)
			s.SetReady("n-2", corev1.ConditionUnknown, time.Minute)
			check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
				spec.MaxUnhealthy = ptr.To(intstr.FromString("100%"))
				spec.RemediationTemplate = s.CreateNodeTemplate(remediator.Metal3, "soft")
			})
			reachable := stage.OfNodes(stage.CheckCondition(remedyv1.ClusterReachableCondition))
			c := s.Start()
			s.Eventually(stage.Get(s, check)).Should(WithTransform(s.NodeDecision("n-1"), Equal("Pending ")))
			c.WaitIdle()
			s.Expect(s.Proxy.Set(mode)).To(Succeed())
			s.ChangeNode("n-2", func(n *corev1.Node) { n.Annotations = map[string]string{remedyv1.RemediateNodeAnnotation: "yes"} })
			s.SetReady("n-1", corev1.ConditionTrue, 0)
			s.Advance(time.Hour)
			s.Eventually(stage.Get(s, check)).Should(WithTransform(reachable, Equal("False ClusterUnreachable")))
			s.Eventually(stage.Get(s, check)).Should(HaveField("Status.Undetermined", HaveValue(BeEquivalentTo(2))))
			s.Expect(s.Requests(remediator.Metal3)).To(BeEmpty())

			s.Expect(s.Proxy.Set(faults.Pass)).To(Succeed())
			s.Eventually(stage.Get(s, check)).
				Should(WithTransform(reachable, Or(Equal("Unknown Reconnecting"), Equal("True ClusterReachable"))))
			s.Advance(time.Hour)
			s.Eventually(stage.Get(s, check)).Should(WithTransform(reachable, Equal("True ClusterReachable")))
			s.WaitRequest(remediator.Metal3, s.NodeName("n-2"))
			s.Eventually(stage.Get(s, check)).Should(HaveField("Status.HealthyNodes", HaveValue(BeEquivalentTo(1))))
			s.Expect(s.Requests(remediator.Metal3)).To(HaveLen(1))
		})
	}
}
