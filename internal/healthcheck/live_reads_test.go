// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// liveReads counts the reads of a manager by resource, as "list machines" or "get machines". Watches do not count.
type liveReads struct {
	mu    sync.Mutex
	count map[string]int
}

// resourcePath is the path of objects of a kind, or of one of them.
var resourcePath = regexp.MustCompile("^/(?:api/[^/]+|apis/[^/]+/[^/]+)/(?:namespaces/[^/]+/)?([^/]+)(/[^/]+)?$")

func (r *liveReads) observe(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	path := resourcePath.FindStringSubmatch(request.URL.Path)
	if path != nil && request.Method == http.MethodGet && request.URL.Query().Get("watch") == "" {
		verb := "list "
		if path[2] != "" {
			verb = "get "
		}
		r.mu.Lock()
		r.count[verb+path[1]]++
		r.mu.Unlock()
	}
	return next.RoundTrip(request)
}

// take returns the counts since the last call.
func (r *liveReads) take() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.count
	r.count = map[string]int{}
	return taken
}

// Many targets are read with one list of them and of requests in a reconcile, and not one by one. Targets that get no place need no read.
func TestPreflight_ManyTargets_ReadsListsOnce(t *testing.T) {
	t.Parallel()
	const all, places = 40, 8
	// The clock stands still: a preflight check stays valid, however slow the machine is.
	forEachRemediation(t, func(s *kindStage) {
		for n := range all {
			s.createUnhealthy(fmt.Sprintf("m-%02d", n))
		}
		check := s.createCheck(pausedByUser, func(set *settings) {
			if !s.byOwner {
				set.MaxInFlight = ptr.To(intstr.FromInt32(places))
			}
		})
		counted := &liveReads{count: map[string]int{}}
		c := startThrough(s.Stage, counted.observe)
		s.Eventually(check.status).Should(HaveField("Blocked", HaveValue(BeEquivalentTo(all))))
		c.WaitIdle()
		reconciles := c.Reconciles(check.GetName())
		before := reconciles.Load()
		counted.take()

		check.endPause()
		if s.byOwner {
			s.Eventually(func() int {
				return stage.Count(s.MachineConditions(clusterv1.MachineOwnerRemediatedCondition), stage.OwnerRequested)
			}).Should(Equal(all))
		} else {
			s.Eventually(func() int { return len(s.Requests(s.first)) }).Should(Equal(places))
		}
		c.WaitIdle()
		got, rounds := counted.take(), int(reconciles.Load()-before)
		targets, _, _ := strings.Cut(s.targets, ".")
		checks, _, _ := strings.Cut(s.checks, ".")
		// Up to five that are left, because a write has conflicted, are read one by one in the next reconcile.
		for _, resource := range []string{targets, s.first.Plural} {
			s.Expect(got["get "+resource]).To(BeNumerically("<=", 5), "%v in %d reconciles", got, rounds)
		}
		// A slow machine needs more reconciles. Each may read the check at its begin, in the preflight check, and before both groups of writes.
		s.Expect(got["get "+checks]).To(BeNumerically("<=", 4*rounds), "%v in %d reconciles", got, rounds)
		lists := []string{targets, s.first.Plural}
		if s.byOwner {
			lists = lists[:1]
		}
		for _, resource := range lists {
			s.Expect(got["list "+resource]).To(And(BeNumerically(">=", 1), BeNumerically("<=", rounds)), "lists of %s: %v", resource, got)
		}
	}, stage.WithClock)
}
