// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// The manager is killed at each write of an owner remediation: the Machine is replaced, once, and no other one is.
func TestAdoption_ManagerKilled_Continues(t *testing.T) {
	// Before the parallel tests, so that it comes first.
	memory.Lock()
	t.Cleanup(memory.Unlock)
	t.Parallel()
	g := NewWithT(t)
	w := theWorld(t)
	c, pool := clusterWithPool(t, "crash")
	check := aCheck(t, c, pool, nil)
	looksAfter(t, check, 3)
	machines, seen := poolOf(t, c, pool), follow(t, c, pool)

	for i, step := range []struct {
		name  string
		mode  world.Fault
		write func(path, body string) bool
	}{
		{"after it has signed", world.CrashAfter, func(_, body string) bool { return strings.Contains(body, remedyv1.MarkedByAnnotation) }},
		{"before it marks", world.CrashBefore, marks},
		{"after it has marked", world.CrashAfter, marks},
	} {
		sick := machines[i]
		own := func(write world.Write) bool {
			return write.Verb == http.MethodPatch && strings.Contains(write.Path, "/machines/"+sick.Name) && step.write(write.Path, write.Body)
		}
		happened, err := w.FailAtWrite(world.Remedy, step.mode, own)
		g.Expect(err).ToNot(HaveOccurred())
		falls(t, c, sick)
		g.Eventually(happened, soon).Should(Receive(), step.name)
		g.Expect(w.Process(world.Remedy).Running()).To(BeFalse())
		if i == 0 {
			// The Lease of the killed manager is still there: the new one waits until it expires.
			g.Expect(w.Restart(t.Context(), world.Remedy)).To(Succeed())
		} else {
			restartRemedy(t, w)
		}
	}
	isWhole(t, c, pool, 3, machines...)
	isClean(t, check, 3)
	g.Expect(seen.marked(t)).To(ConsistOf(machines[0].Name, machines[1].Name, machines[2].Name), "and no replacement")
	for _, m := range poolOf(t, c, pool) {
		g.Expect(m.Annotations).ToNot(HaveKey(remedyv1.MarkedByAnnotation))
	}
}

// restartRemedy starts the manager again after it was killed. It deletes the Lease of the killed one, which would keep the new one from
// acting for half a minute.
func restartRemedy(t *testing.T, w *world.World) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(w.Client.DeleteAllOf(t.Context(), &coordinationv1.Lease{}, client.InNamespace("remedy-system"))).To(Succeed())
	g.Expect(w.Restart(t.Context(), world.Remedy)).To(Succeed())
}

// marks: it is the write by which an owner is asked.
func marks(path, body string) bool {
	return strings.HasSuffix(path, "/status") && strings.Contains(body, clusterv1.MachineOwnerRemediatedWaitingForRemediationReason)
}
