// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	"k8s.io/client-go/rest"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// outOfOrder answers for an API that cannot be asked what it serves, as long as it is broken.
type outOfOrder struct {
	path   string
	broken atomic.Bool
	asked  atomic.Int64
}

func (o *outOfOrder) user(s *stage) *rest.Config {
	user := s.user()
	user.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return o.answer(next, r) })
	})
	return user
}

func (o *outOfOrder) answer(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	if r.URL.Path != o.path {
		return next.RoundTrip(r)
	}
	o.asked.Add(1)
	if !o.broken.Load() {
		return next.RoundTrip(r)
	}
	return nil, errors.New("dial tcp 10.96.0.1:443: connect: connection refused")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAnAPIThatIsOutOfOrderKeepsACheckOnlyIfItMayHaveRequests: after a start, a check is deleted that an earlier process has looked after.
func TestAnAPIThatIsOutOfOrderKeepsACheckOnlyIfItMayHaveRequests(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T, path string, change func(*stage, *remedyv1.MachineHealthCheck)) (*stage, *controller, *outOfOrder) {
		t.Helper()
		t.Parallel()
		s := newStage(t, withClock)
		s.sick("m-1")
		check := s.check("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
			spec.RemediationTemplate = s.template(remediator.FenceAgents, "fence")
		})
		first, err := s.startAs(faults.Start(s.ctx), s.user())
		s.Expect(err).ToNot(HaveOccurred())
		s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Remediating ")))
		first.stop()
		change(s, check)
		api := &outOfOrder{path: path}
		api.broken.Store(true)
		c, err := s.startAs(faults.Start(s.ctx), api.user(s))
		s.Expect(err).ToNot(HaveOccurred())
		t.Cleanup(c.stop)
		s.Eventually(func() bool { return c.judged("workers") }).Should(BeTrue())
		s.Expect(s.admin.Delete(s.ctx, check)).To(Succeed())
		return s, c, api
	}
	// It names another template by now.
	withoutTemplate := func(s *stage, check *remedyv1.MachineHealthCheck) {
		s.change(check, func() { check.Spec.RemediationTemplate = nil })
	}
	t.Run("not an API of which it never had requests", func(t *testing.T) {
		s, _, api := begin(t, "/apis/"+remediator.Metal3.GroupVersion().String(), withoutTemplate)
		s.Eventually(s.checks).Should(BeEmpty())
		s.Expect(api.asked.Load()).To(BeZero(), "it is none of our business")
	})
	t.Run("an API of which it had requests", func(t *testing.T) {
		s, c, api := begin(t, "/apis/"+remediator.FenceAgents.GroupVersion().String(), withoutTemplate)
		s.Eventually(func() string {
			s.nudge()
			return tells(remedyv1.ReadyCondition)(&s.checks()[0])
		}).Should(Equal("False CleaningUp"))
		before := c.passesOf("workers").Load()
		s.Eventually(func() int64 {
			s.nudge()
			return c.passesOf("workers").Load()
		}).Should(BeNumerically(">", before+3))
		s.Expect(s.checks()).To(ConsistOf(HaveField("Finalizers", ConsistOf(remedyv1.CleanupFinalizer))), "there may be something to clean up")
		s.Expect(tells(remedyv1.ReadyCondition)(&s.checks()[0])).To(Equal("False CleaningUp"))
		s.Expect(message(remedyv1.ReadyCondition)(&s.checks()[0])).To(And(ContainSubstring("There may be requests that cannot be seen"), ContainSubstring(remedyv1.CleanupFinalizer),
			ContainSubstring("whether "+remediator.FenceAgents.GroupVersion().String()+", Kind="+remediator.FenceAgents.Kind+" is served"), Not(ContainSubstring(":443")), Not(ContainSubstring("://"))))
		asked := api.asked.Load()
		s.Expect(asked).To(BeNumerically("<=", 1), "it is not asked in every pass")
		api.broken.Store(false)
		s.wait(remediation.RetryTime)
		s.Eventually(s.checks).Should(BeEmpty())
	})
}
