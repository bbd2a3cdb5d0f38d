// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// The watch filter selects checks by their label. Their Clusters do not need it.
func TestWatchFilter_ClusterWithoutLabel_IsRead(t *testing.T) {
	t.Parallel()
	s := stage.New(t, func(s *stage.Stage) { s.WatchFilter = "a" })
	s.CreateMachine("m-1")
	check := s.CreateCheck("workers")
	s.Change(check, func() { check.Labels = map[string]string{clusterv1.WatchLabel: s.WatchFilter} })
	s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(1)))
}

// Events of its Machines and its Cluster cause no live read of a check that another instance reconciles.
func TestWatchFilter_CheckOfOtherInstance_IsNotReadLive(t *testing.T) {
	t.Parallel()
	s := stage.New(t, func(s *stage.Stage) { s.WatchFilter = "a" })
	machine := s.CreateMachine("m-1")
	own, other := s.CreateCheck("check-a"), s.CreateCheck("check-b")
	s.Change(own, func() { own.Labels = map[string]string{clusterv1.WatchLabel: s.WatchFilter} })
	s.Change(other, func() { other.Labels = map[string]string{clusterv1.WatchLabel: "b"} })
	var reads sync.Map
	count := func(r *http.Request, _ string) bool {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/machinehealthchecks/") {
			reads.Store(path.Base(r.URL.Path), true)
		}
		return false
	}
	c := s.StartInterrupted(count, func() {})
	c.NeverIdle = true
	s.Eventually(func() bool { return c.Evaluated("check-a") }).Should(BeTrue())
	for range 3 {
		c.ReconcileAll()
	}
	readLive := func(check string) bool {
		_, found := reads.Load(check)
		return found
	}
	s.Expect(readLive("check-a")).To(BeTrue())
	s.Expect(readLive("check-b")).To(BeFalse())
	// Events of the Machine, its Node, the Cluster and the check itself reconcile only the own check.
	before := c.Reconciles("check-a").Load()
	s.Annotate(machine, "example.com/a", "b")
	s.SetReady("m-1", corev1.ConditionUnknown, time.Minute)
	s.Change(other, func() { other.Spec.MaxInFlight = ptr.To(intstr.FromInt32(1)) })
	c.ReconcileAll()
	s.Expect(c.Reconciles("check-a").Load()).To(BeNumerically(">", before))
	s.Expect(c.Reconciles("check-b").Load()).To(BeZero())
	// No instance would report the status of this check, which the end of the test inspects.
	s.Expect(s.Admin.Delete(s.Ctx, other)).To(Succeed())
}

// The instance evaluates the check again when the label changes back.
func TestWatchFilter_LabelChanged_CheckIsForgotten(t *testing.T) {
	t.Parallel()
	s := stage.New(t, func(s *stage.Stage) { s.WatchFilter = "a" })
	s.CreateUnhealthyMachine("m-1")
	check := s.CreateCheck("workers")
	label := func(value string) {
		s.Change(check, func() { check.Labels = map[string]string{clusterv1.WatchLabel: value} })
	}
	label("a")
	c := s.Start()
	evaluated := func() bool { return c.Evaluated("workers") }
	s.Eventually(evaluated).Should(BeTrue())
	c.WaitIdle()
	label("b")
	s.Eventually(evaluated).Should(BeFalse())
	writes := len(c.Writes())
	c.ReconcileAll()
	s.Expect(evaluated()).To(BeFalse())
	s.Expect(c.Writes()[writes:]).To(BeEmpty())
	label("a")
	s.Eventually(evaluated).Should(BeTrue())
}

// Five Machines are unhealthy. The label of the check changes when the remediation of the first one has started.
func TestWatchFilter_LabelChangedMidReconcile_StopsWrites(t *testing.T) {
	t.Parallel()
	for by, isStart := range map[string]func(*http.Request, string) bool{
		"external remediation": stage.CreatesRequest, "owner remediation": stage.RequestsOwner,
	} {
		for speed, delay := range map[string]time.Duration{"fast API server": 0, "slow API server": time.Minute} {
			t.Run(by+", "+speed, func(t *testing.T) {
				t.Parallel()
				s := stage.New(t, stage.WithClock, func(s *stage.Stage) { s.WatchFilter = "own" })
				for n := range 5 {
					s.CreateUnhealthyMachine(fmt.Sprintf("m-%d", n))
				}
				check := s.CreateCheck("workers")
				s.Change(check, func() {
					check.Labels = map[string]string{clusterv1.WatchLabel: s.WatchFilter}
					if by == "external remediation" {
						stage.ByNewTemplate(s)(&check.Spec)
					}
				})
				var c *stage.Instance
				var before atomic.Int64
				started := make(chan struct{})
				c = s.StartInterrupted(isStart, func() {
					<-started
					s.Change(check, func() { check.Labels[clusterv1.WatchLabel] = "other" })
					s.Clock.Step(delay)
					before.Store(int64(len(c.Writes())))
				})
				c.NeverIdle = true
				close(started)
				s.Eventually(before.Load).Should(BeNumerically(">", 0))
				s.Eventually(func() bool { return c.Evaluated("workers") }).Should(BeFalse())
				c.ReconcileAll()
				for _, w := range c.Writes()[before.Load():] {
					s.Expect(w.Resource).To(Equal("events"), w.What())
				}
				s.Change(check, func() { check.Labels[clusterv1.WatchLabel] = s.WatchFilter })
				s.Eventually(stage.Get(s, check)).
					Should(HaveField("Status.ObservedGeneration", Equal(check.Generation)), "this instance reconciles the check again")
			})
		}
	}
}
