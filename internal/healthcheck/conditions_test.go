// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// startWithSlowConditionWrites advances the clock of the reconcilers at every write of the conditions of a Machine, as a slow API server
// would.
func startWithSlowConditionWrites(s *stage.Stage, onWrite func()) *stage.Instance {
	s.T.Helper()
	return startThrough(s, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil && r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/machines/") && strings.HasSuffix(r.URL.Path, "/status") {
			s.Clock.Step(100 * time.Millisecond)
			onWrite()
		}
		return response, err
	})
}

// conditionWritesBefore counts the writes of conditions of Machines before the first write that matches. There has to be one.
func conditionWritesBefore(c *stage.Instance, match func(faults.Write) bool) int {
	c.Stage.T.Helper()
	all := c.Writes()
	first, written := slices.IndexFunc(all, match), 0
	c.Stage.Expect(first).To(BeNumerically(">", 0))
	for _, w := range all[:first] {
		if w.Resource == "machines" && w.Subresource == "status" && w.Landed() {
			written++
		}
	}
	return written
}

// isCheckStatusWrite matches a write of the status of a check.
func isCheckStatusWrite(w faults.Write) bool {
	return (w.Resource == "machinehealthchecks" || w.Resource == "nodehealthchecks") && w.Subresource == "status"
}

// isMachineMetadataWrite matches a write of the annotations of a Machine, which is the first write of a remediation.
func isMachineMetadataWrite(machine string) func(faults.Write) bool {
	return func(w faults.Write) bool { return w.Resource == "machines" && w.Subresource == "" && w.Name == machine }
}

// Every Machine gets its first conditions, which takes long. A Machine that becomes unhealthy meanwhile is remediated before all other
// Machines have conditions.
func TestConditions_SlowWrites_DoNotDelayRemediation(t *testing.T) {
	t.Parallel()
	const all, last = 60, "m-00059"
	s := stage.New(t, stage.WithClock)
	s.NewBulk().Create(all)
	s.CreateCheck("workers")
	started := make(chan *stage.Instance, 1)
	failLast := sync.OnceFunc(func() {
		s.SetReady(last, corev1.ConditionUnknown, 10*time.Minute)
		// The write returns when the instance has observed the change.
		c := <-started
		s.Eventually(func() bool { return c.HasCurrentNode(last) }).Should(BeTrue())
	})
	c := startWithSlowConditionWrites(s, failLast)
	started <- c
	unhealthy := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: last}}
	s.WaitMachineCondition(unhealthy, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
	s.Eventually(func() int {
		return stage.Count(s.MachineConditions(clusterv1.MachineHealthCheckSucceededCondition), stage.IsHealthy)
	}).Should(Equal(all-1), "all other Machines get their condition")
	s.Expect(conditionWritesBefore(c, isMachineMetadataWrite(last))).
		To(BeNumerically("<", all-1), "conditions of other Machines were not written yet")
	s.Expect(conditionWritesBefore(c, isCheckStatusWrite)).
		To(BeNumerically("<", all-1), "the status of the check does not wait for the conditions")
}

// The conditions of unhealthy Machines are written first, so the failing write comes before the others. It takes so long that its reconcile
// writes no other conditions.
func TestConditions_WriteFailsForOneMachine_OthersAreWritten(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	unwritable, next, healthy := s.CreateUnhealthyMachine("m-1"), s.CreateUnhealthyMachine("m-2"), s.CreateMachine("m-3")
	// No remediation starts: if a remediation failed, Remedy would not write the conditions of that Machine.
	s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.PauseRequests = []string{"test"} })
	var fixed atomic.Bool
	status := "/machines/" + unwritable.Name + "/status"
	startThrough(s, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, status) && !fixed.Load() {
			s.Clock.Step(10 * time.Second)
			return nil, errors.New("failed calling webhook: context deadline exceeded")
		}
		return next.RoundTrip(r)
	})
	s.WaitMachineCondition(healthy, clusterv1.MachineHealthCheckSucceededCondition, stage.IsHealthy)
	s.WaitMachineCondition(next, clusterv1.MachineHealthCheckSucceededCondition, stage.IsUnhealthy)
	s.Expect(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)(stage.Get(s, unwritable)())).To(BeEmpty())
	fixed.Store(true)
	s.WaitMachineCondition(unwritable, clusterv1.MachineHealthCheckSucceededCondition, stage.IsUnhealthy)
}

