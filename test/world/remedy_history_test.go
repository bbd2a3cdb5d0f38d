// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"maps"
	"slices"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// history is every state that the Machines of a pool have been in, in the order in which they were written.
type history struct {
	// now reads the Machines as they are.
	now    func() (*clusterv1.MachineList, error)
	lock   sync.Mutex
	states []map[string]*clusterv1.Machine
	broken string
}

// follow watches the Machines of a pool until the test ends.
func follow(t *testing.T, c *world.Cluster, pool string) *history {
	t.Helper()
	return followIn(t, theWorld(t), c, pool)
}

// followIn is follow in any world.
func followIn(t *testing.T, w *world.World, c *world.Cluster, pool string) *history {
	t.Helper()
	g := NewWithT(t)
	labels := client.MatchingLabels{clusterv1.ClusterNameLabel: c.Name, world.PoolLabel: pool}
	if pool == controlPlanePool {
		labels = client.MatchingLabels{clusterv1.ClusterNameLabel: c.Name, clusterv1.MachineControlPlaneLabel: ""}
	}
	in := []client.ListOption{client.InNamespace(c.Namespace), labels}
	now := func() (*clusterv1.MachineList, error) {
		list := &clusterv1.MachineList{}
		return list, w.Client.List(t.Context(), list, in...)
	}
	begin, err := now()
	g.Expect(err).ToNot(HaveOccurred())
	state := map[string]*clusterv1.Machine{}
	for i := range begin.Items {
		state[begin.Items[i].Name] = &begin.Items[i]
	}
	h := &history{now: now, states: []map[string]*clusterv1.Machine{state}}
	watching, err := w.Client.Watch(t.Context(), &clusterv1.MachineList{}, append(in, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: begin.ResourceVersion}})...)
	g.Expect(err).ToNot(HaveOccurred())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watching.ResultChan() {
			h.learn(event)
		}
	}()
	t.Cleanup(func() {
		watching.Stop()
		<-done
	})
	return h
}

func (h *history) learn(event watch.Event) {
	h.lock.Lock()
	defer h.lock.Unlock()
	m, is := event.Object.(*clusterv1.Machine)
	if !is {
		h.broken = "the watch of Machines broke"
		return
	}
	state := maps.Clone(h.states[len(h.states)-1])
	if event.Type == watch.Deleted {
		delete(state, m.Name)
	} else {
		state[m.Name] = m
	}
	h.states = append(h.states, state)
}

// all are the states until now. A watch delivers every state, but later than a read.
func (h *history) all(t *testing.T) []map[string]*clusterv1.Machine {
	t.Helper()
	g := NewWithT(t)
	g.Eventually(func(g Gomega) {
		list, err := h.now()
		g.Expect(err).ToNot(HaveOccurred())
		are := map[string]string{}
		for i := range list.Items {
			are[list.Items[i].Name] = list.Items[i].ResourceVersion
		}
		g.Expect(h.last()).To(Equal(are))
	}, soon).Should(Succeed(), "the watch of Machines has not brought what they are by now")
	h.lock.Lock()
	defer h.lock.Unlock()
	g.Expect(h.broken).To(BeEmpty())
	return slices.Clone(h.states)
}

// last are the Machines that there were last, with their versions.
func (h *history) last() map[string]string {
	h.lock.Lock()
	defer h.lock.Unlock()
	were := map[string]string{}
	for name, m := range h.states[len(h.states)-1] {
		were[name] = m.ResourceVersion
	}
	return were
}

// marked are the names of the Machines that ever had an owner remediation.
func (h *history) marked(t *testing.T) []string {
	t.Helper()
	return h.those(t, isMarked)
}

func (h *history) those(t *testing.T, ever func(*clusterv1.Machine) bool) []string {
	t.Helper()
	found := map[string]bool{}
	for _, state := range h.all(t) {
		for name, m := range state {
			if ever(m) {
				found[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// isMarked reports whether a Machine has an owner remediation.
func isMarked(m *clusterv1.Machine) bool {
	return conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition) && conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition)
}

// inFlight counts what a pool of so many lacks: those that are marked or about to go, and those that have no Node yet.
func inFlight(state map[string]*clusterv1.Machine, replicas int) int {
	well := 0
	for _, m := range state {
		if !isMarked(m) && m.DeletionTimestamp.IsZero() && m.Status.NodeRef.Name != "" {
			well++
		}
	}
	return max(0, replicas-well)
}

// going counts those of some Machines that are about to go. Others may, too: one whose machine was never made is replaced, see
// replaceIncomplete.
func going(state map[string]*clusterv1.Machine, these []clusterv1.Machine) int {
	n := 0
	for i := range these {
		if m := state[these[i].Name]; m != nil && !m.DeletionTimestamp.IsZero() {
			n++
		}
	}
	return n
}
