// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// kubeconfigTo is one that leads to this server.
func kubeconfigTo(t *testing.T, server string) []byte {
	t.Helper()
	config := goodKubeconfig()
	config.Clusters[canary].Server = server
	content, err := clientcmd.Write(*config)
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return content
}

// newMisled has a kubeconfig that leads to an empty cluster; the right one has these Nodes.
func newMisled(t *testing.T, nodes ...*corev1.Node) (*bench, *secrets) {
	t.Helper()
	b := newBench(t)
	source := &secrets{content: kubeconfigTo(t, "https://wrong")}
	right := kubeconfigTo(t, "https://right")
	b.secrets = source
	screened := &screenedSecrets{Reader: source, screened: b.screened}
	b.wire.connects = func() {
		kubeconfig := &corev1.Secret{}
		NewWithT(t).Expect(screened.Get(t.Context(), client.ObjectKey{Namespace: prod.Namespace, Name: prod.Name + "-kubeconfig"}, kubeconfig)).To(Succeed())
		if slices.Equal(kubeconfig.Data["value"], right) {
			b.wire.nodes = nodes
			for _, n := range nodes {
				b.api.nodes[n.Name] = n
			}
		}
	}
	b.wire.disconnect()
	b.lookedAfter(t)
	return b, source
}

// tries lets so much time pass, and does what is due then.
func (b *bench) tries(t *testing.T, after time.Duration) {
	t.Helper()
	b.clock.Step(after)
	var all sync.WaitGroup
	b.lookAfter(t.Context())
	b.examine(t.Context(), &all)
	all.Wait()
	b.lookAfter(t.Context())
}

func TestACorrectedKubeconfigIsNoticed(t *testing.T) {
	g := NewWithT(t)
	x, y := Target{"x", "id://x"}, Target{"y", "id://y"}
	b, source := newMisled(t, node("x", "id://x"), node("y", "id://y"))
	g.Expect(ObstacleOf(b.read(t, x, y)[0].Err)).To(Equal(NoKnownNode))
	asked := source.asked
	b.tries(t, firstRetry)
	b.lookedAfter(t)
	g.Expect(source.asked).To(Equal(asked+1), "it is looked whether the kubeconfig has changed")
	g.Expect(b.wire.drops).To(BeZero(), "it has not")
	g.Expect(ObstacleOf(b.read(t, x, y)[0].Err)).To(Equal(NoKnownNode))

	source.content = kubeconfigTo(t, "https://right")
	told := b.timesTold()
	b.tries(t, 2*firstRetry)
	g.Expect(b.timesTold()).To(BeNumerically(">", told))
	g.Expect(ObstacleOf(b.read(t, x, y)[0].Err)).To(Equal(NotConnected), "nothing is read over a connection that was made with another one")
	b.lookedAfter(t)
	for _, reading := range append(b.read(t, x, y), b.look(t, x, y)...) {
		g.Expect(reading.State).To(Equal(health.Present))
	}
	g.Expect(b.wire.drops).To(Equal(1))
	b.lookedAfter(t)
	g.Expect(b.wire.drops).To(Equal(1), "once is enough")
}

func TestAKubeconfigOfAUserWithMoreRightsIsNoticed(t *testing.T) {
	g := NewWithT(t)
	b, source := newMisled(t)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
	b.api.set(func(a *apiServer) { a.failure = forbidden })
	g.Expect(ObstacleOf(b.read(t, Target{Name: "x"})[0].Err)).To(Equal(Forbidden))
	source.content = kubeconfigTo(t, "https://right")
	b.tries(t, firstRetry)
	b.lookedAfter(t)
	g.Expect(b.wire.drops).To(Equal(1))
}

func TestAKubeconfigIsNotReadAgainWithoutReason(t *testing.T) {
	busy := apierrors.NewTooManyRequests("", 1)
	for why, prepare := range map[string]func(b *bench){
		"everything is well":              func(b *bench) { b.read(t, Target{Name: "x"}) },
		"the API server has no time":      func(b *bench) { b.api.set(func(a *apiServer) { a.failure = busy }); b.read(t, Target{Name: "gone"}) },
		"there is nothing that it can be": func(b *bench) { b.secrets = nil; b.recordOf(prod).live.failed(b.clock.Now(), NoKnownNode) },
		"the Secret has been taken away": func(b *bench) {
			b.secrets = &secrets{failure: busy}
			b.recordOf(prod).live.failed(b.clock.Now(), NoKnownNode)
		},
		"nobody has ever asked about Nodes": func(*bench) {},
	} {
		t.Run(why, func(t *testing.T) {
			g := NewWithT(t)
			b, source := newMisled(t, node("x", ""))
			source.content = kubeconfigTo(t, "https://right")
			b.wire.disconnect()
			b.lookedAfter(t)
			source.content = kubeconfigTo(t, "https://third")
			asked := source.asked
			prepare(b)
			b.tries(t, time.Minute)
			b.lookedAfter(t)
			g.Expect(source.asked).To(Equal(asked))
			g.Expect(b.wire.drops).To(BeZero())
		})
	}
}

// TestADropThatWasNotAgreedToIsTriedAgain has Cluster API's cache fail to look the Cluster up.
func TestADropThatWasNotAgreedToIsTriedAgain(t *testing.T) {
	g := NewWithT(t)
	b, _ := newMisled(t)
	b.recordOf(prod).wantRenewal()
	b.remote = &absent{b.wire}
	b.lookedAfter(t)
	g.Expect(b.wire.drops).To(BeZero())
	g.Expect(b.connection(t).Up).To(BeFalse())
	b.remote = b.wire
	b.lookedAfter(t)
	g.Expect(b.wire.drops).To(Equal(1))
	g.Expect(b.connection(t).Up).To(BeTrue())
}

// TestAClusterThatWasMadeAnewIsAnother is about one of which nobody saw that it was deleted.
func TestAClusterThatWasMadeAnewIsAnother(t *testing.T) {
	g := NewWithT(t)
	only := Target{"a", "id://a"}
	b := newBench(t)
	b.exists(prod, "earlier")
	b.moves("right", node("a", "id://a"))
	b.everybody(t, nil, only)
	b.examineAll(t, time.Second)
	g.Expect(b.recordOf(prod).identity()).ToNot(BeEmpty())

	// The control plane of the earlier one is still there, and its Node has gone.
	b.exists(prod, "later")
	b.api.set(func(a *apiServer) { clear(a.nodes) })
	for _, reading := range append(b.read(t, only), b.look(t, Target{"b", "id://b"})...) {
		g.Expect(ObstacleOf(reading.Err)).To(Equal(NotConnected))
	}
	g.Expect(b.recordOf(prod).identity()).To(BeEmpty())
	b.lookedAfter(t)
	g.Expect(b.wire.drops).To(Equal(1))
	g.Expect(b.connection(t).Up).To(BeTrue())
	b.exists(prod, "later")
	b.lookedAfter(t)
	g.Expect(b.wire.drops).To(Equal(1), "it is still the same")
}
