// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// TestProperties_DrawnCases_ReachEverything shows that the properties see every guard hold, and every action taken for each of its causes.
// The seeds are fixed: the result depends on the generators only, and not on luck.
func TestProperties_DrawnCases_ReachEverything(t *testing.T) {
	missing := reachable()
	plans := rapid.Custom(func(t *rapid.T) Planned {
		d := draw(t)
		return d.plan()
	})
	seed := 0
	for ; len(missing) > 0 && seed < 10_000; seed++ {
		plan := plans.Example(seed)
		for _, got := range plan.Decisions {
			delete(missing, "hold "+string(got.Block.Reason))
			delete(missing, fmt.Sprintf("action %d %s", got.Action, got.Why))
			for _, answer := range got.Answers {
				if answer.Blocks {
					delete(missing, "guard "+string(answer.Guard))
				}
			}
		}
		for _, got := range plan.Orphans {
			delete(missing, fmt.Sprintf("orphan %d %s", got.Action, got.Why))
		}
	}
	for name := range missing {
		t.Errorf("no drawn case reaches %q", name)
	}
	t.Logf("%d cases drawn", seed)
}

// reachable are all guards, the holds that come from no guard, all actions with their causes, and what is done about orphaned targets.
func reachable() map[string]bool {
	wanted := map[string]bool{"hold ": true}
	for _, hold := range []Reason{PreviousStepNotReleased, OwnerNotActing, RecoveryNotConfirmed} {
		wanted["hold "+string(hold)] = true
	}
	for _, g := range guards {
		wanted["guard "+string(g.reason)] = true
	}
	for action, whys := range map[Action][]Reason{
		None: {""}, Wait: {""}, StartRequest: {""}, RequestOwnerRemediation: {""},
		GiveUp:                 {StepFailed, StepTimedOut},
		Withdraw:               {Recovered, StepChanged, CheckDeleting, ObserveMode, ClusterNotFound, ManagedByOtherCheck, NotSelected},
		CancelOwnerRemediation: {PauseRequested, InStorm, StepChanged},
		RemoveConditions:       {CheckDeleting, ObserveMode, ClusterNotFound, ManagedByOtherCheck, NotSelected},
	} {
		for _, why := range whys {
			wanted[fmt.Sprintf("action %d %s", action, why)] = true
		}
	}
	for _, why := range []Reason{NotSelected, NodeNotFound} {
		wanted[fmt.Sprintf("orphan %d %s", Withdraw, why)], wanted[fmt.Sprintf("orphan %d %s", RemoveConditions, why)] = true, true
	}
	return wanted
}

func healthyFleet(n int) (Situation, health.Snapshot, Policy, health.Policy) {
	at := noon.Add(-time.Hour)
	limit, slots := intstr.FromString("40%"), intstr.FromString("10%")
	policy := Policy{
		Limits: Limits{MaxUnhealthy: &limit}, MaxInFlight: &slots, Backoff: Backoff{Initial: time.Minute, Limit: 10 * time.Minute},
		Steps: []Step{{ID: StepID{Order: 1, Template: "A/a"}, Timeout: time.Minute}, {ID: StepID{Order: 2}, Owner: true}}, StormCooldown: time.Minute,
	}
	up := health.Milestone{Reached: true, Since: at}
	snapshot := health.Snapshot{Cluster: health.ClusterFacts{ControlPlaneInitialized: up, InfrastructureReady: up}, Targets: make([]health.Target, n)}
	situation := Situation{Targets: make([]Target, n)}
	for i := range n {
		name := fmt.Sprintf("machine-%05d", i)
		snapshot.Targets[i] = health.Target{
			Name:    name,
			Machine: &health.MachineFacts{CreatedAt: at, InfrastructureReady: up, Conditions: machineConditions},
			Node:    health.NodeFacts{State: health.Present, Name: name, CreatedAt: at, Conditions: nodeConditions},
		}
		situation.Targets[i] = Target{Name: name, Node: name, Owner: "MachineSet/a", OwnerRemediation: OwnerRemediation{MarkedByThis: true}}
	}
	checks := health.Policy{
		NodeConditions:     []health.ConditionCheck{{Type: "Ready", Status: "Unknown", Lasting: 5 * time.Minute}, {Type: "Ready", Status: "False", Lasting: 5 * time.Minute}},
		NodeStartupTimeout: 10 * time.Minute,
	}
	return situation, snapshot, policy, checks
}

func benchmarkDecisions(b *testing.B, n int) {
	situation, snapshot, policy, checks := healthyFleet(n)
	b.ReportAllocs()
	for b.Loop() {
		a := health.Evaluate(&snapshot, &checks, noon)
		if plan := Plan(&situation, &a, &policy, noon); plan.Counts.Healthy != n {
			b.Fatal(plan.Counts)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/target")
}

func BenchmarkEvaluateAndPlan100(b *testing.B)   { benchmarkDecisions(b, 100) }
func BenchmarkEvaluateAndPlan1000(b *testing.B)  { benchmarkDecisions(b, 1000) }
func BenchmarkEvaluateAndPlan10000(b *testing.B) { benchmarkDecisions(b, 10000) }

// However many targets are healthy, the number of allocations is the same.
func TestHealthyTarget_Unchanged_AllocatesNothing(t *testing.T) {
	allocations := func(n int) float64 {
		situation, snapshot, policy, checks := healthyFleet(n)
		return testing.AllocsPerRun(10, func() {
			a := health.Evaluate(&snapshot, &checks, noon)
			_ = Plan(&situation, &a, &policy, noon)
		})
	}
	if few, many := allocations(10), allocations(5000); many > few {
		t.Errorf("%v allocations for 10 healthy targets, %v for 5000", few, many)
	}
}

var (
	machineConditions = []metav1.Condition{{Type: "InfrastructureReady", Status: "True"}, {Type: "NodeReady", Status: "True"}}
	nodeConditions    = []corev1.NodeCondition{
		{Type: "MemoryPressure", Status: "False"},
		{Type: "DiskPressure", Status: "False"},
		{Type: "PIDPressure", Status: "False"},
		{Type: "NetworkUnavailable", Status: "False"},
		{Type: "Ready", Status: "True"},
	}
)
