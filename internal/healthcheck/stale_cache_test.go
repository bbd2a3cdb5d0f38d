// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// createdOnce says whether no request was made twice, by anybody.
func createdOnce(s *stage.Stage, controllers ...*stage.Instance) {
	s.T.Helper()
	made := map[string]int{}
	for _, c := range controllers {
		for _, w := range c.Writes() {
			if w.Verb == "create" && w.Landed() {
				made[w.Resource+" "+w.Name]++
			}
		}
	}
	s.Expect(made).To(HaveEach(1))
}

// TestTwoLeadersAtOnceMakeNoRequestTwice: the first has looked for the last time and is about to write, and hears of nothing that the
// second one does meanwhile.
func TestTwoLeadersAtOnceMakeNoRequestTwice(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.Record()
	for _, name := range []string{"m-1", "m-2", "m-3"} {
		s.CreateUnhealthyMachine(name)
	}
	s.CreateCheck("workers", stage.ByNewTemplate(s), stage.MaxInFlight(2))
	one, about, goOn := s.StartBlocked(stage.CreatesRequest)
	s.Eventually(about).Should(BeClosed())
	two := s.Start()
	s.Eventually(func() int { return len(s.Requests(remediator.Metal3)) }).Should(Equal(2))
	made := s.Requests(remediator.Metal3)
	goOn()
	one.WaitIdle()
	two.WaitIdle()
	s.Expect(s.Requests(remediator.Metal3)).To(Equal(made), "they are as they were made, and no others")
	createdOnce(s, one, two)
}

func TestErrorsOfTheAPIServerDelayAndNothingElse(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.Record()
	sick := s.CreateMachine("m-1")
	s.CreateMachine("m-2")
	check := s.CreateCheck("workers", stage.BySteps(s.CreateTemplate(remediator.FenceAgents, "soft"), nil))
	c := s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(2)))
	s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.SetReady("m-2", corev1.ConditionUnknown, 10*time.Minute)
	// By this seed, the word to stop is among what is refused.
	c.Trouble(faults.Trouble{Seed: 5, Names: []string{s.Namespace}, Chance: 0.2, Reads: true})
	// What was refused is tried again after a while, or when anything happens: so something does.
	s.Eventually(func() int {
		s.Wake()
		return len(s.Requests(remediator.FenceAgents))
	}).Should(Equal(2))
	s.Remediate(remediator.FenceAgents, remediator.Fails)
	s.Eventually(func() string {
		s.Wake()
		s.Remediate(remediator.FenceAgents, remediator.Fails)
		return stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, sick)())
	}).Should(Equal(stage.OwnerRequested))
	c.Trouble(faults.Trouble{})
	s.Eventually(func() int {
		s.Wake()
		s.Remediate(remediator.FenceAgents, remediator.Fails)
		return len(s.Requests(remediator.FenceAgents))
	}).Should(BeZero())
	createdOnce(s, c)
}

// TestAStaleCacheStartsNothing: something about the Machine has changed, and the controller has not heard of it; the live look has.
func TestAStaleCacheStartsNothing(t *testing.T) {
	t.Parallel()
	for change, do := range map[string]func(*stage.Stage, *clusterv1.Machine){
		"it was exempted": func(s *stage.Stage, m *clusterv1.Machine) {
			s.Annotate(m, clusterv1.MachineSkipRemediationAnnotation, "yes")
		},
		"the check does not select it any more": func(s *stage.Stage, m *clusterv1.Machine) {
			s.Change(m, func() { m.Labels["pool"] = "another" })
		},
	} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			s.Record()
			m := s.CreateUnhealthyMachine("m-1")
			check := s.CreateCheck(
				"workers",
				stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft")),
				func(spec *remedyv1.MachineHealthCheckSpec) { spec.PauseRequests = []string{"not yet"} },
			)
			c := s.Start()
			// It is signed already, so that no write to the Machine comes before the request.
			s.Eventually(func() string { return notes.Author(stage.Get(s, m)().Annotations) }).Should(Equal("MachineHealthCheck/workers"))
			c.WaitIdle()
			c.Watches().Hold("machines.cluster.x-k8s.io")
			do(s, m)
			s.Eventually(func() int { return c.Watches().HeldBack("machines.cluster.x-k8s.io") }).Should(BeNumerically(">=", 1))
			s.Change(check, func() { check.Spec.PauseRequests = nil })
			s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).
				Should(WithTransform(stage.Decision("m-1"), Equal("Held NotConfirmed")), "nothing begins")
			s.Expect(s.Requests(remediator.Metal3)).To(BeEmpty())
			c.Watches().Release()
			c.WaitIdle()
			s.Expect(s.Requests(remediator.Metal3)).To(BeEmpty())
		})
	}
}

