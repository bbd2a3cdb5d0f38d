// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
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

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// withWatchFilter sets the label of the checks that the instance reconciles. With Nodes, it has another value.
func withWatchFilter(s *stage.Stage) { s.WatchFilter = "a" }

// Events of its targets and its Cluster cause no live read of a check that another instance reconciles.
func TestWatchFilter_CheckOfOtherInstance_IsNotReadLive(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createTargets("m-1")
		own, other := s.createCheck(named("check-a")), s.createCheck(named("check-b"))
		own.setWatchLabel(s.WatchFilter)
		other.setWatchLabel("b")
		var reads sync.Map
		count := func(r *http.Request, _ string) bool {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "healthchecks/") {
				reads.Store(path.Base(r.URL.Path), true)
			}
			return false
		}
		c := s.StartInterrupted(count, func() {})
		c.NeverIdle = true
		s.Eventually(func() bool { return c.Evaluated(own.GetName()) }).Should(BeTrue())
		for range 3 {
			c.ReconcileAll()
		}
		readLive := func(check *kindCheck) bool {
			_, found := reads.Load(check.GetName())
			return found
		}
		s.Expect(readLive(own)).To(BeTrue())
		s.Expect(readLive(other)).To(BeFalse())
		// Events of the target, its Node, the Cluster and the check itself reconcile only the own check.
		before := c.Reconciles(own.GetName()).Load()
		s.Annotate(s.target("m-1"), "example.com/a", "b")
		s.SetReady("m-1", corev1.ConditionUnknown, time.Minute)
		other.change(func(p parts) { p.MaxInFlight = ptr.To(intstr.FromInt32(1)) })
		c.ReconcileAll()
		s.Expect(c.Reconciles(own.GetName()).Load()).To(BeNumerically(">", before))
		s.Expect(c.Reconciles(other.GetName()).Load()).To(BeZero())
		// No instance would report the status of this check, which the end of the test inspects.
		other.delete()
	}, withWatchFilter)
}

// The instance evaluates the check again when the label changes back.
func TestWatchFilter_LabelChanged_CheckIsForgotten(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		check := s.createCheck()
		check.setWatchLabel(s.WatchFilter)
		c := s.Start()
		evaluated := func() bool { return c.Evaluated(check.GetName()) }
		s.Eventually(evaluated).Should(BeTrue())
		c.WaitIdle()
		check.setWatchLabel("b")
		s.Eventually(evaluated).Should(BeFalse())
		writes := len(c.Writes())
		c.ReconcileAll()
		s.Expect(evaluated()).To(BeFalse())
		s.Expect(c.Writes()[writes:]).To(BeEmpty())
		check.setWatchLabel(s.WatchFilter)
		s.Eventually(evaluated).Should(BeTrue())
	}, withWatchFilter)
}

// Five targets are unhealthy. The label of the check changes when the remediation of the first one has started.
func TestWatchFilter_LabelChangedMidReconcile_StopsWrites(t *testing.T) {
	t.Parallel()
	for speed, delay := range map[string]time.Duration{"fast API server": 0, "slow API server": time.Minute} {
		t.Run(speed, func(t *testing.T) {
			t.Parallel()
			forEachRemediation(t, func(s *kindStage) {
				s.createUnhealthy("m-0", "m-1", "m-2", "m-3", "m-4")
				check := s.createCheck()
				check.setWatchLabel(s.WatchFilter)
				name := check.GetName()
				var c *stage.Instance
				var before, begun atomic.Int64
				started := make(chan struct{})
				c = s.StartInterrupted(s.starts, func() {
					<-started
					check.setWatchLabel("b")
					s.Clock.Step(delay)
					begun.Store(c.Reconciles(name).Load())
					before.Store(int64(len(c.Writes())))
				})
				c.NeverIdle = true
				close(started)
				s.Eventually(before.Load).Should(BeNumerically(">", 0))
				// The interrupted reconcile is over when the next one begins.
				s.Eventually(c.Reconciles(name).Load).Should(BeNumerically(">", begun.Load()))
				s.Eventually(func() bool { return c.Evaluated(name) }).Should(BeFalse())
				c.ReconcileAll()
				for _, w := range c.Writes()[before.Load():] {
					s.Expect(w.Resource).To(Equal("events"), w.What())
				}
				check.setWatchLabel(s.WatchFilter)
				s.Eventually(check.status).
					Should(HaveField("ObservedGeneration", Equal(check.GetGeneration())), "this instance reconciles the check again")
			}, stage.WithClock, withWatchFilter)
		})
	}
}
