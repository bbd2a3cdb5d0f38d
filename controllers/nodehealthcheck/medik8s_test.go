// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

var disjoint = stage.OfNodes(stage.CheckCondition(remedyv1.SelectorsDisjointCondition))

func medik8sChecks() remediator.Kind {
	kind := remediator.NewKind("remediation.medik8s.io", "v1alpha1", "NodeHealthCheck")
	kind.Cluster = true
	return kind
}

// createMedik8sCheck creates a NodeHealthCheck of medik8s in the management cluster that selects the Nodes n-2 and n-3, and pauses it if
// there is a reason. It is deleted at the end of the test.
func createMedik8sCheck(s *stage.Stage, pauseRequests ...any) *unstructured.Unstructured {
	s.T.Helper()
	s.Expect(stage.Management.InstallCRDObjects(medik8sChecks().RequestCRD())).To(Succeed())
	for _, name := range []string{"n-2", "n-3"} {
		s.ChangeNode(name, func(node *corev1.Node) { node.Labels["kubernetes.io/hostname"] = s.Namespace })
	}
	check := medik8sChecks().NewRequest("", s.Namespace)
	check.Object["spec"] = map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/hostname": s.Namespace}}, "pauseRequests": pauseRequests,
	}
	s.Create(check)
	s.T.Cleanup(func() { s.Expect(client.IgnoreNotFound(s.Admin.Delete(s.Ctx, check))).To(Succeed()) })
	return check
}

// medik8sStatus is the status of a check that remediates a Node, and not others.
func medik8sStatus(remediated string, others ...string) map[string]any {
	nodes := make([]any, 0, 1+len(others))
	nodes = append(nodes, map[string]any{"name": remediated, "remediations": []any{map[string]any{"started": "2026-01-01T00:00:00Z"}}})
	for _, name := range others {
		nodes = append(nodes, map[string]any{"name": name})
	}
	return map[string]any{"unhealthyNodes": nodes}
}

// remediatedByMedik8s creates a check of medik8s in the management cluster that selects no Node any more, but still remediates one.
func remediatedByMedik8s(s *stage.Stage, node string) *unstructured.Unstructured {
	s.T.Helper()
	s.Expect(stage.Management.InstallCRDObjects(medik8sChecks().RequestCRD())).To(Succeed())
	check := medik8sChecks().NewRequest("", s.Namespace)
	check.Object["spec"] = map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/hostname": "none"}}}
	s.Create(check)
	s.T.Cleanup(func() { s.Expect(client.IgnoreNotFound(s.Admin.Delete(s.Ctx, check))).To(Succeed()) })
	s.ChangeStatus(check, func() { check.Object["status"] = medik8sStatus(s.NodeName(node)) })
	return check
}

// startWithoutMedik8s starts a check of three healthy Nodes, while the kind of medik8s is served and there is no check of it.
func startWithoutMedik8s(s *stage.Stage) (*remedyv1.NodeHealthCheck, *stage.Instance) {
	s.T.Helper()
	for _, name := range []string{"n-1", "n-2", "n-3"} {
		s.CreateNode(name)
	}
	s.Expect(stage.Management.InstallCRDObjects(medik8sChecks().RequestCRD())).To(Succeed())
	check := s.CreateNodeCheck("workers")
	return check, s.Start()
}

