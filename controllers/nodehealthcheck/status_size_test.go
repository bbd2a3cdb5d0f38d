// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

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

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/nodehealthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	statusreport "github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// Ten thousand Nodes have names of maximum length, are unhealthy by each of ten conditions with long messages, and all of them are being
// remediated. The status lists a thousand of them, and can be written.
func TestStatus_LongestPossible_CanBeWritten(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	const nodes, kinds, maxStatusBytes = 10_000, 10, 1 << 20
	node := corev1.Node{}
	check := s.CreateNodeCheck(strings.Repeat("c", 253-len(s.Namespace)-1), func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.RemediationTemplate = s.CreateNodeTemplate(remediator.Example, "soft")
		spec.MaxInFlight = ptr.To(intstr.FromString("100%"))
		for i := range kinds {
			kind := fmt.Sprintf("Problem%d", i)
			spec.UnhealthyConditions = append(spec.UnhealthyConditions, remedyv1.LastingNodeCondition{
				Type: remedyv1.NodeConditionType(kind), Status: "True", Duration: stage.Duration(time.Second),
			})
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
				Type: corev1.NodeConditionType(kind), Status: "True", Reason: strings.Repeat("<", 5000), Message: strings.Repeat("<", 5000),
			})
		}
	})
	pass := longestEvaluation(check, &node, nodes)
	counted := explain.Status(pass, nil, func(int) *remedyv1.RequestReference {
		return &remedyv1.RequestReference{
			APIVersion: strings.Repeat("g", 253) + "/v1alpha1", Kind: strings.Repeat("K", 63),
			Namespace: strings.Repeat("n", 63), Name: strings.Repeat("r", 253),
		}
	})
	ended := slices.Repeat([]remedyv1.RecentRemediation{{
		Target: pass.Snapshot.Targets[0].Name, Outcome: remedyv1.ReplacedOutcome, StartTime: metav1.Now(), CompletionTime: metav1.Now(),
	}}, nodes)
	status := remedyv1.NodeHealthCheckStatus{CheckStatus: statusreport.Status(&check.Status.CheckStatus, &counted, ended, 1, time.Now())}
	nodehealthcheck.Count(&status, pass)

	s.Expect(status.ObservedNodes).To(HaveValue(BeEquivalentTo(nodes)))
	s.Expect(status.Remediating).To(HaveValue(BeEquivalentTo(nodes)))
	s.Expect(status.UnhealthyTargets).To(HaveLen(100))
	s.Expect(status.InFlightRemediations).To(HaveLen(1000))
	content, err := json.Marshal(status)
	s.Expect(err).ToNot(HaveOccurred())
	t.Logf("%d bytes", len(content))
	s.Expect(len(content)).To(BeNumerically("<", maxStatusBytes))
	s.ChangeStatus(check, func() { check.Status = status })
	s.Expect(stage.Get(s, check)().Status.InFlightRemediations).To(HaveLen(1000))
}

// longestEvaluation is that of many Nodes like one, each with a request.
func longestEvaluation(check *remedyv1.NodeHealthCheck, node *corev1.Node, nodes int) *explain.Evaluation {
	now := time.Now()
	reached := health.Milestone{Reached: true, Since: now.Add(-time.Hour)}
	snapshot := &health.Snapshot{Cluster: health.ClusterFacts{ControlPlaneInitialized: reached, InfrastructureReady: reached}}
	converted, situation := nodehealthcheck.CheckOf(check), &remediation.Situation{}
	source := nodehealthcheck.New(&healthcheck.Environment{}).Source
	for i := range nodes {
		named := *node
		named.Name = fmt.Sprintf("%0253d", i)
		h, r := source.Facts(converted, &healthcheck.Target{
			Object: &named, NodeTarget: workload.Target{Name: named.Name}, Reading: workload.Reading{State: health.Present, Node: &named},
		}, &health.MachineFacts{})
		r.Request = &remediation.Request{Started: now, Step: converted.Policy.Steps[0].ID}
		snapshot.Targets, situation.Targets = append(snapshot.Targets, h), append(situation.Targets, r)
	}
	assessment := health.Evaluate(snapshot, &converted.Health, now)
	plan := remediation.Plan(situation, &assessment, &converted.Policy, now)
	return &explain.Evaluation{
		Check: converted.Title(), Snapshot: snapshot, Assessment: &assessment, Situation: situation, Policy: &converted.Policy, Planned: &plan,
	}
}
