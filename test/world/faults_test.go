// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// Remedy fails in the same way; this one writes more than the Lease of an election: what it reads of a Node is written to the
// Machine.
func TestWorld_WriteOfClusterAPI_CanFail(t *testing.T) {
	g := NewWithT(t)
	w := theWorld(t)
	c, err := w.Workload(t.Context(), world.Shape{Namespace: uniqueName("faults"), Name: "faulty", Workers: 1})
	g.Expect(err).ToNot(HaveOccurred())
	replaceIncomplete(t.Context(), w, &c.Cluster)
	g.Eventually(func() []string { return nodesOf(t, &c.Cluster) }, soon).Should(HaveLen(2))
	machine, node := workerOf(t, &c.Cluster)
	seen := machineCondition(t.Context(), w, machine, clusterv1.MachineNodeReadyCondition)
	g.Eventually(seen, soon).Should(HaveField("Status", metav1.ConditionTrue))

	for _, step := range []struct {
		mode         world.Fault
		says         corev1.ConditionStatus
		reason       string
		lands, lives bool
	}{
		{world.Refuse, corev1.ConditionUnknown, clusterv1.MachineNodeReadyUnknownReason, false, true},
		{world.LoseAnswer, corev1.ConditionTrue, clusterv1.MachineNodeReadyReason, true, true},
		{world.CrashBefore, corev1.ConditionUnknown, clusterv1.MachineNodeReadyUnknownReason, false, false},
		{world.CrashAfter, corev1.ConditionTrue, clusterv1.MachineNodeReadyReason, true, false},
	} {
		t.Run(string(step.mode), func(t *testing.T) {
			g := NewWithT(t)
			// A merge patch of conditions is the whole list of them.
			tells := func(write world.Write) bool {
				return write.Verb == http.MethodPatch && strings.HasSuffix(write.Path, "/machines/"+machine.Name+"/status") &&
					strings.Contains(write.Body, `"reason":"`+step.reason+`"`)
			}
			before, told := seen().Status, countWrites(w, tells)
			happened, err := w.FailAtWrite(world.Core, step.mode, tells)
			g.Expect(err).ToNot(HaveOccurred())
			g.Expect(c.SetNodeCondition(t.Context(), node, corev1.NodeReady, step.says, "Test")).To(Succeed())
			var write world.Write
			g.Eventually(happened, soon).Should(Receive(&write))
			g.Expect(tells(write)).To(BeTrue())
			g.Expect(w.Process(world.Core).Running()).To(Equal(step.lives))
			switch {
			case step.lands:
				g.Expect(seen()).To(HaveField("Status", metav1.ConditionStatus(step.says)), "it landed, and only the answer is lost")
			case !step.lives:
				g.Expect(seen()).To(HaveField("Status", before), "it did not land, and no process retries it")
			}
			if !step.lives {
				g.Expect(w.Restart(t.Context(), world.Core)).To(Succeed())
			}
			g.Eventually(seen, soon).Should(HaveField("Status", metav1.ConditionStatus(step.says)))
			if !step.lands {
				g.Expect(countWrites(w, tells)-told).To(BeNumerically(">=", 2), "what did not land is written again")
			}
		})
	}
}

func countWrites(w *world.World, counts func(world.Write) bool) int {
	n := 0
	for _, write := range w.WritesOf(world.Core) {
		if counts(write) {
			n++
		}
	}
	return n
}

func TestWorld_ManagerWithoutProxy_CannotFail(t *testing.T) {
	g := NewWithT(t)
	_, err := theWorld(t).FailAtWrite(world.Bootstrap, world.Refuse, nil)
	g.Expect(err).To(MatchError(ContainSubstring("name it in Options.Tapped")))
	_, err = theWorld(t).FailAtWrite(world.Core, "explode", nil)
	g.Expect(err).To(MatchError(ContainSubstring(`no write can fail by "explode"`)))
	_, err = world.Start(t.Context(), world.Options{Tapped: []string{"kubelet"}})
	g.Expect(err).To(MatchError(ContainSubstring(`there is no manager "kubelet"`)))
}
