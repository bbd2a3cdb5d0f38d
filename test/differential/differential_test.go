// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package differential runs the in-tree MachineHealthCheck reconciler and Remedy with the same Machines and Nodes, and compares their
// reports. What differs is listed in differences_test.go and explained in docs/differences.md; everything else must be the same. What they
// do about it is compared on a real API server (environment_test.go), scenario by scenario (defects_*_test.go).
package differential_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// differencesFile explains to people what is tested here.
const differencesFile = "../../docs/differences.md"

// patience is how long the in-tree reconciler, which looks at its own clock, may take before a drawn time could cross a deadline.
const patience = 25 * time.Second

// seen is what a run has compared.
type seen struct {
	machines, differ int
	outcomes         map[string]int
	differences      map[string]int
	// silent are the reasons of Remedy to report nothing yet.
	silent map[health.Reason]int
}

func TestVerdicts_DrawnFacts_DifferOnlyAsDocumented(t *testing.T) {
	s := &seen{outcomes: map[string]int{}, differences: map[string]int{}, silent: map[health.Reason]int{}}
	rapid.Check(t, func(t *rapid.T) {
		f := drawFacts(t, time.Now())
		inTreeResult, status := judgedInTree(t, f)
		compare(t, s, f, inTreeResult, status)
	})
	t.Logf("%d Machines, of which %d are judged otherwise; in-tree outcomes: %v; Remedy without a report: %v; differences: %v", s.machines, s.differ, s.outcomes, s.silent, s.differences)
	// The drawing proves little if it does not reach everything.
	headings := make([]string, 0, 1+len(differences))
	headings = append(headings, nodesSpeakFirst)
	for _, d := range differences {
		headings = append(headings, d.heading)
	}
	for _, heading := range headings {
		if s.differences[heading] == 0 {
			t.Errorf("no drawn Machine shows the difference %q", heading)
		}
	}
	for _, o := range []string{
		"not judged", "True",
		"False " + clusterv1.MachineHealthCheckHasRemediateAnnotationReason, "False " + clusterv1.MachineHealthCheckUnhealthyMachineReason,
		"False " + clusterv1.MachineHealthCheckNodeDeletedReason, "False " + clusterv1.MachineHealthCheckNodeStartupTimeoutReason,
		"False " + clusterv1.MachineHealthCheckUnhealthyNodeReason,
	} {
		if s.outcomes[o] == 0 {
			t.Errorf("the in-tree reconciler reports %q of no drawn Machine", o)
		}
	}
	for _, reason := range []health.Reason{
		health.Paused, health.SkipRemediation, health.ControlPlaneNotInitialized, health.InfrastructureNotReady, health.Deleting, health.NodeNotJoined,
		health.UnhealthyMachine, health.UnhealthyNode, health.NodeStartupTimeout, health.NodeDeleted,
	} {
		if s.silent[reason] == 0 {
			t.Errorf("no drawn Machine is left alone for %q", reason)
		}
	}
}

func judgedInTree(t *rapid.T, f *facts) (map[string]outcome, clusterv1.MachineHealthCheckStatus) {
	world := newInTree(f)
	ctx := context.Background()
	if err := world.reconcile(ctx); err != nil {
		t.Fatal(err)
	}
	status, err := world.status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if status.ExpectedMachines == nil || status.CurrentHealthy == nil {
		t.Fatalf("the in-tree reconciler has not counted: %+v", status)
	}
	outcomes, err := world.outcomes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return outcomes, status
}