// The owner of a recovered Machine was requested to remediate it, and deletes it as long as HealthCheckSucceeded is False.
func TestConditions_RecoveredMachine_IsWrittenFirst(t *testing.T) {
	t.Parallel()
	const all, last = 12, "m-00011"
	s := stage.New(t, stage.WithClock)
	s.NewBulk().Create(all)
	s.SetReady("m-00000", corev1.ConditionUnknown, 10*time.Minute)
	recovered := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: last}}
	s.ChangeStatus(recovered, func() {
		conditions.Set(recovered, metav1.Condition{
			Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse,
			Reason: clusterv1.MachineHealthCheckUnhealthyNodeReason,
		})
		conditions.Set(recovered, metav1.Condition{
			Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
			Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason,
		})
	})
	// No remediation starts, so the order of the writes is that of the conditions.
	s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.PauseRequests = []string{"test"} })
	c := startWithSlowConditionWrites(s, func() {})
	s.Eventually(func() int {
		return stage.Count(s.MachineConditions(clusterv1.MachineHealthCheckSucceededCondition), stage.IsHealthy)
	}).Should(Equal(all - 1))
	writes := slices.DeleteFunc(c.Writes(), func(w faults.Write) bool { return w.Resource != "machines" || w.Subresource != "status" })
	s.Expect(writes[:10]).To(ContainElements(HaveField("Name", last), HaveField("Name", "m-00000")),
		"the recovered and the unhealthy Machine are in the first group")
}

// The caches do not show the pause until the end of the test. The preflight check of the second Machine reads it live, and the reconcile
// writes nothing after that.
func TestConditions_PauseSeenByPreflight_AreNotWritten(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]func(s *stage.Stage, check *remedyv1.MachineHealthCheck){
		"Cluster paused": func(s *stage.Stage, _ *remedyv1.MachineHealthCheck) {
			s.Change(s.Cluster, func() { s.Cluster.Spec.Paused = ptr.To(true) })
		},
		"check paused": func(s *stage.Stage, check *remedyv1.MachineHealthCheck) {
			s.Annotate(check, clusterv1.PausedAnnotation, "yes")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			first := s.CreateUnhealthyMachine("m-1")
			s.CreateUnhealthyMachine("m-2")
			s.CreateUnhealthyMachine("m-3")
			check := s.CreateCheck("workers")
			var c *stage.Instance
			var before atomic.Int64
			started := make(chan struct{})
			c = s.StartInterrupted(stage.RequestsOwner, func() {
				<-started
				c.Watches().Hold("clusters.cluster.x-k8s.io", "machinehealthchecks.remedy.cluster.x-k8s.io")
				pause(s, check)
				before.Store(int64(len(c.Writes())))
			})
			c.NeverIdle = true
			close(started)
			s.Eventually(before.Load).Should(BeNumerically(">", 0))
			reconciles := c.Reconciles("workers")
			n := reconciles.Load()
			s.Annotate(first, stage.WakeAnnotation, "now")
			s.Eventually(reconciles.Load).Should(BeNumerically(">", n), "the reconcile has ended")
			for _, w := range c.Writes()[before.Load():] {
				s.Expect(w.Resource).To(Equal("events"), w.What())
			}
			c.Watches().Release()
			s.WaitCheckCondition(check, remedyv1.PausedCondition, "True Paused")
		})
	}
}
