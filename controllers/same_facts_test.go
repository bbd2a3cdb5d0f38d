// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/machinehealthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/nodehealthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// evaluations are those of a MachineHealthCheck and a NodeHealthCheck, which read the same facts.
type evaluations struct {
	ofMachines, ofNodes *healthcheck.Check
	machines, nodes     *explain.Evaluation
}

func drawEvaluations(t *rapid.T) evaluations {
	machines, nodes := drawSpecs(t)
	check := remediation.Check{PauseRequests: machines.PauseRequests, Unreachable: rarely(t, "unreachable")}
	if rarely(t, "storm") {
		check.Storm.Since = drawTime(t, "storm since")
	}
	both := evaluations{machines, nodes, evaluation(machines, &check), evaluation(nodes, &check)}
	source := nodehealthcheck.New(&healthcheck.Environment{}).Source
	etcd := remediation.Etcd{State: some(t, "etcd", remediation.EtcdStacked, remediation.EtcdStacked, remediation.EtcdUnreadable)}
	for i := range rapid.IntRange(1, 6).Draw(t, "targets") {
		name := fmt.Sprintf("n%02d", i)
		machine, node := drawObjects(t, name)
		m := &healthcheck.Target{
			Object: machine, Machine: machine, ControlPlane: i < 3 && rapid.Bool().Draw(t, "control plane"),
			NodeTarget: workload.Target{Name: name}, Reading: workload.Reading{State: health.Present, Node: node},
		}
		n := &healthcheck.Target{Object: node, ControlPlane: m.ControlPlane, NodeTarget: m.NodeTarget, Reading: m.Reading}
		mh, mr := machinehealthcheck.Source{}.Facts(machines, m, &health.MachineFacts{})
		nh, nr := source.Facts(nodes, n, &health.MachineFacts{})
		if check.Unreachable {
			// The annotation of a Machine can be read then, that of a Node cannot.
			mh.Annotations.Remediate, nh.Annotations.Remediate = false, false
		}
		drawRest(t, &machines.Policy, &mr, &nr)
		add(both.machines, mh, mr)
		add(both.nodes, nh, nr)
		if m.ControlPlane {
			etcd.Members = append(etcd.Members, remediation.Member{Node: name, Healthy: rapid.Bool().Draw(t, "member")})
		}
	}
	both.machines.Situation.ControlPlane.Etcd, both.nodes.Situation.ControlPlane.Etcd = etcd, etcd
	return both
}

// evaluation has the policy of a check, and no targets yet.
func evaluation(check *healthcheck.Check, state *remediation.Check) *explain.Evaluation {
	return &explain.Evaluation{
		Check:  check.Title(),
		Policy: &check.Policy,
		Snapshot: &health.Snapshot{Cluster: health.ClusterFacts{
			ControlPlaneInitialized: health.Milestone{Reached: true}, InfrastructureReady: health.Milestone{Reached: true},
		}},
		Situation: &remediation.Situation{Check: *state},
	}
}

// decide evaluates the targets of both with the health policy of each.
func (b *evaluations) decide() {
	decide(b.machines, &b.ofMachines.Health)
	decide(b.nodes, &b.ofNodes.Health)
}

func decide(e *explain.Evaluation, policy *health.Policy) {
	assessment := health.Evaluate(e.Snapshot, policy, noon)
	planned := remediation.Plan(e.Situation, &assessment, e.Policy, noon)
	e.Assessment, e.Planned = &assessment, &planned
}

// decisions leaves out MarkedBy: only Machines get conditions.
func decisions(e *explain.Evaluation) []remediation.Decision {
	all := make([]remediation.Decision, 0, len(e.Planned.Decisions))
	for _, d := range e.Planned.Decisions {
		d.MarkedBy = false
		all = append(all, d)
	}
	return all
}

// verdicts leaves out OnNode: annotations have two names.
func verdicts(e *explain.Evaluation) []health.Verdict {
	all := slices.Clone(e.Assessment.Verdicts)
	for i := range all {
		all[i].OnNode = false
		all[i].Findings = slices.Clone(all[i].Findings)
		for j := range all[i].Findings {
			all[i].Findings[j].OnNode = false
		}
	}
	return all
}

// traces have all words about all targets, without the name of the check and with one name for each annotation.
func traces(g *WithT, e *explain.Evaluation) string {
	all := make([]explain.Trace, 0, len(e.Snapshot.Targets))
	for i := range e.Snapshot.Targets {
		trace := e.Trace(i)
		trace.Check = ""
		all = append(all, trace)
	}
	words, err := json.MarshalIndent(all, "", " ")
	g.Expect(err).ToNot(HaveOccurred())
	return strings.NewReplacer(
		remedyv1.RemediateNodeAnnotation, clusterv1.RemediateMachineAnnotation,
		"Node has the annotation "+remedyv1.SkipRemediationAnnotation, "Machine has the annotation "+clusterv1.MachineSkipRemediationAnnotation,
	).Replace(string(words))
}

// The same facts about a Machine and about a Node lead to the same verdict, decision, reason and message. Only the limit counts
// differently, so the test first lets both count as NodeHealthChecks do. Then each counts in its own way: a MachineHealthCheck counts at
// least as many targets, and where the counts are equal, the decisions are.
func TestKinds_SameFacts_DecideTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		both := drawEvaluations(t)
		own := both.machines.Policy.Counting
		both.machines.Policy.Counting = both.nodes.Policy.Counting
		both.decide()
		g.Expect(verdicts(both.machines)).To(Equal(verdicts(both.nodes)))
		g.Expect(decisions(both.machines)).To(Equal(decisions(both.nodes)))
		g.Expect(traces(g, both.machines)).To(Equal(traces(g, both.nodes)))
		g.Expect(explain.Conditions(both.machines)).To(Equal(explain.Conditions(both.nodes)))

		both.machines.Policy.Counting = own
		both.decide()
		machines, nodes := &both.machines.Planned.LimitState, &both.nodes.Planned.LimitState
		g.Expect(machines.Unhealthy).To(BeNumerically(">=", nodes.Unhealthy))
		if machines.Unhealthy == nodes.Unhealthy {
			g.Expect(decisions(both.machines)).To(Equal(decisions(both.nodes)))
			// Messages name what is counted.
			both.machines.Policy.Counting = both.nodes.Policy.Counting
			g.Expect(traces(g, both.machines)).To(Equal(traces(g, both.nodes)))
		}
	})
}

func add(e *explain.Evaluation, h health.Target, r remediation.Target) {
	e.Snapshot.Targets, e.Situation.Targets = append(e.Snapshot.Targets, h), append(e.Situation.Targets, r)
}
