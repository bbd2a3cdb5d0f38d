// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

func TestForget_ClusterDeleted_EndsWithConnection(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t, node("a", ""))
	b.read(t, Target{Name: "a"})
	nodes := b.stateOf(prod).currentNodes()
	b.stateOf(prod).markClusterDeleted()
	b.refreshUnreadable(t.Context())
	g.Expect(b.states).To(HaveKey(prod), "the connection is still there")
	b.wire.disconnect()
	b.refreshUnreadable(t.Context())
	g.Expect(b.states).To(BeEmpty())
	g.Expect(nodes.closed).To(BeClosed())
	t.Run("the next state is filled", func(t *testing.T) {
		b.wire.connect(noon)
		g.Expect(b.read(t, Target{Name: "a"})[0].State).To(Equal(health.Present))
	})
	t.Run("a new Cluster of this name", func(t *testing.T) {
		b.wire.connect(noon)
		b.read(t, Target{Name: "a"})
		b.stateOf(prod).markClusterDeleted()
		b.markClusterExists(prod)
		b.refreshUnreadable(t.Context())
		g.Expect(b.read(t, Target{Name: "a"})[0].State).To(Equal(health.Present))
		b.wire.disconnect()
		b.refreshUnreadable(t.Context())
		g.Expect(b.states).To(HaveKey(prod))
	})
}

func TestForget_ClusterNeverExisted_HasNoState(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t)
	b.wire.set(func(w *wire) { w.connected = false })
	b.management.failure = apierrors.NewNotFound(schema.GroupResource{Resource: "clusters"}, prod.Name)
	g.Expect(b.read(t, Target{Name: "a"})[0].State).To(Equal(health.Unreadable))
	b.refreshUnreadable(t.Context())
	g.Expect(b.states).To(BeEmpty())
	b.management.failure = nil
	b.connection(t)
	b.refreshUnreadable(t.Context())
	g.Expect(b.states).To(HaveKey(prod), "the Cluster exists, and is not connected yet")
}

// TestForget_LateRecords_AreDeleted has records that come late: of a slow read of a kubeconfig, or of a connection.
func TestForget_LateRecords_AreDeleted(t *testing.T) {
	for _, connected := range []bool{false, true} {
		g := NewWithT(t)
		b := newBench(t)
		b.management.failure = apierrors.NewNotFound(schema.GroupResource{Resource: "clusters"}, prod.Name)
		b.wire.set(func(w *wire) { w.connected = connected })
		b.kubeconfigChecked(prod, "", nil)
		if connected {
			g.Expect(b.connection(t).Up).To(BeTrue())
			b.refreshUnreadable(t.Context())
			b.wire.disconnect()
		}
		b.refreshUnreadable(t.Context())
		g.Expect(b.Remembered()).To(BeEmpty())
	}
}