func compare(t *rapid.T, s *seen, f *facts, inTreeResult map[string]outcome, status clusterv1.MachineHealthCheckStatus) {
	now := time.Now()
	if now.Sub(f.now) > patience {
		// The machine is busy: another one is drawn.
		t.Skipf("one comparison took %s: drawn times may have crossed a deadline", now.Sub(f.now))
	}
	snapshot, p, longAgo := f.snapshot(), f.healthPolicy(), now.Add(-1000*time.Hour)

	// With all differences: only the Machines that a difference applies to may be counted otherwise.
	plain := health.Evaluate(snapshot, p, now)
	healthyByThem, healthyByUs := 0, 0
	for i := range f.machines {
		m := &f.machines[i]
		their, our := inTreeResult[m.name], m.outcomeOf(&plain.Verdicts[i])
		s.count(their, our, &plain.Verdicts[i])
		if !our.equal(their) && !slices.ContainsFunc(differences, func(d *difference) bool { return d.applies(f, m) }) {
			t.Fatalf("%s: in-tree %+v, Remedy %+v, and no difference explains it\n%+v\n%+v", m.name, their, our, f, m)
		}
		if their.succeeded == "True" && our.succeeded != "True" {
			healthyByThem++
		}
		if their.succeeded != "True" && our.succeeded == "True" {
			healthyByUs++
		}
	}
	expectCounts(t, plain.Counts, status, healthyByUs-healthyByThem)

	s.reconnected(t, f, inTreeResult)

	// With the differences undone: the same in every respect.
	same := health.Evaluate(without(snapshot, differences, longAgo), p, now)
	expectCounts(t, same.Counts, status, 0)
	for i := range f.machines {
		m := &f.machines[i]
		if our := m.outcomeOf(&same.Verdicts[i]); !our.equal(inTreeResult[m.name]) {
			t.Fatalf("%s: in-tree %+v, Remedy with all differences undone %+v\n%+v\n%+v", m.name, inTreeResult[m.name], our, f, m)
		}
	}

	// With all but one undone: that one, as it is meant, and nothing else.
	for i, d := range differences {
		others := slices.Delete(slices.Clone(differences), i, i+1)
		alone := health.Evaluate(without(snapshot, others, longAgo), p, now)
		for j := range f.machines {
			m := &f.machines[j]
			their, our := inTreeResult[m.name], m.outcomeOf(&alone.Verdicts[j])
			if our.equal(their) {
				continue
			}
			if !d.applies(f, m) || !d.expects(f, m, their, our, &alone.Verdicts[j]) {
				t.Fatalf("%s: in-tree %+v, Remedy %+v: not what %q means\n%+v\n%+v", m.name, their, our, d.heading, f, m)
			}
			s.differences[d.heading]++
		}
	}
}

// The differences that are not about the facts, but about when they are looked at.
const (
	cutOff            = "An unreachable cluster is evaluated as far as possible"
	nodesSpeakFirst   = "After a lost connection, Nodes get time to report their status"
	inclusiveDeadline = "Deadlines are inclusive"
)

// reconnected: the in-tree reconciler judges as soon as there is a connection, whatever was before. Remedy evaluates only what needs no Node.
func (s *seen) reconnected(t *rapid.T, f *facts, inTreeResult map[string]outcome) {
	snapshot := f.snapshot()
	snapshot.Cluster.ReconnectingUntil = f.now.Add(50 * time.Second)
	verdicts := health.Evaluate(snapshot, f.healthPolicy(), f.now).Verdicts
	for i := range f.machines {
		m := &f.machines[i]
		speaks := m.paused || m.skip || m.remediate || m.failure() != ""
		if waits := verdicts[i].Reason == health.ReconnectGracePeriod; waits == speaks {
			t.Fatalf("%s: just after a lost connection Remedy has %+v\n%+v", m.name, verdicts[i], m)
		}
		if !speaks && inTreeResult[m.name].succeeded != "" {
			s.differences[nodesSpeakFirst]++
		}
	}
}

func expectCounts(t *rapid.T, remedyResult health.Counts, inTreeResult clusterv1.MachineHealthCheckStatus, moreHealthy int) {
	if remedyResult.Expected != int(*inTreeResult.ExpectedMachines) || remedyResult.Healthy != int(*inTreeResult.CurrentHealthy)+moreHealthy {
		t.Fatalf("in-tree %d expected and %d healthy, Remedy %+v, where %d more should be healthy", *inTreeResult.ExpectedMachines, *inTreeResult.CurrentHealthy, remedyResult, moreHealthy)
	}
}

func (s *seen) count(inTreeResult, remedyResult outcome, v *health.Verdict) {
	s.machines++
	if v.Kind != health.Unhealthy && v.Kind != health.Healthy {
		s.silent[v.Reason]++
	}
	if !remedyResult.equal(inTreeResult) {
		s.differ++
	}
	if inTreeResult.succeeded == "" {
		s.outcomes["not judged"]++
	} else {
		s.outcomes[strings.TrimSpace(inTreeResult.succeeded+" "+inTreeResult.reason)]++
	}
}

