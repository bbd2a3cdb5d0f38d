// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"io"
	"net/http"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// Two managers with leader election. The leader is killed when it has created a request, when it has stopped a remediator, and when it has
// deleted a request. Each time the other one leads, and completes what was begun, and nothing happens twice.
func TestStandby_LeaderKilled_CompletesRemediation(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := startWorld(t, world.Options{
		WithoutInfrastructure: true, Variables: map[string]string{world.RateLimiting: "false"},
		Flags: map[string][]string{world.Remedy: aTenaciousLead},
	})
	g.Expect(w.InstallRemediations(t.Context())).To(Succeed())
	c, check := monitored(t, w, "standby", func(namespace string, s *remedyv1.MachineHealthCheckSpec) {
		escalates(t, w, namespace, farOff, "reboot", "power-off")(s)
	})
	g.Expect(w.StartStandby(t.Context())).To(Succeed())
	machine, seen := poolOf(t, &c.Cluster, world.WorkersPool)[0], followIn(t, w, &c.Cluster, world.WorkersPool)
	made := followRequests(t, w.Client, c.Namespace)
	leader, standby := world.Remedy, world.Standby
	// killed arms the fault, lets the write happen, and swaps the two.
	killed := func(what string, cause func()) {
		t.Helper()
		happened, err := w.FailAtWrite(leader, world.CrashAfter, func(write world.Write) bool {
			return slices.Contains(requestWrites([]world.Write{write}, machine.Name), what)
		})
		g.Expect(err).ToNot(HaveOccurred())
		cause()
		g.Eventually(happened, soon).Should(Receive(), what)
		g.Expect(w.Process(leader).Running()).To(BeFalse())
		// The Lease of the killed leader would keep the other one from acting until it expires.
		g.Expect(w.Client.DeleteAllOf(t.Context(), &coordinationv1.Lease{}, client.InNamespace("remedy-system"))).To(Succeed())
		g.Eventually(func() string { return fetched(t, w.Process(standby).ReadyURL+"?verbose") }, soon).Should(ContainSubstring("this instance leads"))
		g.Expect(w.Restart(t.Context(), leader)).To(Succeed())
		leader, standby = standby, leader
	}

	killed("create step 1", func() { falls(t, &c.Cluster, machine) })
	first := request(t, w, machine, 1)
	killed("stop", func() { fails(t, w, first) })
	second := request(t, w, machine, 2)
	// A remediator that needs time keeps its request until after the leader was killed.
	finalizers := func(value string) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+value+`}}`))
		g.Expect(w.Client.Patch(t.Context(), second.DeepCopy(), patch)).To(Succeed())
	}
	finalizers(`["test.example/stopping"]`)
	killed("delete", func() { fails(t, w, second) })
	g.Expect(seen.marked(t)).To(BeEmpty(), "the request of the step before still exists")
	finalizers("null")
	isWhole(t, &c.Cluster, world.WorkersPool, 1, machine)
	isCleanIn(t, w, check)
	g.Expect(seen.marked(t)).To(Equal([]string{machine.Name}), "and no replacement")
	g.Expect(made()).To(Equal(map[string]int{machine.Name: 2}), "one for each step")
	written := append(requestWrites(w.Writes(), machine.Name), requestWrites(w.WritesOf(world.Standby), machine.Name)...)
	g.Expect(written).To(ConsistOf("create step 1", "stop", "delete", "create step 2", "stop", "delete", "request owner remediation"))
}

// fetched is the answer of a manager to a GET, or the error.
func fetched(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(content)
}
