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
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// One reconcile creates two requests, the second one five minutes after the first. The timeout of each starts at its own creation.
func TestStepTimeout_LongReconcile_StartsAtCreation(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1", "m-2")
		s.createCheck(inSteps(s.soft, s.hard))
		creates := func(r *http.Request, _ string) bool {
			return r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/"+s.soft.Plural)
		}
		c := s.StartInterrupted(creates, func() { s.Clock.Step(5 * time.Minute) })
		first, second := s.requestOf(s.soft, "m-1"), s.requestOf(s.soft, "m-2")
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
	forEachKind(t, func(s *kindStage) {
		s.first = installKindWithRequiredField(s.Stage)
		s.createUnhealthy("m-1")
		check := s.createCheck()
		first := &sync.Once{}
		c := startThrough(s.Stage, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil && s.starts(r, "") && response.StatusCode == http.StatusUnprocessableEntity {
				first.Do(func() { s.Clock.Step(time.Minute) })
			}
			return response, err
		})
		c.NeverIdle = true
		tried := func() int { return s.triedRequests(c) }
		s.Eventually(check.decision("m-1")).Should(Equal("Blocked RequestFailed"))
		c.ReconcileAll()
		c.ReconcileAll()
		s.Expect(tried()).To(Equal(1))
		s.Advance(16 * time.Second)
		s.Eventually(tried).Should(Equal(2))
	}, stage.WithClock)
}

// Each request takes more than half a second. The status shows a start a second or two later, and not at the end of the reconcile.
func TestStatus_LongReconcile_ShowsStarts(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		names := []string{"m-0", "m-1", "m-2", "m-3", "m-4"}
		s.createUnhealthy(names...)
		check := s.createCheck()
		// The test reads into check at the same time.
		shown, created := &kindCheck{s, check.DeepCopyObject().(client.Object)}, 0
		var decisions []string
		startThrough(s.Stage, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if s.starts(r, "") {
				if created++; created == len(names) {
					for _, name := range names {
						decisions = append(decisions, shown.decision(name)())
					}
				}
				s.Clock.Step(600 * time.Millisecond)
			}
			return next.RoundTrip(r)
		})
		s.Eventually(check.status).Should(HaveField("Remediating", HaveValue(BeEquivalentTo(len(names)))))
		s.Expect(decisions).To(Equal([]string{
			"Remediating ", "Remediating ", "Remediating ", "Remediating ", "Blocked PreflightPending",
		}))
	}, stage.WithClock)
}

// There is one place. An admission webhook rejects, slowly, the requests of all targets but the last. Those of the first are tried again
// later, and not before that of the last.
func TestRejectedRequest_SlowAdmission_OthersAreTried(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		const last = "m-9"
		for n := range 10 {
			s.createUnhealthy(fmt.Sprintf("m-%d", n))
		}
		check := s.createCheck(atMost(1))
		c := startThrough(s.Stage, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if !s.starts(r, "") {
				return next.RoundTrip(r)
			}
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if strings.Contains(string(body), `"name":"`+s.name(last)+`"`) {
				return next.RoundTrip(r)
			}
			s.Clock.Step(5 * time.Second)
			rejected := apierrors.NewInvalid(schema.GroupKind{Kind: s.first.Kind}, "m", nil).Status()
			response, err := json.Marshal(&rejected)
			return &http.Response{
				StatusCode: http.StatusUnprocessableEntity, Body: io.NopCloser(bytes.NewReader(response)), Request: r,
				Header: http.Header{"Content-Type": []string{"application/json"}},
			}, err
		})
		c.NeverIdle = true
		s.Eventually(func() bool { return c.Evaluated(check.GetName()) }).Should(BeTrue())
		for range 20 {
			s.Advance(remediation.RetryTime)
			c.ReconcileAll()
			if s.request(last)() != nil {
				return
			}
		}
		s.T.Error("the request of the last target was never tried")
	}, stage.WithClock)
}
