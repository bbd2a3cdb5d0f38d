// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

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
)

// TestAWatchFilterSelectsChecksAndNotTheirClusters has a check with the label, and a Cluster without it.
func TestAWatchFilterSelectsChecksAndNotTheirClusters(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(s *stage) { s.filter = "a" })
	s.machine("m-1")
	check := s.check("workers")
	s.change(check, func() { check.Labels = map[string]string{clusterv1.WatchLabel: s.filter} })
	s.start()
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(1)))
}

// TestAnotherInstancesCheckIsNotReadAgain: whatever happens to its Machines and its Cluster, this one only looks at it in its cache.
func TestAnotherInstancesCheckIsNotReadAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(s *stage) { s.filter = "a" })
	s.machine("m-1")
	ours, theirs := s.check("ours"), s.check("theirs")
	s.change(ours, func() { ours.Labels = map[string]string{clusterv1.WatchLabel: s.filter} })
	s.change(theirs, func() { theirs.Labels = map[string]string{clusterv1.WatchLabel: "b"} })
	var reads sync.Map
	count := func(r *http.Request, _ string) bool {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/machinehealthchecks/") {
			reads.Store(path.Base(r.URL.Path), true)
		}
		return false
	}
	c := s.startInterrupted(count, func() {})
	c.restless = true
	s.Eventually(func() bool { return c.judged("ours") }).Should(BeTrue())
	for range 3 {
		c.pass()
	}
	known := func(check string) bool {
		_, read := reads.Load(check)
		return read
	}
	s.Expect(known("ours")).To(BeTrue())
	s.Expect(known("theirs")).To(BeFalse())
	// There is no other instance that would report on it.
	s.Expect(s.admin.Delete(s.ctx, theirs)).To(Succeed())
}

// TestACheckGoesToAnotherInstance: this one forgets it, and knows it again when it comes back.
func TestACheckGoesToAnotherInstance(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(s *stage) { s.filter = "a" })
	s.sick("m-1")
	check := s.check("workers")
	label := func(value string) {
		s.change(check, func() { check.Labels = map[string]string{clusterv1.WatchLabel: value} })
	}
	label("a")
	c := s.start()
	known := func() bool { return c.judged("workers") }
	s.Eventually(known).Should(BeTrue())
	c.settle()
	label("b")
	s.Eventually(known).Should(BeFalse())
	writes := len(c.Writes())
	c.pass()
	s.Expect(known()).To(BeFalse())
	s.Expect(c.Writes()[writes:]).To(BeEmpty())
	label("a")
	s.Eventually(known).Should(BeTrue())
}

// TestACheckThatGoesToAnotherInstanceIsLeftAloneAtOnce: many Machines are sick, and it is handed over when the first has been seen to.
func TestACheckThatGoesToAnotherInstanceIsLeftAloneAtOnce(t *testing.T) {
	t.Parallel()
	for by, begun := range map[string]func(*http.Request, string) bool{"by requests": requestMade, "by owners": ownerAsked} {
		for speed, takes := range map[string]time.Duration{"at once": 0, "by a slow API server": time.Minute} {
			t.Run(by+", "+speed, func(t *testing.T) {
				t.Parallel()
				s := newStage(t, withClock, func(s *stage) { s.filter = "ours" })
				for n := range 8 {
					s.sick(fmt.Sprintf("m-%d", n))
				}
				check := s.check("workers")
				s.change(check, func() {
					check.Labels = map[string]string{clusterv1.WatchLabel: s.filter}
					if by == "by requests" {
						byTemplate(s)(&check.Spec)
					}
				})
				var c *controller
				var before atomic.Int64
				started := make(chan struct{})
				c = s.startInterrupted(begun, func() {
					<-started
					s.change(check, func() { check.Labels[clusterv1.WatchLabel] = "other" })
					s.clock.Step(takes)
					before.Store(int64(len(c.Writes())))
				})
				c.restless = true
				close(started)
				s.Eventually(before.Load).Should(BeNumerically(">", 0))
				s.Eventually(func() bool { return c.judged("workers") }).Should(BeFalse())
				c.pass()
				for _, w := range c.Writes()[before.Load():] {
					s.Expect(w.Resource).To(Equal("events"), w.What())
				}
				s.change(check, func() { check.Labels[clusterv1.WatchLabel] = s.filter })
				s.Eventually(get(s, check)).Should(HaveField("Status.ObservedGeneration", Equal(check.Generation)), "it is ours again")
			})
		}
	}
}
