// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// measureOurs is the yardstick for ours, in the world and the cluster where the in-tree controller was measured, whose check has gone.
func measureOurs(t *testing.T, w *world.World, c *world.Cluster, f figures) figures {
	t.Helper()
	g := NewWithT(t)
	f.Controller = "ours"
	expectToGo(t, w, inTreeCheck(c))
	g.Expect(c.Ready(t.Context())).To(Succeed())
	check := &remedyv1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name},
		Spec: remedyv1.MachineHealthCheckSpec{
			ClusterName: c.Name, Selector: inPool(world.WorkersPool),
			UnhealthyConditions: []remedyv1.UnhealthyNodeCondition{{Type: "Ready", Status: "Unknown", Timeout: *lasting(yardstickTimeout)}},
		},
	}
	g.Expect(w.Client.Create(t.Context(), check)).To(Succeed())
	g.Eventually(func() *int32 {
		g.Expect(w.Client.Get(t.Context(), c.Key(), check)).To(Succeed())
		return check.Status.CurrentHealthy
	}, soon).Should(HaveValue(BeEquivalentTo(3)), "the check has looked at them")
	f.Marked, f.ReplacementReady = stopwatch(t, w, c)
	return f
}

// stopwatch lets the Node of a worker go Unknown, and measures until its Machine is marked, and until the Node of its replacement is Ready.
func stopwatch(t *testing.T, w *world.World, c *world.Cluster) (marked, replacementReady float64) {
	t.Helper()
	g := NewWithT(t)
	machine, node := workerOf(t, c)
	known := names(t, c)
	begin := time.Now()
	g.Expect(c.SetNodeCondition(t.Context(), node, corev1.NodeReady, corev1.ConditionUnknown, "NodeStatusUnknown")).To(Succeed())
	said := machineCondition(t.Context(), w, machine, clusterv1.MachineHealthCheckSucceededCondition)
	g.Eventually(said, soon, 50*time.Millisecond).Should(HaveField("Status", metav1.ConditionFalse))
	marked = time.Since(begin).Seconds()
	g.Eventually(func() bool { return replaced(t, c, known) }, soon, 50*time.Millisecond).Should(BeTrue())
	return marked, time.Since(begin).Seconds()
}
