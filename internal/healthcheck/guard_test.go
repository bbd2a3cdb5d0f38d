//go:build benchguard

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// requestCost is how many API requests something costs, to all API servers, without watches and events.
type requestCost struct{ reads, writes int }

// costOf returns what an instance has sent since an earlier count, and a list of it.
func costOf(c *stage.Instance, before map[string]int) (cost requestCost, list []string) {
	now := c.Requests()
	for _, request := range slices.Sorted(maps.Keys(now)) {
		sent := now[request] - before[request]
		switch {
		case sent == 0 || strings.HasSuffix(request, " events.events.k8s.io"):
			continue
		case strings.HasPrefix(request, "GET "):
			cost.reads += sent
		default:
			cost.writes += sent
		}
		list = append(list, fmt.Sprintf("%d %s", sent, request))
	}
	return cost, list
}

// A remediation begins with a Node that is NotReady, and ends when the Node is ready again and its request no longer exists. Owner
// remediation is requested once, and stays requested, because no owner is there to replace the Machine. The limits are what it costs, and
// half more. A busy machine needs more reconciles than eight, and a few requests for each of them.
func TestGuard_OneRemediation_CostsFewAPIRequests(t *testing.T) {
	const reconciles = 8
	forEachRemediation(t, func(s *kindStage) {
		limit := requestCost{reads: 39, writes: 22}
		if s.byOwner {
			limit = requestCost{reads: 13, writes: 10}
		} else if s.ofNodes {
			limit = requestCost{reads: 45, writes: 18}
		}
		s.createTargets("m-1", "m-2", "m-3")
		check := s.createCheck()
		c := s.Start()
		s.Eventually(check.healthy).Should(Equal(3))
		earlier := c.WaitNoReconciles()[check.GetName()]
		before := c.Requests()
		s.FailNode("m-1")
		if s.byOwner {
			s.waitMachineCondition("m-1", "OwnerRemediated", "False WaitingForRemediation")
		} else {
			s.waitRequest("m-1")
			s.Remediate(s.first, remediator.Succeeds)
		}
		s.SetReady("m-1", corev1.ConditionTrue, 0)
		s.Eventually(func() any {
			s.Remediate(s.first, remediator.Succeeds)
			return s.request("m-1")()
		}).Should(BeNil())
		s.Eventually(check.healthy).Should(Equal(3))
		c.WaitNoReconciles()
		cost, list := costOf(c, before)
		rounds := int(c.WaitNoReconciles()[check.GetName()] - earlier)
		s.T.Logf("%d reads and %d writes in %d reconciles:\n%s", cost.reads, cost.writes, rounds, strings.Join(list, "\n"))
		s.Expect(rounds).To(BeNumerically("<=", 4*reconciles))
		more := min(max(0, rounds-reconciles), reconciles)
		s.Expect(cost.reads).To(And(BeNumerically(">", 0), BeNumerically("<=", limit.reads+4*more)))
		s.Expect(cost.writes).To(And(BeNumerically(">", 0), BeNumerically("<=", limit.writes+2*more)))
	}, stage.WithWorkloadWrites)
}

// Heartbeats cause no reconcile and no API request. The failure at the end of each watch proves that they were delivered.
func TestGuard_Heartbeats_CostNoReconcile(t *testing.T) {
	const nodes, heartbeats = 50, 500
	forEachKind(t, func(s *kindStage) {
		bulk := s.NewBulk()
		if s.ofNodes {
			bulk = s.NewNodeBulk()
			s.Expect(stage.Parallel(nodes, bulk.CreateNode)).To(Succeed())
		} else {
			bulk.Create(nodes)
		}
		check := s.createCheck(pausedByUser)
		c := s.Start()
		s.Eventually(check.healthy).Should(Equal(nodes))
		reconciles, before := c.WaitNoReconciles()[check.GetName()], c.Requests()
		s.Expect(stage.Parallel(heartbeats, func(i int) error { return bulk.Heartbeat(i % nodes) })).To(Succeed())
		s.Expect(c.WaitNoReconciles()[check.GetName()]).To(Equal(reconciles))
		// Every half a minute, the manager verifies that it can list Nodes.
		cost, sent := costOf(c, before)
		s.Expect(sent).To(Or(BeEmpty(), ConsistOf(HaveSuffix(" GET nodes"))))
		s.Expect(cost.reads).To(BeNumerically("<", heartbeats/10))
		s.Expect(bulk.FailNode(0)).To(Succeed())
		s.Eventually(check.healthy).Should(Equal(nodes - 1))
	}, stage.WithWorkloadWrites, stage.WithClock)
}
