// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// One reconcile creates two requests, the second one five minutes after the first. The timeout of each starts at its own creation.
func TestStepTimeout_LongReconcile_StartsAtCreation(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1", "m-2")
		s.createCheck(inSteps(remediator.FenceAgents, remediator.Metal3))
		creates := func(r *http.Request, _ string) bool {
			return r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/"+remediator.FenceAgents.Plural)
		}
		c := s.StartInterrupted(creates, func() { s.Clock.Step(5 * time.Minute) })
		first, second := s.requestOf(remediator.FenceAgents, "m-1"), s.requestOf(remediator.FenceAgents, "m-2")
		started := func(request func() *unstructured.Unstructured) time.Time {
			s.Eventually(request).ShouldNot(BeNil())
			at, err := time.Parse(time.RFC3339Nano, request().GetAnnotations()[remedyv1.StartedAnnotation])
			s.Expect(err).ToNot(HaveOccurred())
			return at
		}
		s.Expect(started(second).Sub(started(first))).To(Equal(5 * time.Minute))
		s.Advance(9 * time.Minute)
		s.Eventually(first).Should(BeNil(), "ten minutes have passed since its creation")
		c.ReconcileAll()
		s.Expect(second()).ToNot(BeNil(), "one minute of its timeout is left")
		s.Advance(time.Minute)
		s.Eventually(second).Should(BeNil())
	}, stage.WithClock)
}

// The reconcile takes longer than the delay after a rejected request. The delay starts at the rejection, so the next reconcile does not
// retry at once.
func TestRejectedRequest_LongReconcile_DelayStartsAtRejection(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	kind := installKindWithRequiredField(s)
	s.CreateUnhealthyMachine("m-1")
	check := s.CreateCheck("workers", stage.ByTemplate(s.CreateTemplate(kind, "soft")))
	first := &sync.Once{}
	user := rest.CopyConfig(s.User())
	user.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil && r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/"+kind.Plural) &&
				response.StatusCode == http.StatusUnprocessableEntity {
				first.Do(func() { s.Clock.Step(time.Minute) })
			}
			return response, err
		})
	})
	c, err := s.StartAs(faults.Start(s.Ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	s.T.Cleanup(c.StopIdle)
	c.NeverIdle = true
	tried := func() int {
		n := 0
		for _, w := range c.Writes() {
			if w.Verb == "create" && w.Resource == kind.Plural {
				n++
			}
		}
		return n
	}
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked RequestFailed")))
	c.ReconcileAll()
	c.ReconcileAll()
	s.Expect(tried()).To(Equal(1))
	s.Advance(16 * time.Second)
	s.Eventually(tried).Should(Equal(2))
}

// Each request takes more than half a second. The status shows a start a second or two later, and not at the end of the reconcile.
func TestStatus_LongReconcile_ShowsStarts(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	for n := range 5 {
		s.CreateUnhealthyMachine(fmt.Sprintf("m-%d", n))
	}
	check := s.CreateCheck("workers", stage.ByNewTemplate(s))
	user, created := rest.CopyConfig(s.User()), 0
	// The test reads into check at the same time.
	shown := check.DeepCopy()
	var decisions []string
	user.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if stage.CreatesRequest(r, "") {
				if created++; created == 5 {
					stage.Get(s, shown)()
					for n := range 5 {
						decisions = append(decisions, stage.Decision(fmt.Sprintf("m-%d", n))(shown))
					}
				}
				s.Clock.Step(600 * time.Millisecond)
			}
			return next.RoundTrip(r)
		})
	})
	c, err := s.StartAs(faults.Start(s.Ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(c.StopIdle)
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.Remediating", HaveValue(BeEquivalentTo(5))))
	s.Expect(decisions).To(Equal([]string{
		"Remediating ", "Remediating ", "Remediating ", "Remediating ", "Blocked PreflightPending",
	}))
}

// There is one place. An admission webhook rejects, slowly, the requests of all Machines but the last. Those of the first are tried again
// later, and not before that of the last.
func TestRejectedRequest_SlowAdmission_OthersAreTried(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	const last = "m-9"
	for n := range 10 {
		s.CreateUnhealthyMachine(fmt.Sprintf("m-%d", n))
	}
	s.CreateCheck("workers", stage.ByNewTemplate(s), stage.MaxInFlight(1))
	user := rest.CopyConfig(s.User())
	user.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if !stage.CreatesRequest(r, "") {
				return next.RoundTrip(r)
			}
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if strings.Contains(string(body), `"name":"`+last+`"`) {
				return next.RoundTrip(r)
			}
			s.Clock.Step(5 * time.Second)
			rejected := apierrors.NewInvalid(schema.GroupKind{Kind: "Metal3Remediation"}, "m", nil).Status()
			response, err := json.Marshal(&rejected)
			return &http.Response{
				StatusCode: http.StatusUnprocessableEntity, Body: io.NopCloser(bytes.NewReader(response)), Request: r,
				Header: http.Header{"Content-Type": []string{"application/json"}},
			}, err
		})
	})
	c, err := s.StartAs(faults.Start(s.Ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(c.StopIdle)
	c.NeverIdle = true
	s.Eventually(func() bool { return c.Evaluated("workers") }).Should(BeTrue())
	for range 20 {
		s.Advance(remediation.RetryTime)
		c.ReconcileAll()
		if s.Request(remediator.Metal3, last)() != nil {
			return
		}
	}
	t.Error("the request of the last Machine was never tried")
}
