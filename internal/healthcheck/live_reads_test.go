// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// liveReads counts the reads of a manager by resource, as "list machines" or "get machines". Watches do not count.
type liveReads struct {
	mu    sync.Mutex
	count map[string]int
}

func (r *liveReads) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method == http.MethodGet && request.URL.Query().Get("watch") == "" {
			_, path, _ := strings.Cut(request.URL.Path, "/namespaces/")
			parts := strings.Split(path, "/")
			r.mu.Lock()
			defer r.mu.Unlock()
			switch len(parts) {
			case 2:
				r.count["list "+parts[1]]++
			case 3:
				r.count["get "+parts[1]]++
			}
		}
		return next.RoundTrip(request)
	})
}

// take returns the counts since the last call.
func (r *liveReads) take() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.count
	r.count = map[string]int{}
	return taken
}

// Many targets are read with one list of Machines and of requests in a reconcile, and not one by one. Targets that get no place need no
// read.
func TestPreflight_ManyTargets_ReadsListsOnce(t *testing.T) {
	t.Parallel()
	const all, places = 40, 8
	for by, reads := range map[string]map[string]int{
		"external remediation": {"list machines": 1, "list " + remediator.Metal3.Plural: 1},
		"owner remediation":    {"list machines": 1},
	} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			// The clock stands still: a preflight check stays valid, however slow the machine is.
			s := stage.New(t, stage.WithClock)
			for n := range all {
				s.CreateUnhealthyMachine(fmt.Sprintf("m-%02d", n))
			}
			check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
				spec.PauseRequests = []string{"test"}
				if by == "external remediation" {
					stage.ByNewTemplate(s)(spec)
					spec.MaxInFlight = ptr.To(intstr.FromInt32(places))
				}
			})
			counted := &liveReads{count: map[string]int{}}
			user := rest.CopyConfig(s.User())
			user.Wrap(counted.wrap)
			c, err := s.StartAs(faults.Start(s.Ctx), user)
			s.Expect(err).ToNot(HaveOccurred())
			t.Cleanup(c.StopIdle)
			s.Eventually(stage.Get(s, check)).Should(HaveField("Status.Blocked", HaveValue(BeEquivalentTo(all))))
			c.WaitIdle()
			counted.take()

			s.Change(check, func() { check.Spec.PauseRequests = nil })
			if by == "external remediation" {
				s.Eventually(func() int { return len(s.Requests(remediator.Metal3)) }).Should(Equal(places))
			} else {
				s.Eventually(func() int {
					return stage.Count(s.MachineConditions(clusterv1.MachineOwnerRemediatedCondition), stage.OwnerRequested)
				}).Should(Equal(all))
			}
			c.WaitIdle()
			got := counted.take()
			for read, most := range map[string]int{"get machines": 0, "get " + remediator.Metal3.Plural: 0, "get machinehealthchecks": 12} {
				s.Expect(got[read]).To(BeNumerically("<=", most), read)
			}
			for read, n := range reads {
				// On a slow machine, a read may time out: the next reconcile reads again.
				s.Expect(got[read]).To(And(BeNumerically(">=", n), BeNumerically("<=", 3*n)), "%s of %v", read, got)
			}
		})
	}
}
