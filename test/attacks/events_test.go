// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// slowEvents is an API server that does not answer the writes of events until it is released.
type slowEvents struct {
	next     http.RoundTripper
	released chan struct{}
}

// RoundTrip implements http.RoundTripper.
func (s *slowEvents) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/events") {
		select {
		case <-s.released:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return s.next.RoundTrip(r)
}

// A tenant has several checks of the same Machines, and all its Nodes flap. Only the responsible check records events about the Machines,
// within its budget. Events that cannot be written wait in a queue, and not in goroutines.
func TestAttack_FlappingNodes_EventsAreLimited(t *testing.T) {
	const machines, checks, flaps = 20, 5, 10
	s := stage.New(t)
	s.NewBulk().Create(machines)
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	user := s.User()
	user.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &slowEvents{next, released}
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
		s.Expect(stage.Parallel(machines, func(i int) error {
			s.SetReady(fmt.Sprintf("m-%05d", i), status, 0)
			return nil
		})).To(Succeed())
		s.Eventually(func() (all []int) {
			for _, check := range s.Checks() {
				all = append(all, len(check.Status.UnhealthyTargets))
			}
			return all
		}).Should(HaveEach(unhealthy))
	}
	flap(corev1.ConditionFalse, machines)
	flap(corev1.ConditionTrue, 0)
	before := runtime.NumGoroutine()
	for range flaps {
		flap(corev1.ConditionFalse, machines)
		flap(corev1.ConditionTrue, 0)
	}
	more := runtime.NumGoroutine() - before
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
	t.Logf("%d flaps of %d Nodes under %d checks: %d events, %d more goroutines", flaps, machines, checks, len(all.Items), more)
	s.Expect(more).To(BeNumerically("<", machines), "goroutines")
	s.Expect(len(all.Items)).To(BeNumerically("<=", 300))
	s.Expect(responsible).To(HaveLen(1), "checks with events about Machines")
}