// TestWhatIsRefusedIsTriedAgainByItself: a write does not succeed at once, and nothing else happens that would make anybody look again.
func TestWhatIsRefusedIsTriedAgainByItself(t *testing.T) {
	t.Parallel()
	for what, write := range map[string]func(faults.Write) bool{
		"how it is": func(w faults.Write) bool { return w.Resource == "machines" && w.Subresource == "status" },
		"who signs": func(w faults.Write) bool { return w.Resource == "machines" && w.Subresource == "" },
		"a request": func(w faults.Write) bool { return w.Resource == remediator.Metal3.Plural },
		"a status":  func(w faults.Write) bool { return w.Resource == "machinehealthchecks" && w.Subresource == "status" },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			s.Record()
			m := s.CreateUnhealthyMachine("m-1")
			check := s.CreateCheck("workers", stage.ByNewTemplate(s))
			process := faults.Start(s.Ctx)
			met := make([]<-chan faults.Write, 3)
			for n := range met {
				var err error
				met[n], err = process.FailWriteOf(write, n+1, faults.Refuse)
				s.Expect(err).ToNot(HaveOccurred())
			}
			c, err := s.StartAs(process, s.User())
			s.Expect(err).ToNot(HaveOccurred())
			t.Cleanup(c.StopIdle)
			s.Eventually(met[0]).Should(Receive())
			for n, again := range met[1:] {
				s.Eventually(again, stage.OutcomeTimeout).Should(Receive(), "try %d", n+2)
			}
			s.WaitRequest(remediator.Metal3, "m-1")
			s.Eventually(stage.Get(s, m), stage.OutcomeTimeout).
				Should(WithTransform(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition), HavePrefix("False")))
			s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).Should(WithTransform(stage.Decision("m-1"), Equal("Remediating ")))
		})
	}
}

// TestADeletionThatComesLateIsAboutTheRequestThatItWasMeantFor: another leader has deleted that one meanwhile, and made the next.
func TestADeletionThatComesLateIsAboutTheRequestThatItWasMeantFor(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.Record()
	s.CreateUnhealthyMachine("m-1")
	s.CreateCheck("workers", stage.ByNewTemplate(s))
	one, about, goOn := s.StartBlocked(func(r *http.Request, _ string) bool {
		return r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/metal3remediations/")
	})
	first := s.WaitRequest(remediator.Metal3, "m-1")
	s.SetReady("m-1", corev1.ConditionTrue, 0)
	s.Eventually(about).Should(BeClosed())
	two := s.Start()
	s.Eventually(s.Request(remediator.Metal3, "m-1")).Should(BeNil())
	s.FailNode("m-1")
	next := s.WaitRequest(remediator.Metal3, "m-1")
	s.Expect(next.GetUID()).ToNot(Equal(first.GetUID()))
	goOn()
	one.WaitIdle()
	two.WaitIdle()
	s.Expect(s.WaitRequest(remediator.Metal3, "m-1").GetUID()).To(Equal(next.GetUID()))
}

func TestWatchesThatAreCutOrExpireLoseNothing(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.Record()
	m, other := s.CreateMachine("m-1"), s.CreateMachine("m-2")
	check := s.CreateCheck("workers", stage.ByNewTemplate(s))
	c := s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(2)))
	c.Watches().Cut()
	s.Annotate(m, clusterv1.RemediateMachineAnnotation, "yes")
	s.WaitRequest(remediator.Metal3, "m-1")
	c.Watches().Expire()
	s.FailNode("m-2")
	s.WaitRequest(remediator.Metal3, "m-2")
	// A request that goes is told by its own watch only.
	c.WaitIdle()
	c.Watches().Expire()
	s.SetReady("m-2", corev1.ConditionTrue, 0)
	s.Eventually(s.Request(remediator.Metal3, "m-2")).Should(BeNil())
	remediating := func(check *remedyv1.MachineHealthCheck) int32 { return *check.Status.Remediating }
	s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).
		Should(WithTransform(remediating, BeEquivalentTo(1)), "the end of a request is heard")
	s.Eventually(stage.Get(s, other)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition), Equal(stage.IsHealthy)))
}
