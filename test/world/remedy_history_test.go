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
	lock   sync.Mutex
	states []map[string]*clusterv1.Machine
	broken string
}

// follow watches the Machines of a pool until the test ends.
func follow(t *testing.T, c *world.Cluster, pool string) *history {
	t.Helper()
	g := NewWithT(t)
	labels := client.MatchingLabels{clusterv1.ClusterNameLabel: c.Name, world.PoolLabel: pool}
	if pool == controlPlanePool {
		labels = client.MatchingLabels{clusterv1.ClusterNameLabel: c.Name, clusterv1.MachineControlPlaneLabel: ""}
	}
	in := []client.ListOption{client.InNamespace(c.Namespace), labels}
	begin := &clusterv1.MachineList{}
	g.Expect(theWorld(t).Client.List(t.Context(), begin, in...)).To(Succeed())
	state := map[string]*clusterv1.Machine{}
	for i := range begin.Items {
		state[begin.Items[i].Name] = &begin.Items[i]
	}
	h := &history{states: []map[string]*clusterv1.Machine{state}}
	watching, err := theWorld(t).Client.Watch(t.Context(), &clusterv1.MachineList{}, append(in, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: begin.ResourceVersion}})...)
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

// all are the states until now.
func (h *history) all(t *testing.T) []map[string]*clusterv1.Machine {
	t.Helper()
	h.lock.Lock()
	defer h.lock.Unlock()
	NewWithT(t).Expect(h.broken).To(BeEmpty())
	return slices.Clone(h.states)
}

// names are those of all Machines that there have been.
func (h *history) names(t *testing.T) []string {
	t.Helper()
	return h.those(t, func(*clusterv1.Machine) bool { return true })
}

// marked are the names of those that were ever handed to their owner.
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

// isMarked says whether a Machine is in the hands of its owner.
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
