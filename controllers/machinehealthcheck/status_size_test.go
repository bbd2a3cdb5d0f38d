// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/machinehealthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// maxStatusBytes is the maximum size of a status: two thirds of what etcd accepts in one write.
const maxStatusBytes = 1 << 20

// Ten thousand Machines have names of maximum length, and all of them are unhealthy by each of ten conditions. The messages of the
// conditions are long and consist of characters that take six bytes each in JSON.
func TestStatus_LongestPossible_CanBeWritten(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	const machines, kinds = 10_000, 10
	check := &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: strings.Repeat("c", 253)}}
	check.Spec.ClusterName = "prod"
	check.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": "none"}
	check.Spec.MaxInFlight = ptr.To(intstr.FromString("100%"))
	node := &corev1.Node{}
	for i := range kinds {
		kind := fmt.Sprintf("Problem%d", i)
		check.Spec.UnhealthyConditions = append(check.Spec.UnhealthyConditions, remedyv1.UnhealthyNodeCondition{
			Type: remedyv1.NodeConditionType(kind), Status: "True", Timeout: stage.Duration(time.Second),
		})
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeConditionType(kind), Status: "True", Reason: strings.Repeat("<", 5000), Message: strings.Repeat("<", 5000),
		})
	}
	s.Create(check)
	all, nodes := make([]*clusterv1.Machine, machines), make([]workload.Reading, machines)
	for i := range all {
		name := fmt.Sprintf("%0253d", i)
		all[i] = &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: name,
			OwnerReferences: []metav1.OwnerReference{{Kind: "MachineSet", Name: strings.Repeat("o", 253), Controller: ptr.To(true)}},
		}}
		all[i].Status.NodeRef.Name = name
		nodes[i] = workload.Reading{State: health.Present, Node: node}
	}
	s.Expect(s.Admin.Get(s.Ctx, stage.Key(s.Namespace, "prod"), s.Cluster)).To(Succeed())
	status := longestStatus(check, all, nodes, time.Now())

	// Targets that are not listed are counted.
	s.Expect(status.ExpectedMachines).To(HaveValue(BeEquivalentTo(machines)))
	s.Expect(status.CurrentHealthy).To(HaveValue(BeEquivalentTo(0)))
	s.Expect(status.Unhealthy).To(HaveValue(BeEquivalentTo(machines)))
	s.Expect(status.UnhealthyTargetsTotal).To(HaveValue(BeEquivalentTo(machines)))
	s.Expect(status.UnhealthyTargets).To(HaveLen(100))
	s.Expect(status.Targets).To(HaveLen(1000))
	s.Expect(status.RecentRemediations).To(HaveLen(10))
	content, err := json.Marshal(status)
	s.Expect(err).ToNot(HaveOccurred())
	t.Logf("%d bytes; the longest message has %d", len(content), len(status.UnhealthyTargets[0].Message))
	s.Expect(len(content)).To(BeNumerically("<", maxStatusBytes))
	s.ChangeStatus(check, func() { check.Status = status })
	s.Expect(stage.Get(s, check)().Status.UnhealthyTargets).To(HaveLen(100))
}

// longestStatus is the status of a reconcile of Machines with these Nodes before any remediation starts.
func longestStatus(
	check *remedyv1.MachineHealthCheck,
	machines []*clusterv1.Machine,
	nodes []workload.Reading,
	now time.Time,
) remedyv1.MachineHealthCheckStatus {
	reached := health.Milestone{Reached: true, Since: now.Add(-time.Hour)}
	snapshot := &health.Snapshot{Cluster: health.ClusterFacts{ControlPlaneInitialized: reached, InfrastructureReady: reached}}
	converted, situation := machinehealthcheck.CheckOf(check), &remediation.Situation{}
	for i, m := range machines {
		t := &healthcheck.Target{Object: m, Machine: m, NodeTarget: workload.Target{Name: m.Status.NodeRef.Name}, Reading: nodes[i]}
		h, r := machinehealthcheck.Source{}.Facts(converted, t, &health.MachineFacts{})
		snapshot.Targets, situation.Targets = append(snapshot.Targets, h), append(situation.Targets, r)
	}
	assessment := health.Evaluate(snapshot, &converted.Health, now)
	plan := remediation.Plan(situation, &assessment, &converted.Policy, now)
	pass := &explain.Evaluation{
		Check:      converted.Title(),
		Snapshot:   snapshot,
		Assessment: &assessment,
		Situation:  situation,
		Policy:     &converted.Policy,
		Planned:    &plan,
	}
	counted := explain.Status(pass, nil, func(int) *remedyv1.RequestReference { return nil })
	ended := slices.Repeat([]remedyv1.RecentRemediation{{
		Target: machines[0].Name, Outcome: remedyv1.ReplacedOutcome, StartTime: metav1.NewTime(now), CompletionTime: metav1.NewTime(now),
	}}, len(machines))
	status := remedyv1.MachineHealthCheckStatus{CheckStatus: report.Status(&converted.Status, &counted, ended, check.Generation, now)}
	machinehealthcheck.Count(&status, pass)
	return status
}
