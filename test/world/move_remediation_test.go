// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// TestMove_Clusters_KeepTheirState runs these in its two worlds. The Nodes are those of a real API server: they outlive the move,
// and so does their fault.

// monitored makes a workload cluster with a worker, and a check of it.
func monitored(t *testing.T, w *world.World, name string, change func(namespace string, s *remedyv1.MachineHealthCheckSpec)) (*world.Workload, *remedyv1.MachineHealthCheck) {
	t.Helper()
	g := NewWithT(t)
	c, err := w.Workload(t.Context(), world.Shape{Namespace: uniqueName(name), Name: name, Workers: 1})
	g.Expect(err).ToNot(HaveOccurred())
	replaceIncomplete(t.Context(), w, &c.Cluster)
	g.Eventually(func() []string { return nodesOf(t, &c.Cluster) }, soon).Should(HaveLen(2))
	check := remedyCheck(&c.Cluster, world.WorkersPool)
	if change != nil {
		change(c.Namespace, &check.Spec)
	}
	g.Expect(w.Client.Create(t.Context(), check)).To(Succeed())
	g.Eventually(func() *int32 { return currentHealthy(t, w, check) }, soon).Should(HaveValue(BeEquivalentTo(1)))
	return c, check
}

// checkIn reads a check in a world.
func checkIn(t *testing.T, w *world.World, check *remedyv1.MachineHealthCheck) *remedyv1.MachineHealthCheck {
	t.Helper()
	got := &remedyv1.MachineHealthCheck{}
	NewWithT(t).Expect(w.Client.Get(t.Context(), client.ObjectKeyFromObject(check), got)).To(Succeed())
	return got
}

// isCleanIn waits until a check of one healthy Machine has nothing to do, and nothing left of what was done.
func isCleanIn(t *testing.T, w *world.World, check *remedyv1.MachineHealthCheck) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		got := checkIn(t, w, check)
		g.Expect(counts(got)).To(Equal("1 expected, 1 healthy, 0 unhealthy, 0 suspect, 0 undetermined, 0 remediating, 0 held"))
		g.Expect(got.Finalizers).To(BeEmpty())
		g.Expect(got.Annotations).To(BeEmpty())
		g.Expect(got.Status.UnhealthyTargets).To(BeEmpty())
		g.Expect(word(got, remedyv1.ReadyCondition)).To(Equal("True Ready"))
	}, soon).Should(Succeed())
}

// requestMoves moves a cluster while the second of three steps remediates a Machine. The third one follows in the other world, and no step is
// done again.
func requestMoves(t *testing.T, here, there *world.World) {
	g := NewWithT(t)
	c, check := monitored(t, here, "escalating", func(namespace string, s *remedyv1.MachineHealthCheckSpec) {
		escalates(t, here, namespace, farOff, "reboot", "power-off")(s)
	})
	machine := poolOf(t, &c.Cluster, world.WorkersPool)[0]
	falls(t, &c.Cluster, machine)
	fails(t, here, request(t, here, machine, 1))
	before := request(t, here, machine, 2)
	writtenHere, writtenThere := len(here.Writes()), len(there.Writes())

	g.Expect(here.MoveTo(t.Context(), there, c.Namespace)).To(Succeed())
	moved, err := c.In(there)
	g.Expect(err).ToNot(HaveOccurred())
	after, arrived := request(t, there, machine, 2), &clusterv1.Machine{}
	g.Expect(there.Client.Get(t.Context(), client.ObjectKeyFromObject(&machine), arrived)).To(Succeed())
	g.Expect(remedyAnnotations(before)).To(And(HaveKey(remedyv1.StepAnnotation), HaveKey(remedyv1.AttemptAnnotation), HaveKey(remedyv1.StartedAnnotation)))
	g.Expect(remedyAnnotations(after)).To(Equal(remedyAnnotations(before)))
	g.Expect(arrived.UID).ToNot(Equal(machine.UID))
	g.Expect(after.GetOwnerReferences()).To(ConsistOf(HaveField("UID", arrived.UID)))

	g.Eventually(func() string { return counts(checkIn(t, there, check)) }, soon).
		Should(Equal("1 expected, 0 healthy, 1 unhealthy, 0 suspect, 0 undetermined, 1 remediating, 0 held"))
	done := func() []string { return requestWrites(there.Writes()[writtenThere:], machine.Name) }
	g.Consistently(done, unhealthyTimeout+3*time.Second).Should(BeEmpty())
	fails(t, there, after)
	isWhole(t, &moved.Cluster, world.WorkersPool, 1, *arrived)
	isCleanIn(t, there, check)
	g.Expect(done()).To(Equal([]string{"stop", "delete", "request owner remediation"}))
	g.Expect(requestWrites(here.Writes()[writtenHere:], machine.Name)).To(BeEmpty())
	g.Expect(endings(checkIn(t, there, check))).To(Equal([]string{"2 Failed", "3 Replaced"}))
}

// remedyAnnotations are the annotations of Remedy on a request.
func remedyAnnotations(request *unstructured.Unstructured) map[string]string {
	found := map[string]string{}
	for key, value := range request.GetAnnotations() {
		if strings.HasPrefix(key, remedyv1.Prefix) {
			found[key] = value
		}
	}
	return found
}

// replacementMoves moves a cluster while the replacement of a Machine joins. clusterctl refuses that, and leaves nothing paused. As soon as
// the replacement has joined, the cluster moves, and no Machine is remediated in the other world.
func replacementMoves(t *testing.T, here, there *world.World) {
	g := NewWithT(t)
	c, check := monitored(t, here, "joining", nil)
	machine, seen := poolOf(t, &c.Cluster, world.WorkersPool)[0], followIn(t, here, &c.Cluster, world.WorkersPool)
	c.HoldBoots(true)
	falls(t, &c.Cluster, machine)
	var replacement clusterv1.Machine
	g.Eventually(func() ([]clusterv1.Machine, error) {
		machines, err := c.PoolMachines(t.Context(), world.WorkersPool)
		if len(machines) == 1 {
			replacement = machines[0]
		}
		return machines, err
	}, soon).Should(ConsistOf(And(HaveField("Name", Not(Equal(machine.Name))), HaveField("Status.NodeRef.Name", BeEmpty()))))

	g.Expect(here.MoveTo(t.Context(), there, c.Namespace)).To(MatchError(ContainSubstring("still provisioning the node")))
	cluster := &clusterv1.Cluster{}
	g.Expect(here.Client.Get(t.Context(), c.Key(), cluster)).To(Succeed())
	g.Expect(ptr.Deref(cluster.Spec.Paused, false)).To(BeFalse())
	g.Expect(word(checkIn(t, here, check), remedyv1.PausedCondition)).To(Equal("False " + remedyv1.NotPausedReason))

	c.HoldBoots(false)
	g.Eventually(func() []string { return nodesOf(t, &c.Cluster) }, soon).Should(HaveLen(2))
	g.Expect(seen.marked(t)).To(Equal([]string{machine.Name}))
	g.Expect(here.MoveTo(t.Context(), there, c.Namespace)).To(Succeed())
	moved, err := c.In(there)
	g.Expect(err).ToNot(HaveOccurred())
	after := followIn(t, there, &moved.Cluster, world.WorkersPool)
	isCleanIn(t, there, check)
	g.Consistently(func() []string { return after.marked(t) }, unhealthyTimeout+3*time.Second).Should(BeEmpty())
	g.Expect(poolOf(t, &moved.Cluster, world.WorkersPool)).To(ConsistOf(HaveField("Name", replacement.Name)))
}
