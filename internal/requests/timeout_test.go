// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// through sends what the manager asks through others on its way, from now on.
func (s *scene) through(other func(next http.RoundTripper) http.RoundTripper) {
	s.t.Helper()
	s.stop()
	config := s.quietConfig()
	config.Wrap(other)
	config.Wrap(s.traffic.count)
	s.begin(s.t.Context(), config)
}

// silent does not answer requests for these paths while hangs is true.
func silent(path string, is *atomic.Bool) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if is.Load() && strings.HasPrefix(request.URL.Path, path) {
				<-request.Context().Done()
				return nil, errors.WithStack(request.Context().Err())
			}
			return next.RoundTrip(request)
		})
	}
}

// answering answers requests with this method and the end of this path itself while it is on.
func answering(method, path string, on *atomic.Bool, code int, body string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if !on.Load() || request.Method != method || !strings.HasSuffix(request.URL.Path, path) {
				return next.RoundTrip(request)
			}
			return &http.Response{
				StatusCode: code, Status: http.StatusText(code), Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(body)), Request: request,
			}, nil
		})
	}
}

// TestDiscovery_Hangs_TimesOut: the caller gets an error after a timeout, and so do all who ask
// just then. When there is one again, they are woken.
func TestDiscovery_Hangs_TimesOut(t *testing.T) {
	s := newScene(t, "Reboot")
	s.provide()
	var hangs atomic.Bool
	hangs.Store(true)
	s.through(silent("/apis/"+s.kind.Group, &hangs))
	s.requests.timeout = 50 * time.Millisecond
	kind := s.reference().RequestKind()
	trouble := func(name string) error {
		_, err := s.requests.OfCheck(t.Context(), s.check(name), kind)
		return err
	}
	unanswered := func() []string {
		s.clock.Step(failedFor)
		s.Expect(trouble("a")).To(MatchError(ContainSubstring("failed to check whether " + kind.String() + " is served")))
		return s.traffic.since()
	}
	// Who has no time left before anything was sent has learnt nothing.
	s.Eventually(unanswered).ShouldNot(BeEmpty())
	s.Eventually(func() []string {
		_ = trouble("a")
		return s.traffic.since()
	}).Should(BeEmpty())
	for _, name := range []string{"b", "c", "a"} {
		s.Expect(trouble(name)).To(MatchError(ContainSubstring("failed to check")))
	}
	s.Expect(s.traffic.since()).To(BeEmpty(), "it is not asked again and again")
	s.Eventually(unanswered).ShouldNot(BeEmpty())

	hangs.Store(false)
	s.requests.timeout = defaultTimeout
	s.clock.Step(failedFor)
	s.wakes()
	s.usable(s.check("a"), s.reference())
	var woken []string
	s.Eventually(func() []string {
		woken = append(woken, s.wakes()...)
		return woken
	}).Should(ContainElements("b", "c"))
}

// slowMapper does not answer until let is closed.
type slowMapper struct {
	meta.RESTMapper
	asked *atomic.Int64
	let   chan struct{}
}

func (m slowMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	m.asked.Add(1)
	<-m.let
	return m.RESTMapper.RESTMapping(kind, versions...)
}

// mappedBy is a client with a mapper of its own.
type mappedBy struct {
	client.Client
	mapper meta.RESTMapper
}

func (m mappedBy) RESTMapper() meta.RESTMapper { return m.mapper }

// TestMapper_Hangs_IsAskedOnce, where nothing is followed.
func TestMapper_Hangs_IsAskedOnce(t *testing.T) {
	s := newScene(t, "Reboot")
	s.install(s.kind.CRDs()...)
	asked, let := &atomic.Int64{}, make(chan struct{})
	slow := mappedBy{admin, slowMapper{admin.RESTMapper(), asked, let}}
	plain, err := New(t.Context(), Options{Client: slow, Reader: admin, Clock: s.clock})
	s.Expect(err).ToNot(HaveOccurred())
	plain.timeout = 50 * time.Millisecond
	for range 3 {
		one := plain.Resolve(t.Context(), nodeCheck, "", s.reference())[0]
		s.Expect(one.Err).To(MatchError(ContainSubstring("failed to check")))
		s.clock.Step(failedFor)
	}
	s.Eventually(asked.Load).ShouldNot(BeZero())
	s.Consistently(asked.Load).Should(BeEquivalentTo(1))
	close(let)
	plain.timeout = defaultTimeout
	s.Eventually(func() *Resolved {
		s.clock.Step(failedFor)
		return &plain.Resolve(t.Context(), nodeCheck, "", s.reference())[0]
	}).Should(HaveField("Problem", HaveField("Reason", remedyv1.TemplateNotFoundReason)))
}

