// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctl "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/tree"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// kubectl is what a user types.
func kubectl(t *testing.T, w *world.World, words ...string) string {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), w.Plane.Kubectl, append([]string{"--kubeconfig", w.Kubeconfig}, words...)...).CombinedOutput()
	NewWithT(t).Expect(err).ToNot(HaveOccurred(), string(said))
	return string(said)
}

// A blocked check with an unhealthy Machine: kubectl and clusterctl show everything that a user needs.
func TestUsers_NothingHappens_FindReason(t *testing.T) {
	t.Parallel()
	keepsItsMemory(t)
	g := NewWithT(t)
	w := theWorld(t)
	c, pool := clusterWithPool(t, "shown")
	check := aCheck(t, c, pool, func(s *remedyv1.MachineHealthCheckSpec) {
		s.PauseRequests = []string{"the network is being rebuilt (Ada)"}
	})
	looksAfter(t, check, 1)
	sick := poolOf(t, c, pool)[0]
	falls(t, c, sick)
	g.Eventually(func() string { return counts(now(t, check)) }, soon).
		Should(Equal("1 expected, 0 healthy, 1 unhealthy, 0 suspect, 0 undetermined, 0 remediating, 1 held"))

	t.Run("kubectl get rmhc", func(t *testing.T) {
		g := NewWithT(t)
		table := strings.Split(strings.TrimSpace(kubectl(t, w, "get", "rmhc", "-n", c.Namespace, check.Name)), "\n")
		t.Log("\n" + strings.Join(table, "\n"))
		g.Expect(table).To(HaveLen(2))
		g.Expect(strings.Fields(table[0])).To(Equal([]string{"NAME", "CLUSTER", "TARGETS", "HEALTHY", "UNHEALTHY", "REMEDIATING", "BLOCKED", "READY", "REASON", "AGE"}))
		g.Expect(strings.Fields(table[1])[:9]).To(Equal([]string{check.Name, c.Name, "1", "0", "1", "0", "1", "True", remedyv1.ReadyReason}))
	})
	t.Run("kubectl remedy", func(t *testing.T) {
		g := NewWithT(t)
		node := "node/" + sick.Status.NodeRef.Name
		for _, target := range []string{"machine/" + sick.Name, node} {
			text, err := remedy(t, w, "explain", target, "-n", c.Namespace)
			g.Expect(err).ToNot(HaveOccurred())
			g.Expect(text).To(And(
				MatchRegexp(`(?m)^Machine: +`+c.Namespace+"/"+sick.Name+"$"), MatchRegexp(`(?m)^Check: +MachineHealthCheck `+c.Namespace+"/"+check.Name+"$"),
				MatchRegexp(`(?m)^Health: +Unhealthy \(UnhealthyNode\): `), MatchRegexp(`(?m)^Decision: +Blocked \(PauseRequested\): .*the network is being rebuilt \(Ada\)`),
				MatchRegexp(`(?m)^    PauseRequested +blocks `), Not(ContainSubstring("Unread")), Not(ContainSubstring("Reported")),
			))
		}
		text, err := remedy(t, w, "status", "-n", c.Namespace)
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(text).To(MatchRegexp(`(?m)^%s +MachineHealthCheck +%s +%s +1 +0 +1 +0 +1 +Enforce +False +True +Ready `, c.Namespace, check.Name, c.Name))
		text, err = remedy(t, w, "history", node, "-n", c.Namespace)
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(text).To(ContainSubstring("UnhealthyNode: Blocked (PauseRequested): "))
	})
	t.Run("kubectl describe rmhc", func(t *testing.T) {
		g := NewWithT(t)
		told := func() string { return kubectl(t, w, "describe", "rmhc", "-n", c.Namespace, check.Name) }
		g.Eventually(told, soon).Should(MatchRegexp(`(?s)Events:.*`+sick.Name), "events come a moment later")
		text := told()
		t.Log("\n" + text)
		for _, answer := range []string{
			`Name: +` + sick.Name, `Node: +` + sick.Status.NodeRef.Name, `Blocked Reason: +PauseRequested`, `Reason: +UnhealthyNode`, `the network is being rebuilt \(Ada\)`,
			`Source: +maxUnhealthy=100%`, `Observed Generation: +1`,
		} {
			g.Expect(text).To(MatchRegexp(answer))
		}
		g.Expect(text).ToNot(ContainSubstring("map["), "everything reads as words")
	})
	t.Run("clusterctl describe cluster", func(t *testing.T) {
		g := NewWithT(t)
		g.Eventually(func() string { return tree.GetReadyCondition(described(t, w, c, sick, false)).Message }, soon).
			Should(And(ContainSubstring("* HealthCheckSucceeded:"), ContainSubstring("Health check failed:")))
		g.Expect(tree.GetConditions(described(t, w, c, sick, false))).To(ContainElement(And(
			HaveField("Type", clusterv1.MachineHealthCheckSucceededCondition), HaveField("Reason", clusterv1.MachineHealthCheckUnhealthyNodeReason))))
		g.Expect(tree.GetOtherV1Beta1Conditions(described(t, w, c, sick, true))).To(ContainElement(HaveValue(And(
			HaveField("Type", clusterv1.MachineHealthCheckSucceededV1Beta1Condition), HaveField("Reason", clusterv1.UnhealthyNodeConditionV1Beta1Reason)))))
	})
	t.Run("the Machine itself", func(t *testing.T) {
		g := NewWithT(t)
		text := kubectl(t, w, "get", "machine", "-n", c.Namespace, sick.Name, "-o", "yaml")
		g.Expect(text).To(MatchRegexp(`marked-by: MachineHealthCheck/` + check.Name))
		machines, err := c.PoolMachines(t.Context(), pool)
		g.Expect(err).ToNot(HaveOccurred())
		for _, m := range machines {
			healthy := meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition)
			g.Expect(healthy).To(Equal(m.Name != sick.Name), "health is reported at once, also while remediation is blocked")
			g.Expect(isMarked(&m)).To(BeFalse())
		}
	})
	t.Run("the way is clear", func(t *testing.T) {
		g := NewWithT(t)
		kubectl(t, w, "patch", "rmhc", "-n", c.Namespace, check.Name, "--type=merge", "-p", `{"spec":{"pauseRequests":null}}`)
		isWhole(t, c, pool, 1, sick)
		isClean(t, check, 1)
		g.Expect(outcomes(now(t, check))).To(ContainElement(sick.Name + " Replaced"))
	})
}

// described is a Machine in what clusterctl describes, by conditions of this or the older generation.
func described(t *testing.T, w *world.World, c *world.Cluster, machine clusterv1.Machine, older bool) client.Object {
	t.Helper()
	g := NewWithT(t)
	found, err := w.Clusterctl.DescribeCluster(t.Context(), clusterctl.DescribeClusterOptions{
		Kubeconfig: clusterctl.Kubeconfig{Path: w.Kubeconfig}, Namespace: c.Namespace, ClusterName: c.Name, ShowOtherConditions: "all",
		V1Beta1: older, //nolint:staticcheck // people still ask for it.
	})
	g.Expect(err).ToNot(HaveOccurred())
	object := found.GetObject(machine.UID)
	g.Expect(object).ToNot(BeNil())
	return object
}
