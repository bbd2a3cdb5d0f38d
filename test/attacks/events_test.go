// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// slowEvents is an API server that does not answer the writes of events until it is released. It counts the writes.
type slowEvents struct {
	next            http.RoundTripper
	released        chan struct{}
	events, patches *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (s *slowEvents) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.Method == http.MethodGet:
	case strings.Contains(r.URL.Path, "/events"):
		s.events.Add(1)
		select {
		case <-s.released:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	case r.Method == http.MethodPatch:
		s.patches.Add(1)
	}
	return s.next.RoundTrip(r)
}

// load is what half of the flaps costs: goroutines and live memory at its end, and PATCHes.
type load struct {
	goroutines         int
	megabytes, patches int64
}

// A tenant has several checks of the same Machines, and all its Nodes flap. Only the responsible check records events about the Machines,
// within its budget. Events that cannot be written wait in a queue, and not in goroutines. More flaps need neither more goroutines and
// memory nor more writes each: the second half is compared with the first one.
func TestAttack_FlappingNodes_EventsAreLimited(t *testing.T) {
	const machines, checks, flaps = 200, 10, 3
	s := stage.New(t)
	bulk := s.NewBulk()
	bulk.Create(machines)
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	user := s.User()
	var events, patches atomic.Int64
	user.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &slowEvents{next, released, &events, &patches}
	})
	c, err := s.StartAs(faults.Start(s.Ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(c.StopIdle)
	for i := range checks {
		s.CreateCheck(fmt.Sprintf("check-%d", i), func(spec *remedyv1.MachineHealthCheckSpec) {
			for n := range spec.UnhealthyConditions {
				spec.UnhealthyConditions[n].Timeout = stage.Duration(0)
			}
		})
	}
	flap := func(status corev1.ConditionStatus, unhealthy int) {
		s.Expect(stage.Parallel(machines, func(i int) error { return bulk.SetReady(i, status, 0) })).To(Succeed())
		s.Eventually(func() (all []int) {
			for _, check := range s.Checks() {
				all = append(all, int(ptr.Deref(check.Status.UnhealthyTargetsTotal, -1)))
			}
			return all
		}).Should(HaveEach(unhealthy))
	}
	half := func() load {
		before := patches.Load()
		for range flaps {
			flap(corev1.ConditionFalse, machines)
			flap(corev1.ConditionTrue, 0)
		}
		c.WaitNoReconciles()
		runtime.GC()
		memory := &runtime.MemStats{}
		runtime.ReadMemStats(memory)
		return load{runtime.NumGoroutine(), int64(memory.HeapAlloc >> 20), patches.Load() - before}
	}
	first := half()
	second := half()
	s.Expect(second.goroutines-first.goroutines).To(BeNumerically("<", 20), "goroutines")
	s.Expect(second.megabytes-first.megabytes).To(BeNumerically("<", 32), "memory")
	s.Expect(second.patches).To(BeNumerically("<=", 2*first.patches), "PATCHes")
	release()
	c.WaitIdle()
	all := &eventsv1.EventList{}
	responsible := map[string]bool{}
	s.Eventually(func() []eventsv1.Event {
		s.Expect(s.Admin.List(s.Ctx, all, client.InNamespace(s.Namespace))).To(Succeed())
		return all.Items
	}).Should(ContainElement(HaveField("Reason", explain.EventsOmitted)))
	for i := range all.Items {
		if e := &all.Items[i]; e.Related != nil && e.Regarding.Kind == "MachineHealthCheck" {
			responsible[e.Regarding.Name] = true
		}
	}
	outcome(t, "%d flaps of %d Nodes under %d checks: %d events, and %d, %d more goroutines, %d MB more memory, %d PATCHes after %d",
		2*flaps, machines, checks, len(all.Items), events.Load(), second.goroutines-first.goroutines, second.megabytes-first.megabytes,
		second.patches, first.patches)
	s.Expect(len(all.Items)).To(BeNumerically("<=", 300))
	s.Expect(events.Load()).To(BeNumerically("<=", 300), "writes of events")
	s.Expect(responsible).To(HaveLen(1), "checks with events about Machines")
}
