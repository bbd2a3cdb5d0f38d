//go:build long

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/depth"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

// asked counts what an API server is asked, by what it is about.
type asked struct {
	next http.RoundTripper
	mu   sync.Mutex
	by   map[string]int
}

// RoundTrip implements http.RoundTripper.
func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	path := strings.Split(r.URL.Path, "/")
	what := r.Method
	for _, resource := range []string{"machines", "machinehealthchecks", "clusters", "secrets", "events"} {
		for i, part := range path {
			if part != resource {
				continue
			}
			what += " " + resource
			switch {
			case r.URL.Query().Get("watch") != "":
				what = "watch " + resource
			case r.Method == http.MethodGet && i == len(path)-1:
				what = "list " + resource
			}
		}
	}
	a.mu.Lock()
	a.by[what]++
	a.mu.Unlock()
	return a.next.RoundTrip(r)
}

// soFar is what was asked until now, and how much that is altogether.
func (a *asked) soFar() (all int, by map[string]int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	by = map[string]int{}
	for what, n := range a.by {
		by[what] = n
		all += n
	}
	return all, by
}

// startAndCount runs the controller, and counts what it asks.
func (s *stage) startAndCount() (*controller, *asked) {
	s.t.Helper()
	counts := &asked{by: map[string]int{}}
	user := s.user()
	user.Wrap(func(next http.RoundTripper) http.RoundTripper {
		counts.next = next
		return counts
	})
	c, err := s.startAs(faults.Start(s.ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	s.t.Cleanup(c.leave)
	return c, counts
}

// TestManyChecks_OneNamespace_WorkIndependently: all checks name the same Cluster, so each one is a neighbour of all others.
func TestManyChecks_OneNamespace_WorkIndependently(t *testing.T) {
	s := newStage(t)
	const each = 3
	checks := depth.Of(50, 200)
	pool := func(i int) string { return fmt.Sprintf("pool-%03d", i) }
	people := s.newCrowd()
	people.pool = func(i int) string { return pool(i / each) }
	people.ready = func(i int) corev1.ConditionStatus {
		if i%(5*each) == 0 {
			return corev1.ConditionUnknown
		}
		return corev1.ConditionTrue
	}
	people.come(checks * each)
	for i := range checks {
		s.check(pool(i), ofPool(pool(i)))
	}
	c, counts := s.startAndCount()
	c.restless = true
	s.Eventually(func() int { return countOf(s.told(clusterv1.MachineHealthCheckSucceededCondition), isWell) }).Should(Equal(checks*each - checks/5))
	s.Eventually(func() int { return countOf(s.told(clusterv1.MachineOwnerRemediatedCondition), marked) }).Should(Equal(checks / 5))
	before := c.calm()
	for _, check := range s.checks() {
		s.Expect(check.Status.ExpectedMachines).To(HaveValue(BeEquivalentTo(each)), check.Name)
		s.Expect(tells(remedyv1.SelectorsDisjointCondition)(&check)).To(HavePrefix("True"), check.Name)
	}
	begun, by := counts.soFar()
	passes := int64(0)
	for _, n := range before {
		passes += n
	}
	s.Expect(passes).To(BeNumerically("<=", 10*checks), "passes until everything was told")
	s.Expect(begun).To(BeNumerically("<=", 15*checks), "requests until everything was told: %v", by)
	s.Expect(by).ToNot(HaveKey(HavePrefix("list ")), "what is watched is not listed, and five Machines are read one by one")

	// One Machine changes, and then one Node: one check looks, and asks for as much as if it were alone.
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: people.name(7 * each)}}
	s.annotate(m, clusterv1.RemediateMachineAnnotation, "yes")
	s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	s.ready(people.name(8*each), corev1.ConditionUnknown, 10*time.Minute)
	n := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: people.name(8 * each)}}
	s.Eventually(get(s, n)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	s.Expect(changesOf(before, c.calm())).To(ConsistOf(pool(7), pool(8)), "nobody else has anything to look at")
	more, by := counts.soFar()
	s.Expect(more-begun).To(BeNumerically("<=", 2*20), "requests for two of them: %v", by)
}
