// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// clocks are those of the manager and of the writers of a Node, as far as they are ahead of the API server. They drift, and step by up to
// an hour. Either the manager has a wrong clock, or the writers have.
type clocks struct {
	ofManager bool
	ahead     map[string]time.Duration
	drift     map[string]time.Duration
}

const ownClock, kubelet, nodeController = "manager", "kubelet", "node controller"

func drawClocks(t *rapid.T) *clocks {
	return &clocks{
		ofManager: rapid.Bool().Draw(t, "the clock of the manager is wrong"),
		ahead:     map[string]time.Duration{}, drift: map[string]time.Duration{},
	}
}

// pass lets time pass. Clocks drift, and sometimes step.
func (c *clocks) pass(t *rapid.T, lasting time.Duration) {
	for _, of := range []string{ownClock, kubelet, nodeController} {
		if (of == ownClock) != c.ofManager {
			continue
		}
		if rapid.IntRange(0, 3).Draw(t, of+" steps") == 0 {
			c.ahead[of] = time.Duration(rapid.IntRange(-3600, 3600).Draw(t, of+" is ahead, in seconds")) * time.Second
			c.drift[of] = time.Duration(rapid.IntRange(-100, 100).Draw(t, of+" drifts, in ms a second"))
		}
		c.ahead[of] += c.drift[of] * lasting / 1000
	}
}

// The manager reads that a Node is Ready. Whatever clocks are wrong, it remediates the Node only when another status has lasted for almost
// the timeout after that. If no writer is ahead, it does so in time.
func TestNodeCache_WrongClocks_CountFromOwnReads(t *testing.T) {
	status := map[string][]corev1.ConditionStatus{
		kubelet: {corev1.ConditionTrue, corev1.ConditionFalse}, nodeController: {corev1.ConditionUnknown},
	}
	rapid.Check(t, func(rt *rapid.T) {
		g, all := NewWithT(rt), drawClocks(rt)
		actual := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
		clk := testingclock.NewFakePassiveClock(actual)
		nodes, api := newNodeCache(transitions{clk, ClockTolerance}), &ManagementAPI{clock: clk}
		timeout := time.Duration(rapid.IntRange(30, 600).Draw(rt, "timeout")) * time.Second
		policy := &health.Policy{NodeConditions: []health.ConditionCheck{
			{Type: "Ready", Status: "Unknown", Lasting: timeout},
			{Type: "Ready", Status: "False", Lasting: timeout},
		}}
		nodes.put(read(corev1.NodeReady, corev1.ConditionTrue, actual.Add(-time.Hour)))
		present, healthy, since, inTime := corev1.ConditionTrue, actual, actual, true
		for range rapid.IntRange(1, 30).Draw(rt, "events") {
			lasting := time.Duration(rapid.IntRange(0, int(timeout.Seconds()/2)).Draw(rt, "seconds")) * time.Second
			actual = actual.Add(lasting)
			all.pass(rt, lasting)
			clk.SetTime(actual.Add(all.ahead[ownClock]))
			writer := rapid.SampledFrom([]string{"", kubelet, nodeController}).Draw(rt, "writer")
			if writer != "" {
				if next := rapid.SampledFrom(status[writer]).Draw(rt, "Ready"); next != present {
					present, since, inTime = next, actual, all.ahead[writer] <= 0
					nodes.put(read(corev1.NodeReady, present, actual.Add(all.ahead[writer]).Truncate(time.Second)))
				}
			}
			if present == corev1.ConditionTrue {
				healthy = actual
			}
			api.answer(clk.Now(), actual.UTC().Format(http.TimeFormat))

			node := nodes.byName["a"]
			facts := health.NodeFacts{State: health.Present, Name: "a", Conditions: node.Status.Conditions}
			reached := health.Milestone{Reached: true}
			snapshot := &health.Snapshot{
				Cluster: health.ClusterFacts{ControlPlaneInitialized: reached, InfrastructureReady: reached},
				Targets: []health.Target{{Name: "a", Node: facts}},
			}
			verdict := health.Evaluate(snapshot, policy, clk.Now()).Verdicts[0]
			check := remediation.Check{Observation: remediation.Observation{ClockOffset: api.ClockOffset()}}
			starts := verdict.Kind == health.Unhealthy && !check.Skewed()
			early := ClockTolerance
			if all.ofManager {
				// The guard allows this, and the date of an answer has whole seconds.
				early += remediation.LargestClockSkew + time.Second
			}
			if starts {
				g.Expect(actual.Sub(healthy)).To(BeNumerically(">=", timeout-early), "it was read healthy before")
			}
			if !all.ofManager && inTime && present != corev1.ConditionTrue && actual.Sub(since) >= timeout {
				g.Expect(starts).To(BeTrue(), "it has been %s for %s", present, actual.Sub(since))
			}
		}
	})
}