// TestPermission_ReviewFails_IsNotMissing: an authorizer is down. That is no denial.
func TestPermission_ReviewFails_IsNotMissing(t *testing.T) {
	s := newScene(t, "Reboot")
	s.provide()
	var unsure atomic.Bool
	unsure.Store(true)
	const answer = `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":false,"evaluationError":"the authorizer is down"}}`
	s.through(answering(http.MethodPost, "/selfsubjectaccessreviews", &unsure, http.StatusCreated, answer))
	one := s.requests.Resolve(t.Context(), s.check("a"), "", s.reference())[0]
	s.Expect(one.Problem).To(BeNil())
	s.Expect(one.Err).To(MatchError(ContainSubstring("the authorizer is down")))
	asked := func() int {
		return len(
			slices.DeleteFunc(s.traffic.since(), func(asked string) bool { return !strings.HasSuffix(asked, "/selfsubjectaccessreviews") }),
		)
	}
	s.Expect(asked()).To(Equal(1))
	s.requests.Resolve(t.Context(), s.check("a"), "", s.reference())
	s.Expect(asked()).To(BeZero(), "it is not asked again at once")
	unsure.Store(false)
	s.usable(s.check("a"), s.reference())
}

// TestWatch_Lost_MissesNoRequest: lists and watches of the kind fail for a while. What has happened meanwhile is news when that
// is over, at the latest after the longest pause between two tries.
func TestWatch_Lost_MissesNoRequest(t *testing.T) {
	s := settled(t)
	var fails atomic.Bool
	const answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"message":"no"}`
	s.through(answering(http.MethodGet, "/reboots", &fails, http.StatusInternalServerError, answer))
	c := s.check("a")
	fails.Store(true)
	_, err := s.requests.OfCheck(t.Context(), c, s.reference().RequestKind())
	s.Expect(err).To(HaveOccurred(), "it is not listed yet")
	draft := s.draft(c, Object{"m1", "uid-1"})
	first, err := Build(s.kind.NewTemplate(s.namespace, "soft", map[string]any{"strategy": "reboot"}), draft)
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(admin.Create(t.Context(), first)).To(Succeed())
	news := func(what func() bool) {
		t.Helper()
		s.wakes()
		fails.Store(false)
		s.Eventually(func() bool {
			s.clock.Step(longestPause)
			return slices.Contains(s.wakes(), "a") && what()
		}).Should(BeTrue())
	}
	found := func() *Request {
		all, _ := s.requests.OfCheck(t.Context(), c, s.reference().RequestKind())
		if len(all) == 0 {
			return nil
		}
		return all[0]
	}
	news(func() bool { return found() != nil })

	// The CRD is deleted and created again, and so is the request, which is not read at first.
	fails.Store(true)
	s.traffic.since()
	s.uninstall(s.kind.CRDs()...)
	s.install(s.kind.CRDs()...)
	// The API server ends a watch of a deleted kind a second late. Until then it would deliver the new request, too.
	s.Eventually(func() int {
		s.clock.Step(longestPause)
		return s.traffic.lists("reboots")
	}).ShouldNot(BeZero(), "the watch has ended")
	second := first.DeepCopy()
	second.SetResourceVersion("")
	second.SetUID("")
	s.Eventually(func() error { return admin.Create(t.Context(), second.DeepCopy()) }).Should(Succeed())
	news(func() bool { f := found(); return f != nil && f.UID != first.GetUID() })
}
