//go:build long

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/depth"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// requestCount counts the requests of a stage at every event of a watch.
type requestCount struct {
	mu       sync.Mutex
	existing map[types.UID]bool
	// created are all requests until now, and most how many existed at the same time.
	created, most int
}

func countRequests(s *stage.Stage, kind remediator.Kind) *requestCount {
	s.T.Helper()
	watcher, err := client.NewWithWatch(stage.Management.Admin, client.Options{Scheme: testenv.Scheme})
	s.Expect(err).ToNot(HaveOccurred())
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	ctx, cancel := context.WithCancel(s.Ctx)
	s.T.Cleanup(cancel)
	events, err := watcher.Watch(ctx, list, client.InNamespace(s.Namespace))
	s.Expect(err).ToNot(HaveOccurred())
	c := &requestCount{existing: map[types.UID]bool{}}
	go func() {
		for event := range events.ResultChan() {
			c.observe(event)
		}
	}()
	return c
}

func (c *requestCount) observe(event watch.Event) {
	request, is := event.Object.(*unstructured.Unstructured)
	if !is {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch event.Type {
	case watch.Added:
		c.existing[request.GetUID()] = true
		c.created++
	case watch.Deleted:
		delete(c.existing, request.GetUID())
	case watch.Modified, watch.Bookmark, watch.Error:
	}
	c.most = max(c.most, len(c.existing))
}

// counts returns how many requests were created until now, how many exist, and how many have existed at the same time at most.
func (c *requestCount) counts() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return []int{c.created, len(c.existing), c.most}
}

// A tenth of all Nodes fails at once while ten are being remediated. There are never more requests than maxInFlight allows, and none
// starts during the storm and its cool-down. Heartbeats of all Nodes cause no reconcile.
func TestOneNodeCheck_ManyNodesFail_KeepsMaxInFlight(t *testing.T) {
	const first, places = 20, 10
	all := depth.Of(1_000, 5_000)
	lost, left := all/10, all/50
	cooldown := stage.Duration(30 * time.Minute)
	s := stage.New(t, stage.WithClock, stage.WithAllNamespaces)
	s.SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	bulk, started := s.NewNodeBulk(), time.Now()
	s.Expect(stage.Parallel(all, bulk.CreateNode)).To(Succeed())
	created := time.Since(started)
	check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.MaxUnhealthy, spec.MaxInFlight = ptr.To(intstr.FromString("5%")), ptr.To(intstr.FromInt32(places))
		spec.StormCooldownDuration = &cooldown
	})
	requests := countRequests(s, remediator.FenceAgents)
	c := s.Start()
	c.NeverIdle = true
	allowed := stage.OfNodes(stage.CheckCondition(remedyv1.RemediationAllowedCondition))
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.HealthyNodes", HaveValue(BeEquivalentTo(all))))
	before := c.WaitNoReconciles()[check.Name]
	s.Expect(stage.Parallel(all, bulk.Heartbeat)).To(Succeed())
	s.Expect(c.WaitNoReconciles()[check.Name]).To(Equal(before), "heartbeats cause no reconcile")

	fail := func(from, n int) {
		s.Expect(stage.Parallel(n, func(i int) error { return bulk.FailNode(from + i) })).To(Succeed())
	}
	restore := func(from, n int) {
		s.Expect(stage.Parallel(n, func(i int) error { return bulk.SetReady(from+i, corev1.ConditionTrue, 0) })).To(Succeed())
	}
	fail(0, first)
	s.Eventually(requests.counts).Should(Equal([]int{places, places, places}))
	fail(first, lost)
	s.Eventually(stage.Get(s, check)).Should(And(WithTransform(allowed, Equal("False TooManyUnhealthy")),
		HaveField("Status.Unhealthy", HaveValue(BeEquivalentTo(first+lost)))))
	content, err := json.Marshal(check.Status)
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(len(content)).To(BeNumerically("<", 100_000))
	s.Expect(check.Status.InFlightRemediations).To(HaveLen(places))

	// The Nodes under remediation recover, so all places are free. The limit is still exceeded.
	restore(0, first)
	s.Eventually(requests.counts).Should(Equal([]int{places, 0, places}))
	// The limit is kept again, and the cool-down begins.
	restore(first, lost-left)
	s.Eventually(stage.Get(s, check)).Should(And(WithTransform(allowed, Equal("False Storm")),
		HaveField("Status.Unhealthy", HaveValue(BeEquivalentTo(left)))))
	s.Advance(29 * time.Minute)
	c.ReconcileAll()
	s.Expect(requests.counts()).To(Equal([]int{places, 0, places}), "no remediation starts during the cool-down")
	s.Advance(2 * time.Minute)
	s.Eventually(requests.counts).Should(Equal([]int{2 * places, places, places}))
	c.ReconcileAll()
	s.Expect(requests.counts()).To(Equal([]int{2 * places, places, places}))
	t.Logf("%d Nodes: created in %s, everything in %s", all, created.Round(time.Second), time.Since(started).Round(time.Second))
}
