// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

func withPause(spec *remedyv1.MachineHealthCheckSpec) { spec.PauseRequests = []string{"test"} }

// The API server executes the request of owner remediation, and the response is lost. The owner deletes that Machine at once. It keeps its
// place until it is replaced.
func TestLostResponse_OwnerRemediation_KeepsItsPlace(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateMachineSet("workers", 3)
	for _, name := range []string{"m-1", "m-2", "m-3"} {
		s.CreateMachine(name)
	}
	check := s.CreateCheck("workers", stage.MaxInFlight(1), withPause)
	var once atomic.Bool
	c := startThrough(s, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		var body []byte
		if r.Body != nil {
			body, _ = io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		response, err := next.RoundTrip(r)
		requests := strings.Contains(r.URL.Path, "/machines/m-1/") && stage.RequestsOwner(r, string(body))
		if err != nil || !requests || !once.CompareAndSwap(false, true) {
			return response, err
		}
		m := &clusterv1.Machine{}
		m.Namespace, m.Name = s.Namespace, "m-1"
		s.Expect(s.Admin.Delete(s.Ctx, m)).To(Succeed())
		s.Expect(response.Body.Close()).To(Succeed())
		return nil, errors.New("http2: client connection lost")
	})
	s.FailNode("m-1")
	s.FailNode("m-2")
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.Blocked", HaveValue(BeEquivalentTo(2))))
	s.Change(check, func() { check.Spec.PauseRequests = nil })
	s.Eventually(func() int { return len(s.Machines()) }).Should(Equal(2))
	c.WaitIdle()
	s.Expect(s.MachineConditions(clusterv1.MachineOwnerRemediatedCondition)).To(HaveKeyWithValue("m-2", Not(Equal(stage.OwnerRequested))))
}

// The MachineSet of a deleted Machine cannot be read. That Machine keeps its place of maxInFlight, another one is remediated, and the check
// reports why. A read that is forbidden or fails is no failure of the reconcile.
func TestReplacement_UnreadableOwner_OthersAreRemediated(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusForbidden, http.StatusInternalServerError} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			s.CreateMachineSet("workers", 3)
			for _, name := range []string{"m-1", "m-2", "m-3"} {
				s.CreateMachine(name)
			}
			check := s.CreateCheck("workers", stage.MaxInFlight(2))
			c := startThrough(s, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
				if !strings.HasSuffix(r.URL.Path, "/machinesets/workers") {
					return next.RoundTrip(r)
				}
				return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("")), Request: r, Header: http.Header{}}, nil
			})
			requested := func(name string) func() string {
				return func() string { return s.MachineConditions(clusterv1.MachineOwnerRemediatedCondition)[name] }
			}
			s.FailNode("m-1")
			s.Eventually(requested("m-1")).Should(Equal(stage.OwnerRequested))
			m := &clusterv1.Machine{}
			m.Namespace, m.Name = s.Namespace, "m-1"
			s.Expect(s.Admin.Delete(s.Ctx, m)).To(Succeed())
			s.FailNode("m-2")
			s.Eventually(requested("m-2")).Should(Equal(stage.OwnerRequested), "it has the second place")
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.CheckMessage(remedyv1.RemediationAllowedCondition),
				ContainSubstring("MachineSet/workers")))
			s.FailNode("m-3")
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-3"), Equal("Blocked MaxInFlight")))
			c.WaitIdle()
			s.Expect(requested("m-3")()).To(BeEmpty(), "the deleted Machine counts until its owner can be read")
			for _, failures := range c.Series("remedy_failed_evaluations_total") {
				s.Expect(failures).To(BeZero())
			}
		})
	}
}

// The API server creates the request, and the response is lost. The remediation is counted as started once, and as ended once.
func TestLostResponse_CreatedRequest_IsCounted(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createTargets("m-1", "m-2")
		check := s.createCheck()
		process := faults.Start(s.Ctx)
		creates := func(w faults.Write) bool { return w.Verb == "create" && w.Resource == s.first.Plural }
		lost, err := process.FailWriteOf(creates, 1, faults.LoseAnswer)
		s.Expect(err).ToNot(HaveOccurred())
		c, err := s.StartAs(process, s.User())
		s.Expect(err).ToNot(HaveOccurred())
		s.T.Cleanup(c.StopIdle)
		s.Eventually(check.healthy).Should(Equal(2))
		s.FailNode("m-1")
		s.Eventually(lost).Should(Receive())
		s.Eventually(check.decision("m-1")).Should(Equal("Remediating "))
		s.SetReady("m-1", corev1.ConditionTrue, 0)
		s.Eventually(s.request("m-1")).Should(BeNil())
		c.WaitIdle()
		total := 0.0
		for _, n := range c.Series("remedy_remediations_total") {
			total += n
		}
		s.Expect(total).To(BeEquivalentTo(2), "a start and an end")
	})
}

// A Machine has recovered, and its owner has not removed OwnerRemediated=False yet. If it is unhealthy again while another one has the only
// place, HealthCheckSucceeded stays True: with both conditions False, the owner would delete it.
func TestLeftoverCondition_NoPlace_StaysWithoutEffect(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	m1, m2 := s.CreateUnhealthyMachine("m-1"), s.CreateMachine("m-2")
	s.CreateMachine("m-3")
	check := s.CreateCheck("workers", stage.MaxInFlight(1))
	c := s.Start()
	succeeded := stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)
	remediated := stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)
	s.Eventually(stage.Get(s, m1)).Should(WithTransform(remediated, Equal(stage.OwnerRequested)))
	s.SetReady("m-1", corev1.ConditionTrue, time.Second)
	s.Eventually(stage.Get(s, m1)).Should(WithTransform(succeeded, Equal(stage.IsHealthy)))
	s.FailNode("m-2")
	s.Eventually(stage.Get(s, m2)).Should(WithTransform(remediated, Equal(stage.OwnerRequested)))
	s.FailNode("m-1")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked MaxInFlight")))
	c.WaitIdle()
	s.Expect(stage.Get(s, m1)()).To(And(
		WithTransform(remediated, Equal(stage.OwnerRequested)), WithTransform(succeeded, Equal(stage.IsHealthy))))
}

// The Cluster is paused while the check is patched before the first start. Nothing else is written to the check.
func TestPreflight_ClusterPaused_DoesNotPatchCheck(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	names := []string{"m-1", "m-2", "m-3", "m-4"}
	for _, name := range names {
		s.CreateMachine(name)
	}
	check := s.CreateCheck("workers", stage.MaxInFlight(1), withPause)
	var c *stage.Instance
	var at atomic.Int64
	c = s.StartInterrupted(func(r *http.Request, body string) bool {
		return r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/machinehealthchecks/workers") && strings.Contains(body, "m-1")
	}, func() {
		s.Annotate(s.Cluster, clusterv1.PausedAnnotation, "yes")
		at.Store(int64(len(c.Writes())))
	})
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(4)))
	for _, name := range names {
		s.FailNode(name)
	}
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.Blocked", HaveValue(BeEquivalentTo(4))))
	c.WaitIdle()
	s.Change(check, func() { check.Spec.PauseRequests = nil })
	s.Eventually(at.Load).ShouldNot(BeZero())
	c.WaitIdle()
	s.Expect(c.Writes()[at.Load():]).ToNot(ContainElement(And(HaveField("Resource", "machinehealthchecks"), HaveField("Subresource", ""))))
}
