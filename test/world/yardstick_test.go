// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// figures are what one run of the yardstick measures, in seconds.
type figures struct {
	Controller       string  `json:"controller"`
	RateLimiting     bool    `json:"reconcilerRateLimiting"`
	Timeout          float64 `json:"timeoutSeconds"`
	WorldReady       float64 `json:"managementClusterReadySeconds"`
	ClusterReady     float64 `json:"clusterOf1And3ReadySeconds"`
	Marked           float64 `json:"nodeUnknownToMarkedSeconds"`
	ReplacementReady float64 `json:"nodeUnknownToReplacementReadySeconds"`
}

const yardstickTimeout = 5 * time.Second

// A Node goes Unknown. When do the in-tree controller and ours mark the Machine, and when is the replacement's Node Ready? With upstream's rate
// limiter, which is its default, and without. It asserts that it happens, and no times: they are logged, and written to figures.json
// (go test -artifacts keeps it).
func TestHowFastTheInTreeControllerIsAndHowFastOursIs(t *testing.T) {
	// Two cores are few: nothing else runs while it is measured.
	aside()
	var measured []figures
	for _, limited := range []bool{true, false} {
		t.Run(fmt.Sprintf("rate limiting %v", limited), func(t *testing.T) {
			measured = append(measured, measure(t, limited)...)
		})
	}
	NewWithT(t).Expect(measured).To(HaveLen(4))
	t.Logf("%-28s %14s %14s %10s %18s", "timeout 5 s", "world ready", "1 + 3 ready", "marked", "replacement Ready")
	for _, f := range measured {
		t.Logf("%-8s rate limiting %-5v %12.1f s %12.1f s %8.1f s %16.1f s", f.Controller, f.RateLimiting, f.WorldReady, f.ClusterReady, f.Marked, f.ReplacementReady)
	}
	content, err := json.MarshalIndent(measured, "", "  ")
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	file := filepath.Join(t.ArtifactDir(), "figures.json")
	NewWithT(t).Expect(os.WriteFile(file, append(content, '\n'), 0o600)).To(Succeed())
	t.Logf("figures: %s", file)
}

func measure(t *testing.T, limited bool) []figures {
	t.Helper()
	g := NewWithT(t)
	f := figures{Controller: "in-tree", RateLimiting: limited, Timeout: yardstickTimeout.Seconds()}
	begin := time.Now()
	w, err := world.Start(t.Context(), world.Options{
		Variables: map[string]string{world.RateLimiting: fmt.Sprint(limited)}, Logs: os.Getenv("WORLD_LOGS"),
	})
	g.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(w.Stop)
	f.WorldReady = time.Since(begin).Seconds()
	g.Expect(w.Process(world.Core).Args).To(ContainElement(ContainSubstring(fmt.Sprintf("ReconcilerRateLimiting=%v", limited))))

	begin = time.Now()
	c, err := w.Cluster(t.Context(), world.Shape{Name: "yardstick", Workers: 3})
	g.Expect(err).ToNot(HaveOccurred())
	tend(t.Context(), w, c)
	g.Expect(c.Ready(t.Context())).To(Succeed())
	f.ClusterReady = time.Since(begin).Seconds()

	g.Expect(w.Client.Create(t.Context(), inTreeCheck(c))).To(Succeed())
	g.Eventually(func() *int32 { return healthy(t, w, c) }, soon).Should(HaveValue(BeEquivalentTo(3)), "the check has looked at them")

	f.Marked, f.ReplacementReady = stopwatch(t, w, c)
	return []figures{f, measureOurs(t, w, c, f)}
}

func inTreeCheck(c *world.Cluster) *clusterv1.MachineHealthCheck {
	return &clusterv1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name},
		Spec: clusterv1.MachineHealthCheckSpec{
			ClusterName: c.Name,
			Selector:    metav1.LabelSelector{MatchLabels: map[string]string{world.PoolLabel: world.WorkersPool}},
			Checks: clusterv1.MachineHealthCheckChecks{UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: ptr.To(int32(yardstickTimeout.Seconds())),
			}}},
		},
	}
}

func healthy(t *testing.T, w *world.World, c *world.Cluster) *int32 {
	t.Helper()
	check := &clusterv1.MachineHealthCheck{}
	NewWithT(t).Expect(w.Client.Get(t.Context(), c.Key(), check)).To(Succeed())
	return check.Status.CurrentHealthy
}

func names(t *testing.T, c *world.Cluster) map[string]bool {
	t.Helper()
	machines, err := c.Machines(t.Context())
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	found := map[string]bool{}
	for _, m := range machines {
		found[m.Name] = true
	}
	return found
}

// replaced: there is a Machine that was not there before, and its Node is Ready.
func replaced(t *testing.T, c *world.Cluster, known map[string]bool) bool {
	t.Helper()
	machines, err := c.Machines(context.Background())
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	for _, m := range machines {
		if known[m.Name] || m.Status.NodeRef.Name == "" {
			continue
		}
		node, err := c.Node(t.Context(), m.Status.NodeRef.Name)
		if err == nil && world.ReadyNode(node) {
			return true
		}
	}
	return false
}
