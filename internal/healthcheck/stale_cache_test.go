// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// expectCreatedOnce verifies that all instances together have created every request once. Each step creates the Lease of a Node again.
func expectCreatedOnce(s *stage.Stage, instances ...*stage.Instance) {
	s.T.Helper()
	created := map[string]int{}
	for _, c := range instances {
		for _, w := range c.Writes() {
			if w.Verb == "create" && w.Resource != "leases" && w.Landed() {
				created[w.Resource+" "+w.Name]++
			}
		}
	}
	s.Expect(created).To(HaveEach(1))
}

// The first leader blocks between its preflight check and the create, and the second one creates the requests.
func TestTwoLeaders_FirstBlockedBeforeCreate_CreateOnce(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.Record()
		s.createUnhealthy("m-1", "m-2", "m-3")
		s.createCheck(atMost(2))
		first, reached, release := s.StartBlocked(s.sendsRequest(http.MethodPost))
		s.Eventually(reached).Should(BeClosed())
		second := s.Start()
		s.Eventually(func() int { return len(s.Requests(s.first)) }).Should(Equal(2))
		created := s.Requests(s.first)
		release()
		first.WaitIdle()
		second.WaitIdle()
		s.Expect(s.Requests(s.first)).To(Equal(created), "the requests of the second leader are unchanged, and no others exist")
		expectCreatedOnce(s.Stage, first, second)
	})
}

// A target has changed, and the cache does not show it. The preflight check reads it live.
func TestStaleCache_TargetChanged_StartsNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*kindStage){
		"remediation skipped": func(s *kindStage) { s.Annotate(s.target("m-1"), s.skip, "yes") },
		"no longer selected":  func(s *kindStage) { s.moveTo("m-1", "others") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachKind(t, func(s *kindStage) {
				s.Record()
				s.createUnhealthy("m-1")
				check := s.createCheck(pausedByUser)
				c := s.Start()
				// Idle, a Machine has its responsible check already, so no write to it comes before the request.
				s.Eventually(check.decision("m-1")).Should(Equal("Blocked PauseRequested"))
				c.WaitIdle()
				c.Watches().Hold(s.targets)
				change(s)
				s.Eventually(func() int { return c.Watches().BlockedBack(s.targets) }).Should(BeNumerically(">=", 1))
				check.endPause()
				s.Eventually(check.decision("m-1"), stage.OutcomeTimeout).Should(Equal("Blocked PreflightFailed"), "no remediation starts")
				s.Expect(s.Requests(s.first)).To(BeEmpty())
				c.Watches().Release()
				c.WaitIdle()
				s.Expect(s.Requests(s.first)).To(BeEmpty())
			})
		})
	}
}

// The API server rejects a write, and no other event wakes the check.
func TestRejectedWrite_NoOtherEvent_IsRetried(t *testing.T) {
	t.Parallel()
	for name, isWrite := range map[string]func(faults.Write) bool{
		"Machine status":   func(w faults.Write) bool { return w.Resource == "machines" && w.Subresource == "status" },
		"Machine metadata": func(w faults.Write) bool { return w.Resource == "machines" && w.Subresource == "" },
		"request":          func(w faults.Write) bool { return w.Resource == remediator.Metal3.Plural },
		"check status":     func(w faults.Write) bool { return w.Resource == "machinehealthchecks" && w.Subresource == "status" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			s.Record()
			m := s.CreateMachine("m-1")
			check := s.CreateCheck("workers", stage.ByNewTemplate(s))
			process := faults.Start(s.Ctx)
			c, err := s.StartAs(process, s.User())
			s.Expect(err).ToNot(HaveOccurred())
			t.Cleanup(c.StopIdle)
			// The first reads of a new instance would be other events.
			c.WaitIdle()
			rejected := make([]<-chan faults.Write, 5)
			for n := range rejected {
				rejected[n], err = process.FailWriteOf(isWrite, n+1, faults.Refuse)
				s.Expect(err).ToNot(HaveOccurred())
			}
			s.FailNode("m-1")
			s.Eventually(rejected[0]).Should(Receive())
			for n, retry := range rejected[1:] {
				s.Eventually(retry, stage.OutcomeTimeout).Should(Receive(), "attempt %d", n+2)
			}
			s.WaitRequest(remediator.Metal3, "m-1")
			s.Eventually(stage.Get(s, m), stage.OutcomeTimeout).
				Should(WithTransform(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition), HavePrefix("False")), "attempt 6")
			s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).
				Should(WithTransform(stage.Decision("m-1"), Equal("Remediating ")), "attempt 6")
		})
	}
}

// Before the delete of the first leader reaches the API server, the second one deletes the same request and creates the next one.
func TestTwoLeaders_LateDelete_KeepsTheNewRequest(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.Record()
		s.createUnhealthy("m-1")
		s.createCheck()
		leader, reached, release := s.StartBlocked(s.sendsRequest(http.MethodDelete))
		first := s.waitRequest("m-1")
		s.SetReady("m-1", corev1.ConditionTrue, 0)
		s.Eventually(reached).Should(BeClosed())
		newLeader := s.Start()
		s.Eventually(s.request("m-1")).Should(BeNil())
		s.FailNode("m-1")
		next := s.waitRequest("m-1")
		s.Expect(next.GetUID()).ToNot(Equal(first.GetUID()))
		release()
		leader.WaitIdle()
		newLeader.WaitIdle()
		s.Expect(s.waitRequest("m-1").GetUID()).To(Equal(next.GetUID()))
	})
}

// The events between two connections of a watch are not lost, whether it reconnects or has to list again.
func TestWatches_CutOrExpired_LoseNothing(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.Record()
		s.createTargets("m-1", "m-2")
		check := s.createCheck()
		c := s.Start()
		s.Eventually(check.healthy).Should(Equal(2))
		c.Watches().Cut()
		s.Annotate(s.target("m-1"), s.remediate, "yes")
		s.waitRequest("m-1")
		c.Watches().Expire()
		s.FailNode("m-2")
		s.waitRequest("m-2")
		// Only the watch of the requests shows that one is deleted.
		c.WaitIdle()
		c.Watches().Expire()
		s.SetReady("m-2", corev1.ConditionTrue, 0)
		s.Eventually(s.request("m-2")).Should(BeNil())
		s.Eventually(check.healthy, stage.OutcomeTimeout).Should(Equal(1), "the instance observes the deletion of the request")
	})
}

// An API server loses events, and its watches continue. The next event of the object heals the cache. Until then, nothing starts that live
// reads do not confirm.
func TestWatches_EventsLost_NextOnesHeal(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.Record()
		s.createTargets("m-1", "m-2")
		check := s.createCheck()
		c := s.Start()
		s.Eventually(check.healthy).Should(Equal(2))
		c.WaitIdle()
		lose := func(resource string, change func()) {
			before := c.Watches().Dropped(resource)
			c.Watches().Drop(resource)
			change()
			s.Eventually(func() int { return c.Watches().Dropped(resource) }).Should(BeNumerically(">", before))
			c.Watches().Release(resource)
		}
		lose(s.targets, func() { s.Annotate(s.target("m-1"), s.remediate, "yes") })
		s.Annotate(s.target("m-1"), "example.com/a", "b")
		s.waitRequest("m-1")

		// The pause comes with the event of the next status.
		lose(s.checks, func() { check.change(func(p parts) { p.PauseRequests = []string{"test"} }) })
		s.FailNode("m-2")
		s.Eventually(check.decision("m-2")).Should(HavePrefix("Blocked "))
		s.Expect(s.request("m-2")()).To(BeNil())
		check.endPause()
		s.waitRequest("m-2")
	})
}
