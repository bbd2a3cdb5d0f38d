// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"path"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// conditionTypes are all that a check has.
var conditionTypes = []string{
	remedyv1.ReadyCondition, remedyv1.RemediationAllowedCondition, remedyv1.PausedCondition,
	remedyv1.ClusterReachableCondition, remedyv1.TemplatesResolvedCondition, remedyv1.SelectorsDisjointCondition,
}

// relative is a time that would have to be written anew all the time.
var relative = regexp.MustCompile(`(?i)\bago\b|\bremaining\b|\bfrom now\b|\bin \d+(s|m|h|ms)\b|\bleft\b`)

// inspect looks at everything that was left behind on a stage: whatever the test was about, it has to make sense.
func (s *stage) inspect() {
	s.t.Helper()
	if s.t.Failed() {
		return
	}
	checks := s.checks()
	for i := range checks {
		s.inspectStatus(&checks[i])
	}
	for _, m := range s.machines() {
		s.inspectMachine(&m, checks)
	}
	for _, kind := range []remediator.Kind{remediator.Metal3, remediator.FenceAgents} {
		for _, request := range s.requests(kind) {
			made := request.GetAnnotations()[remedyv1.CheckAnnotation]
			s.Expect(slices.ContainsFunc(checks, func(c remedyv1.MachineHealthCheck) bool {
				return made == "MachineHealthCheck/"+c.Namespace+"/"+c.Name && controllerutil.ContainsFinalizer(&c, remedyv1.CleanupFinalizer)
			}) || made == "" || s.theirs(path.Base(made))).To(BeTrue(), "nobody would clean up %s", request.GetName())
		}
	}
}

func (s *stage) inspectStatus(check *remedyv1.MachineHealthCheck) {
	s.t.Helper()
	status := &check.Status
	paused := strings.HasPrefix(tells(remedyv1.PausedCondition)(check), "True")
	if !paused {
		s.Expect(status.ObservedGeneration).To(Equal(check.Generation), "observedGeneration of %s", check.Name)
		s.Expect(status.Conditions).To(HaveLen(len(conditionTypes)))
	}
	words := explain.Vocabulary()
	good := true
	for i := range status.Conditions {
		c := &status.Conditions[i]
		s.Expect(conditionTypes).To(ContainElement(c.Type))
		s.Expect(slices.ContainsFunc(words, func(w explain.Word) bool { return w.Reason == c.Reason && slices.Contains(w.Conditions, c.Type) })).
			To(BeTrue(), "%s is no declared reason of %s", c.Reason, c.Type)
		if !paused || c.Type == remedyv1.PausedCondition {
			s.Expect(c.ObservedGeneration).To(Equal(check.Generation))
		}
		s.inspectText(c.Message)
		fine := c.Status == metav1.ConditionTrue || c.Reason == remedyv1.ObservingReason || c.Reason == remedyv1.TooFewUnhealthyReason
		if c.Type == remedyv1.PausedCondition {
			fine = c.Status == metav1.ConditionFalse
		}
		good = good && (fine || c.Type == remedyv1.ReadyCondition)
	}
	if strings.HasPrefix(tells(remedyv1.ReadyCondition)(check), "True") && !paused {
		s.Expect(good).To(BeTrue(), "ready, and yet something is in the way")
	}
	s.inspectTargets(status, words)
}

func (s *stage) inspectTargets(status *remedyv1.MachineHealthCheckStatus, words []explain.Word) {
	s.t.Helper()
	known := func(reason string) bool {
		return slices.ContainsFunc(words, func(w explain.Word) bool { return w.Reason == reason })
	}
	s.Expect(len(status.UnhealthyTargets)).To(BeNumerically("<=", 100))
	s.Expect(len(status.RecentRemediations)).To(BeNumerically("<=", 10))
	s.Expect(len(status.Targets)).To(BeNumerically("<=", 1000))
	s.Expect(slices.IsSortedFunc(status.UnhealthyTargets, func(a, b remedyv1.UnhealthyTarget) int { return strings.Compare(a.Name, b.Name) })).To(BeTrue())
	for i := range status.UnhealthyTargets {
		t := &status.UnhealthyTargets[i]
		s.Expect(known(string(t.Reason))).To(BeTrue(), "reason %s of %s", t.Reason, t.Name)
		s.Expect(t.HoldReason != "").To(Equal(t.Decision == remedyv1.Held || t.HoldReason == "Observing"), "%s: %s %s", t.Name, t.Decision, t.HoldReason)
		s.Expect(t.HoldReason == "" || known(string(t.HoldReason))).To(BeTrue(), "hold %s of %s", t.HoldReason, t.Name)
		s.inspectText(t.Message)
	}
	if status.CurrentHealthy == nil {
		return
	}
	s.Expect(*status.CurrentHealthy).To(BeNumerically("<=", *status.ExpectedMachines))
	s.Expect(int(*status.UnhealthyTargetsTotal)).To(BeNumerically(">=", len(status.UnhealthyTargets)))
	s.Expect(*status.Held).To(BeNumerically("<=", *status.Unhealthy))
}

func (s *stage) inspectText(text string) {
	s.t.Helper()
	s.Expect(len(text)).To(BeNumerically("<=", 2048))
	s.Expect(text).ToNot(MatchRegexp(relative.String()))
}

// theirs says whether there is a check of Cluster API of this name. What is left of it when it is given back is cleared by Cluster API's own controller.
func (s *stage) theirs(check string) bool {
	return slices.ContainsFunc(s.cores(), func(c clusterv1.MachineHealthCheck) bool { return c.Name == check })
}

// inspectMachine: what stands on a Machine has an author that is there, and both generations of conditions agree.
func (s *stage) inspectMachine(m *clusterv1.Machine, checks []remedyv1.MachineHealthCheck) {
	s.t.Helper()
	if author := notes.Author(m.Annotations); author != "" {
		s.Expect(slices.ContainsFunc(checks, func(c remedyv1.MachineHealthCheck) bool {
			return author == "MachineHealthCheck/"+c.Name && controllerutil.ContainsFinalizer(&c, remedyv1.CleanupFinalizer)
		}) || s.theirs(path.Base(author))).To(BeTrue(), "nobody would clear the marks of %s on %s", author, m.Name)
	}
	modern, older := conditions.Get(m, explain.HealthCheckSucceeded), deprecated.Get(m, explain.HealthCheckSucceeded)
	s.Expect(modern == nil).To(Equal(older == nil), "HealthCheckSucceeded of %s in both generations", m.Name)
	if modern != nil {
		s.Expect(string(modern.Status)).To(Equal(string(older.Status)))
		s.inspectText(modern.Message)
		// What a check of Cluster API says when it is given back, its own controller goes on to say.
		if modern.Status == metav1.ConditionFalse && len(s.cores()) == 0 {
			s.Expect(notes.Author(m.Annotations)).ToNot(BeEmpty(), "%s is said to be unhealthy by nobody", m.Name)
		}
	}
}
