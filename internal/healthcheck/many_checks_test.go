//go:build long

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
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
func startAndCount(s *stage.Stage) (*stage.Instance, *asked) {
	s.T.Helper()
	counts := &asked{by: map[string]int{}}
	user := s.User()
	user.Wrap(func(next http.RoundTripper) http.RoundTripper {
		counts.next = next
		return counts
	})
	c, err := s.StartAs(faults.Start(s.Ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	s.T.Cleanup(c.StopIdle)
	return c, counts
}

// TestManyChecks_OneNamespace_WorkIndependently: all checks name the same Cluster, so each one is a neighbour of all others.
func TestManyChecks_OneNamespace_WorkIndependently(t *testing.T) {
	s := stage.New(t)
	const each = 3
	checks := depth.Of(50, 200)
	pool := func(i int) string { return fmt.Sprintf("pool-%03d", i) }
	people := s.NewBulk()
	people.Pool = func(i int) string { return pool(i / each) }
	people.Ready = func(i int) corev1.ConditionStatus {
		if i%(5*each) == 0 {
			return corev1.ConditionUnknown
		}
		return corev1.ConditionTrue
	}
	people.Create(checks * each)
	for i := range checks {
		s.CreateCheck(pool(i), stage.OfPool(pool(i)))
	}
	c, counts := startAndCount(s)
	c.NeverIdle = true
	s.Eventually(func() int {
		return stage.Count(s.MachineConditions(clusterv1.MachineHealthCheckSucceededCondition), stage.IsHealthy)
	}).Should(Equal(checks*each - checks/5))
	s.Eventually(func() int {
		return stage.Count(s.MachineConditions(clusterv1.MachineOwnerRemediatedCondition), stage.OwnerRequested)
	}).Should(Equal(checks / 5))
	before := c.WaitNoReconciles()
	for _, check := range s.Checks() {
		s.Expect(check.Status.ExpectedMachines).To(HaveValue(BeEquivalentTo(each)), check.Name)
		s.Expect(stage.CheckCondition(remedyv1.SelectorsDisjointCondition)(&check)).To(HavePrefix("True"), check.Name)
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
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: people.Name(7 * each)}}
	s.Annotate(m, clusterv1.RemediateMachineAnnotation, "yes")
	s.Eventually(stage.Get(s, m)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
	s.SetReady(people.Name(8*each), corev1.ConditionUnknown, 10*time.Minute)
	n := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: people.Name(8 * each)}}
	s.Eventually(stage.Get(s, n)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
	s.Expect(stage.Changed(before, c.WaitNoReconciles())).To(ConsistOf(pool(7), pool(8)), "nobody else has anything to look at")
	more, by := counts.soFar()
	s.Expect(more-begun).To(BeNumerically("<=", 2*20), "requests for two of them: %v", by)
}
