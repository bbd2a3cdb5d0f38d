// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// Times are drawn close together and often equal, as it is at the edges where rules go wrong.
func drawSpan(t *rapid.T, name string) time.Duration {
	return time.Duration(rapid.IntRange(-3, 12).Draw(t, name)) * time.Minute
}

func drawTime(t *rapid.T, name string) time.Time {
	if rarely(t, name+" is unknown") {
		return time.Time{}
	}
	return ago(drawSpan(t, name))
}

func drawMilestone(t *rapid.T, name string) Milestone {
	return Milestone{Reached: !rarely(t, name+" is missing"), Since: drawTime(t, name+" since")}
}

// rarely is true now and then. Rapid likes the ends of a range, so that neither of them is chosen: most clusters are up, and only then do
// the rules are evaluated.
func rarely(t *rapid.T, name string) bool {
	return rapid.IntRange(0, 9).Draw(t, name) == 4
}

func drawCluster(t *rapid.T) ClusterFacts {
	c := ClusterFacts{ControlPlaneInitialized: drawMilestone(t, "control plane"), InfrastructureReady: drawMilestone(t, "infrastructure")}
	// In most of these cases the first look is over at noon, and the cluster is judged as any other.
	if rapid.Bool().Draw(t, "reconnected") {
		c.ReconnectingUntil = drawTime(t, "first look until")
	}
	return c
}

var (
	drawnTypes    = []string{"Ready", "DiskPressure", "InfrastructureReady"}
	drawnStatuses = []string{"True", "False", "Unknown"}
)

func drawChecks(t *rapid.T, name string) []ConditionCheck {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ConditionCheck {
		return ConditionCheck{
			Type: rapid.SampledFrom(drawnTypes).Draw(t, "type"), Status: rapid.SampledFrom(drawnStatuses).Draw(t, "status"),
			Lasting: max(0, drawSpan(t, "lasting")),
		}
	}), 0, 3).Draw(t, name)
}

func drawPolicy(t *rapid.T) Policy {
	return Policy{
		NodeConditions: drawChecks(t, "node checks"), MachineConditions: drawChecks(t, "machine checks"),
		NodeStartupTimeout: max(0, drawSpan(t, "startup timeout")), NodeGoneTimeout: max(0, drawSpan(t, "gone timeout")),
	}
}

func drawMachine(t *rapid.T) *MachineFacts {
	m := &MachineFacts{
		CreatedAt: drawTime(t, "created"), Deleting: rarely(t, "deleting"), ControlPlane: rapid.Bool().Draw(t, "control plane machine"),
		InfrastructureReady: drawMilestone(t, "machine infrastructure"), ProviderID: rapid.SampledFrom([]string{"", "x://1", "x://1", "x://2"}).Draw(t, "provider ID"),
		Failure: rapid.SampledFrom([]string{"", "", "", "", "CreateError"}).Draw(t, "failure"), NodeGoneSince: drawTime(t, "gone since"),
	}
	for _, kind := range drawnTypes {
		m.Conditions = append(m.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionStatus(rapid.SampledFrom(drawnStatuses).Draw(t, kind)), LastTransitionTime: metav1.NewTime(drawTime(t, kind+" since")),
		})
	}
	return m
}

func drawTarget(t *rapid.T) Target {
	target := Target{
		Annotations: Annotations{
			Paused: rarely(t, "paused"), SkipRemediation: rarely(t, "skip"),
			Remediate: rarely(t, "remediate"),
		},
		Node: NodeFacts{
			State: NodeState(rapid.SampledFrom([]int{0, 1, 2, 2, 2, 3}).Draw(t, "state")), CreatedAt: drawTime(t, "node created"),
			ProviderID: rapid.SampledFrom([]string{"", "x://1", "x://1", "x://2"}).Draw(t, "node provider ID"),
		},
	}
	if rapid.IntRange(0, 3).Draw(t, "is a bare Node") != 2 {
		target.Machine = drawMachine(t)
	}
	for _, kind := range drawnTypes[:rapid.IntRange(0, len(drawnTypes)).Draw(t, "conditions")] {
		target.Node.Conditions = append(target.Node.Conditions, corev1.NodeCondition{
			Type: corev1.NodeConditionType(kind), Status: corev1.ConditionStatus(rapid.SampledFrom(drawnStatuses).Draw(t, "node "+kind)),
			LastTransitionTime: metav1.NewTime(drawTime(t, "node "+kind+" since")),
		})
	}
	return target
}

func drawSnapshot(t *rapid.T) Snapshot {
	s := Snapshot{Cluster: drawCluster(t), Targets: rapid.SliceOfN(rapid.Custom(drawTarget), 0, 5).Draw(t, "targets")}
	for i := range s.Targets {
		s.Targets[i].Name = fmt.Sprintf("target-%d", i)
	}
	return s
}
