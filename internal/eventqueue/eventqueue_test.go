// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package eventqueue

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// apiServer accepts a write when the test receives it.
type apiServer struct {
	client.Client
	written chan *eventsv1.Event
}

func (a *apiServer) Scheme() *kruntime.Scheme { return scheme.Scheme }

func (a *apiServer) Create(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
	select {
	case a.written <- o.(*eventsv1.Event):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func pod(namespace string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", UID: "1"}}
}

// The API server does not answer, and one tenant has more events than all queues hold. Another tenant's event has a place.
func TestRecorder_SlowServer_BoundsQueueByNamespace(t *testing.T) {
	g := NewWithT(t)
	server, dropped := &apiServer{written: make(chan *eventsv1.Event)}, atomic.Int64{}
	r := newRecorder(server, clock.RealClock{}, func() { dropped.Add(1) })
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- r.run(ctx) }()
	const events = 10_000
	before := runtime.NumGoroutine()
	for range events {
		r.Eventf(pod("attacker"), nil, corev1.EventTypeNormal, "Flapping", "Remediate", "%s", "again")
	}
	r.Eventf(pod("victim"), pod("attacker"), corev1.EventTypeWarning, "UnhealthyNode", "Remediate", "%d%%", 5)
	g.Expect(runtime.NumGoroutine()).To(Equal(before))
	g.Expect(dropped.Load()).To(BeNumerically(">=", events-share-1), "one event may be in the write")
	for written := 1; ; written++ {
		e := <-server.written
		if e.Namespace == "attacker" {
			g.Expect(written).To(BeNumerically("<=", share+1))
			continue
		}
		g.Expect([]any{e.Regarding.Kind, e.Regarding.UID, e.Related.Namespace, e.Type, e.Reason, e.Action, e.Note}).
			To(HaveExactElements("Pod", BeEquivalentTo("1"), "attacker", "Warning", "UnhealthyNode", "Remediate", "5%"))
		break
	}
	cancel()
	g.Expect(<-ended).To(Succeed())
	g.Expect(r.waiting).To(BeEmpty())
}

func TestRecorder_ClusterScopedObject_IsInDefaultNamespace(t *testing.T) {
	g := NewWithT(t)
	r := newRecorder(&apiServer{}, clock.RealClock{}, func() {})
	r.Eventf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, nil, corev1.EventTypeNormal, "R", "A", "note")
	g.Expect((<-r.queue).Namespace).To(Equal("default"))
}

// Events about cluster-scoped objects are written to the namespace default. Its tenants do not take their places, nor the other way round.
func TestRecorder_FullDefaultNamespace_LeavesPlacesForNodes(t *testing.T) {
	g := NewWithT(t)
	dropped := 0
	r := newRecorder(&apiServer{}, clock.RealClock{}, func() { dropped++ })
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for range share {
		r.Eventf(pod("default"), nil, corev1.EventTypeNormal, "R", "A", "note")
		r.Eventf(node, nil, corev1.EventTypeNormal, "R", "A", "note")
	}
	g.Expect(dropped).To(BeZero())
	r.Eventf(node, nil, corev1.EventTypeNormal, "R", "A", "note")
	g.Expect(dropped).To(Equal(1))
}