// These are the steps of docs/migrate-medik8s.md. At each of them one of the two is responsible for the Node.
func TestMedik8s_Migration_HandsTheNodesOver(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithClock)
	createNodes(s)
	other := createMedik8sCheck(s)
	check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) { spec.Mode = remedyv1.ObserveMode })
	c := s.Start()
	// Compare: Remedy reports what it would do, and that the other check is responsible.
	decided(s, check, "n-3", Equal("Observed ObserveMode"))
	s.Expect(disjoint(check)).To(Equal("False SelectorsOverlap"))
	s.Expect(stage.OfNodes(stage.CheckMessage(remedyv1.SelectorsDisjointCondition))(check)).
		To(ContainSubstring("nodehealthchecks.remediation.medik8s.io " + s.Namespace))
	s.Expect(stage.OfNodes(stage.CheckCondition(remedyv1.ReadyCondition))(check)).To(Equal("False SelectorsOverlap"))
	c.WaitIdle()
	s.Expect(s.Requests(remediator.FenceAgents)).To(BeEmpty())
	// The other check is paused.
	s.Change(other, func() {
		s.Expect(unstructured.SetNestedSlice(other.Object, []any{"migrated"}, "spec", "pauseRequests")).To(Succeed())
	})
	s.Advance(time.Minute + time.Second)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(disjoint, Equal("True SelectorsDisjoint")))
	// Remedy remediates.
	s.Change(check, func() { check.Spec.Mode = remedyv1.EnforceMode })
	s.WaitRequest(remediator.FenceAgents, s.NodeName("n-3"))
	// The other check is deleted.
	s.Expect(s.Admin.Delete(s.Ctx, other)).To(Succeed())
	s.Advance(time.Minute + time.Second)
	c.WaitIdle()
	decided(s, check, "n-3", Equal("Remediating "))
	s.Expect(s.NodeRequest(remediator.FenceAgents, "n-3")().GetDeletionTimestamp()).To(BeNil())
}

// A paused check of medik8s still has requests for the Nodes in its status, and claims no others.
func TestMedik8s_Paused_KeepsTheNodesInFlight(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithClock)
	createNodes(s)
	s.CreateNode("n-4")
	s.CreateNode("n-5")
	other := createMedik8sCheck(s, "maintenance")
	s.ChangeStatus(other, func() { other.Object["status"] = medik8sStatus(s.NodeName("n-3"), s.NodeName("n-2")) })
	check := s.CreateNodeCheck("workers")
	s.Start()
	decided(s, check, "n-3", Equal("Blocked ManagedByOtherCheck"))
	s.FailNode("n-2")
	decided(s, check, "n-2", Equal("Remediating "))
	s.Expect(s.NodeRequest(remediator.FenceAgents, "n-3")()).To(BeNil())
}

// What was read of medik8s is used for a minute. The preflight check reads it again.
func TestMedik8s_CreatedLater_IsReadByThePreflightCheck(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithClock)
	check, c := startWithoutMedik8s(s)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(status, Equal([]int32{3, 3, 0})))
	createMedik8sCheck(s)
	s.FailNode("n-3")
	decided(s, check, "n-3", Or(Equal("Blocked PreflightFailed"), Equal("Blocked ManagedByOtherCheck")))
	s.Wake()
	decided(s, check, "n-3", Equal("Blocked ManagedByOtherCheck"))
	c.WaitIdle()
	s.Expect(s.Requests(remediator.FenceAgents)).To(BeEmpty())
}

// The first check of medik8s in a cluster that serves their kind is found within a minute, although nothing else happens.
func TestMedik8s_FirstCheck_IsFoundWithinAMinute(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithClock)
	check, c := startWithoutMedik8s(s)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(disjoint, Equal("True SelectorsDisjoint")))
	createMedik8sCheck(s)
	c.WaitIdle()
	s.Advance(time.Minute + time.Second)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(disjoint, Equal("False SelectorsOverlap")))
}

// A manager that is not allowed to read the checks of medik8s starts nothing, and a condition names the permission.
func TestMedik8s_Forbidden_BlocksAndNamesThePermission(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.Expect(stage.Workload.InstallCRDObjects(medik8sChecks().RequestCRD())).To(Succeed())
	restricted(s, "nodes", "namespaces", "leases")
	createNodes(s)
	check := s.CreateNodeCheck("workers", rebooting(s))
	c := s.Start()
	c.NeverIdle = true
	decided(s, check, "n-3", Equal("Blocked PreflightFailed"))
	s.Eventually(stage.Get(s, check)).Should(And(
		reportsMessage("not allowed to list nodehealthchecks.remediation.medik8s.io"),
		WithTransform(disjoint, Equal("Unknown OtherChecksForbidden")),
		WithTransform(stage.OfNodes(stage.CheckMessage(remedyv1.SelectorsDisjointCondition)), And(
			ContainSubstring("not allowed to list nodehealthchecks.remediation.medik8s.io"), ContainSubstring("kubeconfig")))))
	s.Expect(s.Requests(remediator.Example)).To(BeEmpty())
}
