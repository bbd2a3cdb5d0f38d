// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

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
)

// createdOnce says whether no request was made twice, by anybody.
func createdOnce(s *stage, controllers ...*controller) {
	s.t.Helper()
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

// TestTwoLeadersAtOnceMakeNoRequestTwice: the first has looked for the last time and is about to write, and hears of nothing that the second one
// does meanwhile.
func TestTwoLeadersAtOnceMakeNoRequestTwice(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.audited()
	for _, name := range []string{"m-1", "m-2", "m-3"} {
		s.sick(name)
	}
	s.check("workers", byTemplate(s), atOnce(2))
	one, about, goOn := s.startBraked(requestMade)
	s.Eventually(about).Should(BeClosed())
	two := s.start()
	s.Eventually(func() int { return len(s.requests(remediator.Metal3)) }).Should(Equal(2))
	made := s.requests(remediator.Metal3)
	goOn()
	one.settle()
	two.settle()
	s.Expect(s.requests(remediator.Metal3)).To(Equal(made), "they are as they were made, and no others")
	createdOnce(s, one, two)
}

func TestErrorsOfTheAPIServerDelayAndNothingElse(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.audited()
	sick := s.machine("m-1")
	s.machine("m-2")
	check := s.check("workers", steps(s.template(remediator.FenceAgents, "soft"), nil))
	c := s.start()
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(2)))
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.ready("m-2", corev1.ConditionUnknown, 10*time.Minute)
	// By this seed, the word to stop is among what is refused.
	c.Trouble(faults.Trouble{Seed: 5, Names: []string{s.namespace}, Chance: 0.2, Reads: true})
	// What was refused is tried again after a while, or when anything happens: so something does.
	s.Eventually(func() int {
		s.nudge()
		return len(s.requests(remediator.FenceAgents))
	}).Should(Equal(2))
	s.acts(remediator.FenceAgents, remediator.Fails)
	s.Eventually(func() string {
		s.nudge()
		s.acts(remediator.FenceAgents, remediator.Fails)
		return says(clusterv1.MachineOwnerRemediatedCondition)(get(s, sick)())
	}).Should(Equal(marked))
	c.Trouble(faults.Trouble{})
	s.Eventually(func() int {
		s.nudge()
		s.acts(remediator.FenceAgents, remediator.Fails)
		return len(s.requests(remediator.FenceAgents))
	}).Should(BeZero())
	createdOnce(s, c)
}

// TestAStaleCacheStartsNothing: something about the Machine has changed, and the controller has not heard of it; the live look has.
func TestAStaleCacheStartsNothing(t *testing.T) {
	t.Parallel()
	for change, do := range map[string]func(*stage, *clusterv1.Machine){
		"it was exempted": func(s *stage, m *clusterv1.Machine) {
			s.annotate(m, clusterv1.MachineSkipRemediationAnnotation, "yes")
		},
		"the check does not select it any more": func(s *stage, m *clusterv1.Machine) {
			s.change(m, func() { m.Labels["pool"] = "another" })
		},
	} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.audited()
			m := s.sick("m-1")
			check := s.check("workers", by(s.template(remediator.Metal3, "soft")), func(spec *remedyv1.MachineHealthCheckSpec) { spec.PauseRequests = []string{"not yet"} })
			c := s.start()
			// It is signed already, so that no write to the Machine comes before the request.
			s.Eventually(func() string { return notes.Author(get(s, m)().Annotations) }).Should(Equal("MachineHealthCheck/workers"))
			c.settle()
			c.Watches().Hold("machines.cluster.x-k8s.io")
			do(s, m)
			s.Eventually(func() int { return c.Watches().HeldBack("machines.cluster.x-k8s.io") }).Should(BeNumerically(">=", 1))
			s.change(check, func() { check.Spec.PauseRequests = nil })
			s.Eventually(get(s, check), suspense).Should(WithTransform(holds("m-1"), Equal("Held NotConfirmed")), "nothing begins")
			s.Expect(s.requests(remediator.Metal3)).To(BeEmpty())
			c.Watches().Release()
			c.settle()
			s.Expect(s.requests(remediator.Metal3)).To(BeEmpty())
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
			s := newStage(t)
			s.audited()
			m := s.sick("m-1")
			check := s.check("workers", byTemplate(s))
			process := faults.Start(s.ctx)
			met := make([]<-chan faults.Write, 3)
			for n := range met {
				var err error
				met[n], err = process.FailWriteOf(write, n+1, faults.Refuse)
				s.Expect(err).ToNot(HaveOccurred())
			}
			c, err := s.startAs(process, s.user())
			s.Expect(err).ToNot(HaveOccurred())
			t.Cleanup(c.leave)
			s.Eventually(met[0]).Should(Receive())
			for n, again := range met[1:] {
				s.Eventually(again, suspense).Should(Receive(), "try %d", n+2)
			}
			s.requested(remediator.Metal3, "m-1")
			s.Eventually(get(s, m), suspense).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), HavePrefix("False")))
			s.Eventually(get(s, check), suspense).Should(WithTransform(holds("m-1"), Equal("Remediating ")))
		})
	}
}

// TestADeletionThatComesLateIsAboutTheRequestThatItWasMeantFor: another leader has deleted that one meanwhile, and made the next.
func TestADeletionThatComesLateIsAboutTheRequestThatItWasMeantFor(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.audited()
	s.sick("m-1")
	s.check("workers", byTemplate(s))
	one, about, goOn := s.startBraked(func(r *http.Request, _ string) bool {
		return r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/metal3remediations/")
	})
	first := s.requested(remediator.Metal3, "m-1")
	s.ready("m-1", corev1.ConditionTrue, 0)
	s.Eventually(about).Should(BeClosed())
	two := s.start()
	s.Eventually(s.request(remediator.Metal3, "m-1")).Should(BeNil())
	s.fails("m-1")
	next := s.requested(remediator.Metal3, "m-1")
	s.Expect(next.GetUID()).ToNot(Equal(first.GetUID()))
	goOn()
	one.settle()
	two.settle()
	s.Expect(s.requested(remediator.Metal3, "m-1").GetUID()).To(Equal(next.GetUID()))
}

func TestWatchesThatAreCutOrExpireLoseNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.audited()
	m, other := s.machine("m-1"), s.machine("m-2")
	check := s.check("workers", byTemplate(s))
	c := s.start()
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(2)))
	c.Watches().Cut()
	s.annotate(m, clusterv1.RemediateMachineAnnotation, "yes")
	s.requested(remediator.Metal3, "m-1")
	c.Watches().Expire()
	s.fails("m-2")
	s.requested(remediator.Metal3, "m-2")
	// A request that goes is told by its own watch only.
	c.settle()
	c.Watches().Expire()
	s.ready("m-2", corev1.ConditionTrue, 0)
	s.Eventually(s.request(remediator.Metal3, "m-2")).Should(BeNil())
	remediating := func(check *remedyv1.MachineHealthCheck) int32 { return *check.Status.Remediating }
	s.Eventually(get(s, check), suspense).Should(WithTransform(remediating, BeEquivalentTo(1)), "the end of a request is heard")
	s.Eventually(get(s, other)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal(isWell)))
}