// The in-tree reconciler stops if the cluster cannot be reached. Remedy continues with what needs no Node, and reports Nodes as unknown.
func TestVerdicts_NoConnection_MachineFactsAreEvaluated(t *testing.T) {
	g := NewWithT(t)
	now := time.Now().UTC().Truncate(time.Second)
	hourAgo := now.Add(-time.Hour)
	f := &facts{now: now, controlPlane: condition{"ControlPlaneInitialized", "True", "Because", hourAgo}, infrastructure: condition{"InfrastructureReady", "True", "Because", hourAgo}}
	f.policy.machineChecks = []check{{"InfrastructureReady", "False", time.Minute}, {"NodeReady", "Unknown", time.Minute}}
	f.machines = []machine{
		{name: "asked-for", createdAt: hourAgo, remediate: true},
		{name: "bad-condition", createdAt: hourAgo, hasNodeRef: true, conditions: []condition{{"InfrastructureReady", "False", "Because", hourAgo}}},
		{name: "not-joined", createdAt: hourAgo},
		// The conditions that Cluster API sets on every Machine of such a cluster are about the connection.
		{name: "maybe-well", createdAt: hourAgo, hasNodeRef: true, conditions: []condition{{"NodeReady", "Unknown", "ConnectionDown", hourAgo}}},
	}
	objects := append(make([]client.Object, 0, 2+len(f.machines)), f.cluster(), f.healthCheck())
	snapshot := f.snapshot()
	for i := range f.machines {
		objects = append(objects, f.machines[i].object(now))
		snapshot.Targets[i].Node = health.NodeFacts{State: health.Unreadable}
	}
	world := newInTreeOf(objects, clustercache.NewFakeEmptyClusterCache())
	g.Expect(world.reconcile(t.Context())).To(MatchError(clustercache.ErrClusterNotConnected))
	outcomes, err := world.outcomes(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(outcomes).To(HaveLen(4))
	g.Expect(outcomes).To(HaveEach(outcome{}), "no Machine has a report")
	status, err := world.status(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(status.ExpectedMachines).To(BeNil())

	remedyResult := make([]health.Reason, 0, len(f.machines))
	for _, v := range health.Evaluate(snapshot, f.healthPolicy(), now).Verdicts {
		remedyResult = append(remedyResult, v.Reason)
	}
	g.Expect(remedyResult).To(Equal([]health.Reason{health.HasRemediateAnnotation, health.UnhealthyMachine, health.NodeUnreadable, health.NodeUnreadable}))
}

// The same with drawn facts: the in-tree reconciler reports nothing, and for Remedy nothing counts against a Machine that only its Node
// would show.
func TestVerdicts_NoConnectionDrawnFacts_OnlyNodesAreUnknown(t *testing.T) {
	told := map[health.Reason]int{}
	rapid.Check(t, func(t *rapid.T) {
		f := drawFacts(t, time.Now())
		if !f.controlPlaneInitialized() {
			return
		}
		objects, snapshot := []client.Object{f.cluster(), f.healthCheck()}, f.snapshot()
		for i := range f.machines {
			objects = append(objects, f.machines[i].object(f.now))
			snapshot.Targets[i].Node = health.NodeFacts{State: health.Unreadable}
		}
		world := newInTreeOf(objects, clustercache.NewFakeEmptyClusterCache())
		if err := world.reconcile(context.Background()); !errors.Is(err, clustercache.ErrClusterNotConnected) {
			t.Fatalf("in-tree: %v", err)
		}
		outcomes, err := world.outcomes(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range health.Evaluate(snapshot, f.healthPolicy(), f.now).Verdicts {
			m := &f.machines[i]
			if !outcomes[m.name].equal(outcome{}) {
				t.Fatalf("%s: in-tree %+v", m.name, outcomes[m.name])
			}
			for n := range v.Findings {
				if v.Findings[n].Met && v.Findings[n].NeedsNode() {
					t.Fatalf("%s: %+v counts against it, and its Node cannot be read", m.name, v.Findings[n])
				}
			}
			if v.Recovered() {
				t.Fatalf("%s is reported healthy, and its Node cannot be read", m.name)
			}
			told[v.Reason]++
		}
	})
	for _, reason := range []health.Reason{health.HasRemediateAnnotation, health.MachineFailed, health.UnhealthyMachine, health.NodeUnreadable} {
		if told[reason] == 0 {
			t.Errorf("no drawn Machine has %q without a connection", reason)
		}
	}
}

// No run can hit a deadline to the moment, as the in-tree reconciler looks at a clock of its own: that is explained with the others all the
// same.
func TestDifferences_EachHeading_IsDocumented(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(differencesFile)
	g.Expect(err).ToNot(HaveOccurred())
	lines := strings.Split(string(content), "\n")
	for _, heading := range []string{cutOff, nodesSpeakFirst, inclusiveDeadline} {
		g.Expect(lines).To(ContainElement("## "+heading), differencesFile)
	}
	for _, d := range differences {
		g.Expect(lines).To(ContainElement("## "+d.heading), differencesFile)
	}
}
