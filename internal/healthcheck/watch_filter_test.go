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
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// TestAWatchFilterSelectsChecksAndNotTheirClusters has a check with the label, and a Cluster without it.
func TestAWatchFilterSelectsChecksAndNotTheirClusters(t *testing.T) {
	t.Parallel()
	s := stage.New(t, func(s *stage.Stage) { s.WatchFilter = "a" })
	s.CreateMachine("m-1")
	check := s.CreateCheck("workers")
	s.Change(check, func() { check.Labels = map[string]string{clusterv1.WatchLabel: s.WatchFilter} })
	s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(1)))
}

// TestAnotherInstancesCheckIsNotReadAgain: whatever happens to its Machines and its Cluster, this one only looks at it in its cache.
func TestAnotherInstancesCheckIsNotReadAgain(t *testing.T) {
	t.Parallel()
	s := stage.New(t, func(s *stage.Stage) { s.WatchFilter = "a" })
	s.CreateMachine("m-1")
	ours, theirs := s.CreateCheck("ours"), s.CreateCheck("theirs")
	s.Change(ours, func() { ours.Labels = map[string]string{clusterv1.WatchLabel: s.WatchFilter} })
	s.Change(theirs, func() { theirs.Labels = map[string]string{clusterv1.WatchLabel: "b"} })
	var reads sync.Map
	count := func(r *http.Request, _ string) bool {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/machinehealthchecks/") {
			reads.Store(path.Base(r.URL.Path), true)
		}
		return false
	}
	c := s.StartInterrupted(count, func() {})
	c.NeverIdle = true
	s.Eventually(func() bool { return c.Evaluated("ours") }).Should(BeTrue())
	for range 3 {
		c.ReconcileAll()
	}
	known := func(check string) bool {
		_, read := reads.Load(check)
		return read
	}
	s.Expect(known("ours")).To(BeTrue())
	s.Expect(known("theirs")).To(BeFalse())
	// There is no other instance that would report on it.
	s.Expect(s.Admin.Delete(s.Ctx, theirs)).To(Succeed())
}

// TestACheckGoesToAnotherInstance: this one forgets it, and knows it again when it comes back.
func TestACheckGoesToAnotherInstance(t *testing.T) {
	t.Parallel()
	s := stage.New(t, func(s *stage.Stage) { s.WatchFilter = "a" })
	s.CreateUnhealthyMachine("m-1")
	check := s.CreateCheck("workers")
	label := func(value string) {
		s.Change(check, func() { check.Labels = map[string]string{clusterv1.WatchLabel: value} })
	}
	label("a")
	c := s.Start()
	known := func() bool { return c.Evaluated("workers") }
	s.Eventually(known).Should(BeTrue())
	c.WaitIdle()
	label("b")
	s.Eventually(known).Should(BeFalse())
	writes := len(c.Writes())
	c.ReconcileAll()
	s.Expect(known()).To(BeFalse())
	s.Expect(c.Writes()[writes:]).To(BeEmpty())
	label("a")
	s.Eventually(known).Should(BeTrue())
}

// TestACheckThatGoesToAnotherInstanceIsLeftAloneAtOnce: many Machines are sick, and it is handed over when the first has been seen to.
func TestACheckThatGoesToAnotherInstanceIsLeftAloneAtOnce(t *testing.T) {
	t.Parallel()
	for by, begun := range map[string]func(*http.Request, string) bool{"by requests": stage.CreatesRequest, "by owners": stage.RequestsOwner} {
		for speed, takes := range map[string]time.Duration{"at once": 0, "by a slow API server": time.Minute} {
			t.Run(by+", "+speed, func(t *testing.T) {
				t.Parallel()
				s := stage.New(t, stage.WithClock, func(s *stage.Stage) { s.WatchFilter = "ours" })
				for n := range 8 {
					s.CreateUnhealthyMachine(fmt.Sprintf("m-%d", n))
				}
				check := s.CreateCheck("workers")
				s.Change(check, func() {
					check.Labels = map[string]string{clusterv1.WatchLabel: s.WatchFilter}
					if by == "by requests" {
						stage.ByNewTemplate(s)(&check.Spec)
					}
				})
				var c *stage.Instance
				var before atomic.Int64
				started := make(chan struct{})
				c = s.StartInterrupted(begun, func() {
					<-started
					s.Change(check, func() { check.Labels[clusterv1.WatchLabel] = "other" })
					s.Clock.Step(takes)
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
				s.Eventually(stage.Get(s, check)).Should(HaveField("Status.ObservedGeneration", Equal(check.Generation)), "it is ours again")
			})
		}
	}
}
