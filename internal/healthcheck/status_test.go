// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// The cache does not show the own writes of the instance yet, and the new status equals the one before them.
func TestStatus_StaleCheckCache_IsUpdated(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createTargets("m-1")
		check := s.createCheck(func(set *settings) { set.Mode = remedyv1.ObserveMode })
		c := s.Start()
		s.Eventually(check.healthy).Should(Equal(1))
		c.WaitIdle()
		c.Watches().Hold(s.checks)
		s.FailNode("m-1")
		s.Eventually(check.healthy).Should(Equal(0))
		s.SetReady("m-1", corev1.ConditionTrue, 0)
		s.Eventually(check.healthy, stage.OutcomeTimeout).Should(Equal(1), "the status is updated")
		c.Watches().Release()
	})
}

func TestSyncPeriod_NoEvents_ReconcilesAgain(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createTargets("m-1")
		check := s.createCheck()
		c := s.Start()
		s.Eventually(check.healthy).Should(Equal(1))
		c.WaitIdle()
		resyncs := func() float64 {
			n := 0.0
			for _, counted := range c.Series("remedy_evaluations_total", "resync") {
				n += counted
			}
			return n
		}
		before := resyncs()
		s.Eventually(resyncs).Should(BeNumerically(">=", before+2))
	}, func(s *stage.Stage) { s.SyncPeriod = ptr.To(time.Second) })
}

// The last write of the earlier leader succeeds when the new leader has filled its cache. The cache does not show it until the end of the
// test.
func TestStatus_NewLeaderWithStaleCache_KeepsLastWrite(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		s.createTargets("m-2")
		check := s.createCheck()
		c := s.Start()
		s.Eventually(check.decision("m-1")).Should(Equal("Remediating "))
		c.WaitIdle()
		c.Crash()
		c.Stop()
		earlier := &kindCheck{s, check.DeepCopyObject().(client.Object)}
		s.OnFirstRead = func(c *stage.Instance) {
			c.Watches().Hold(s.checks)
			earlier.changeStatus(func(p parts) {
				*p.healthy = ptr.To[int32](7)
				p.RecentRemediations = []remedyv1.RecentRemediation{
					{Target: s.name("m-9"), Outcome: remedyv1.ReplacedOutcome, StartTime: metav1.Now(), CompletionTime: metav1.Now()},
				}
			})
		}
		c = s.Start()
		s.Eventually(func() bool { return c.Evaluated(check.GetName()) }).Should(BeTrue())
		s.Eventually(check.healthy).Should(Equal(1), "the status of the earlier leader is replaced")
		s.SetReady("m-1", corev1.ConditionTrue, 0)
		s.Eventually(check.outcomes).Should(Equal([]string{"m-1 Recovered", "m-9 Replaced"}))
		c.Watches().Release()
	})
}

// The write of the status that records a remediation fails, or its response is lost.
func TestStatus_WriteFails_RecordsRemediationOnce(t *testing.T) {
	t.Parallel()
	for _, fault := range []faults.Fault{faults.Refuse, faults.LoseRequest, faults.LoseAnswer} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			forEachKind(t, func(s *kindStage) {
				s.createUnhealthy("m-1")
				check := s.createCheck()
				c := s.Start()
				s.Eventually(check.decision("m-1")).Should(Equal("Remediating "))
				c.WaitIdle()
				failed, err := c.FailWriteOf(
					func(w faults.Write) bool { return strings.HasPrefix(s.checks, w.Resource) && w.Subresource == "status" }, 1, fault)
				s.Expect(err).ToNot(HaveOccurred())
				s.SetReady("m-1", corev1.ConditionTrue, 0)
				s.Eventually(failed).Should(Receive())
				s.Eventually(check.healthy).Should(Equal(1))
				c.WaitIdle()
				s.Expect(check.status().RecentRemediations).To(ConsistOf(
					And(HaveField("Target", s.name("m-1")), HaveField("Outcome", remedyv1.RecoveredOutcome))))
			})
		})
	}
}
