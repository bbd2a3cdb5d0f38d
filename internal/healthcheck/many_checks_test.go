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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/depth"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// requestCounter counts the requests to an API server by verb and resource.
type requestCounter struct {
	next   http.RoundTripper
	mu     sync.Mutex
	byKind map[string]int
}

// RoundTrip implements http.RoundTripper.
func (c *requestCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	path := strings.Split(r.URL.Path, "/")
	kind := r.Method
	for _, resource := range []string{"machines", "machinehealthchecks", "clusters", "secrets", "events"} {
		for i, part := range path {
			if part != resource {
				continue
			}
			kind += " " + resource
			switch {
			case r.URL.Query().Get("watch") != "":
				kind = "watch " + resource
			case r.Method == http.MethodGet && i == len(path)-1:
				kind = "list " + resource
			}
		}
	}
	c.mu.Lock()
	c.byKind[kind]++
	c.mu.Unlock()
	return c.next.RoundTrip(r)
}

// total returns the number of all requests until now, and the numbers by kind.
func (c *requestCounter) total() (all int, byKind map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	byKind = map[string]int{}
	for kind, n := range c.byKind {
		byKind[kind] = n
		all += n
	}
	return all, byKind
}

// startCounting starts an instance and counts its requests.
func startCounting(s *stage.Stage) (*stage.Instance, *requestCounter) {
	s.T.Helper()
	counts := &requestCounter{byKind: map[string]int{}}
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

// TestManyChecks_OneNamespace_WorkIndependently has all checks in one Cluster, so an event of that Cluster concerns each of them.
func TestManyChecks_OneNamespace_WorkIndependently(t *testing.T) {
	s := stage.New(t)
	const each = 3
	checks := depth.Of(25, explain.MaxChecks)
	pool := func(i int) string { return fmt.Sprintf("pool-%03d", i) }
	bulk := s.NewBulk()
	bulk.Pool = func(i int) string { return pool(i / each) }
	bulk.Ready = func(i int) corev1.ConditionStatus {
		if i%(5*each) == 0 {
			return corev1.ConditionUnknown
		}
		return corev1.ConditionTrue
	}
	bulk.Create(checks * each)
	for i := range checks {
		s.CreateCheck(pool(i), stage.OfPool(pool(i)))
	}
	c, counts := startCounting(s)
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
	initial, byKind := counts.total()
	reconciles := int64(0)
	for _, other := range before {
		reconciles += other
	}
	s.Expect(reconciles).To(BeNumerically("<=", 10*checks), "reconciles until the status is complete")
	s.Expect(initial).To(BeNumerically("<=", 15*checks), "requests until the status is complete: %v", byKind)
	s.Expect(byKind).ToNot(HaveKey(HavePrefix("list ")), "watched kinds are not listed, and few Machines are read one by one")

	// One Machine changes, then one Node: only their checks are reconciled, with as many requests as if they were alone.
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: bulk.Name(7 * each)}}
	s.Annotate(m, clusterv1.RemediateMachineAnnotation, "yes")
	s.WaitMachineCondition(m, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
	s.SetReady(bulk.Name(8*each), corev1.ConditionUnknown, 10*time.Minute)
	other := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: bulk.Name(8 * each)}}
	s.WaitMachineCondition(other, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
	s.Expect(stage.Changed(before, c.WaitNoReconciles())).To(ConsistOf(pool(7), pool(8)), "no other check is reconciled")
	more, byKind := counts.total()
	s.Expect(more-initial).To(BeNumerically("<=", 2*20), "requests of two checks: %v", byKind)
}
