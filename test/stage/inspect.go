// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

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

// conditionTypes are all conditions of a check.
var conditionTypes = []string{
	remedyv1.ReadyCondition, remedyv1.RemediationAllowedCondition, remedyv1.PausedCondition,
	remedyv1.ClusterReachableCondition, remedyv1.TemplatesResolvedCondition, remedyv1.SelectorsDisjointCondition,
}

// relativeTime matches a relative time, which would have to be updated all the time.
var relativeTime = regexp.MustCompile(`(?i)\bago\b|\bremaining\b|\bfrom now\b|\bin \d+(s|m|h|ms)\b|\bleft\b`)

// inspect verifies what every test has to leave behind: consistent status, and an existing check for each annotation and request.
func (s *Stage) inspect() {
	s.T.Helper()
	if s.T.Failed() {
		return
	}
	checks := s.Checks()
	for i := range checks {
		s.inspectStatus(&checks[i])
	}
	for _, m := range s.Machines() {
		s.inspectMachine(&m, checks)
	}
	nodeChecks := s.reconciled()
	for i := range nodeChecks {
		s.inspectStatus(asMachineCheck(&nodeChecks[i]))
	}
	for _, kind := range remediator.Kinds() {
		for _, request := range s.Requests(kind) {
			if _, elsewhere := request.GetLabels()[remedyv1.CheckLabel]; elsewhere {
				// A manager of another cluster has created it.
				continue
			}
			made := request.GetAnnotations()[remedyv1.CheckAnnotation]
			s.Expect(slices.ContainsFunc(checks, func(c remedyv1.MachineHealthCheck) bool {
				return made == "MachineHealthCheck/"+c.Namespace+"/"+c.Name && controllerutil.ContainsFinalizer(&c, remedyv1.CleanupFinalizer)
			}) || slices.ContainsFunc(nodeChecks, func(c remedyv1.NodeHealthCheck) bool {
				return made == "NodeHealthCheck//"+c.Name && controllerutil.ContainsFinalizer(&c, remedyv1.CleanupFinalizer)
			}) || made == "" || s.isInTree(path.Base(made))).To(BeTrue(), "no check would clean up %s", request.GetName())
		}
	}
}

func (s *Stage) inspectStatus(check *remedyv1.MachineHealthCheck) {
	s.T.Helper()
	status := &check.Status
	paused := strings.HasPrefix(CheckCondition(remedyv1.PausedCondition)(check), "True")
	if !paused {
		s.Expect(status.ObservedGeneration).To(Equal(check.Generation), "observedGeneration of %s", check.Name)
		s.Expect(status.Conditions).To(HaveLen(len(conditionTypes)))
	}
	words := explain.Reasons()
	// Ready is False only if a person has to act.
	intended := regexp.MustCompile("^(ObserveMode|TooFewUnhealthy|Paused|PauseRequested|Storm|CheckDeleting|ClusterDeleting)$")
	good := true
	for i := range status.Conditions {
		c := &status.Conditions[i]
		s.Expect(conditionTypes).To(ContainElement(c.Type))
		// Ready has the reason of another condition, or one of its own. While the check is paused, it stays as it was.
		declared := c.Type == remedyv1.ReadyCondition && (paused || slices.ContainsFunc(status.Conditions, func(other metav1.Condition) bool {
			return other.Type != c.Type && other.Status == c.Status && other.Reason == c.Reason
		})) || slices.ContainsFunc(words, func(w explain.Reason) bool { return w.Name == c.Reason && slices.Contains(w.Conditions, c.Type) })
		s.Expect(declared).To(BeTrue(), "%s is not a declared reason of %s", c.Reason, c.Type)
		if !paused || c.Type == remedyv1.PausedCondition {
			s.Expect(c.ObservedGeneration).To(Equal(check.Generation))
		}
		s.inspectText(c.Message)
		// A pause that leaves too few targets is intended.
		fine := c.Status == metav1.ConditionTrue || intended.MatchString(c.Reason) ||
			c.Reason == remedyv1.LimitIsZeroReason && strings.Contains(c.Message, "paused or skipped by an annotation")
		if c.Type == remedyv1.PausedCondition {
			fine = c.Status == metav1.ConditionFalse
		}
		good = good && (fine || c.Type == remedyv1.ReadyCondition)
	}
	if strings.HasPrefix(CheckCondition(remedyv1.ReadyCondition)(check), "True") && !paused {
		s.Expect(good).To(BeTrue(), "Ready is True, and the reason of another condition needs action")
	}
	s.inspectTargets(status, words)
}

func (s *Stage) inspectTargets(status *remedyv1.MachineHealthCheckStatus, words []explain.Reason) {
	s.T.Helper()
	known := func(reason string) bool {
		return slices.ContainsFunc(words, func(w explain.Reason) bool { return w.Name == reason })
	}
	s.Expect(len(status.UnhealthyTargets)).To(BeNumerically("<=", 100))
	s.Expect(len(status.RecentRemediations)).To(BeNumerically("<=", 10))
	s.Expect(len(status.Targets)).To(BeNumerically("<=", 1000))
	s.Expect(slices.IsSortedFunc(status.UnhealthyTargets, func(a, b remedyv1.UnhealthyTarget) int { return strings.Compare(a.Name, b.Name) })).
		To(BeTrue())
	for i := range status.UnhealthyTargets {
		t := &status.UnhealthyTargets[i]
		s.Expect(known(string(t.Reason))).To(BeTrue(), "reason %s of %s", t.Reason, t.Name)
		s.Expect(t.BlockedReason != "").
			To(Equal(t.Decision == remedyv1.Blocked || t.BlockedReason == "ObserveMode"), "%s: %s %s", t.Name, t.Decision, t.BlockedReason)
		s.Expect(t.BlockedReason == "" || known(string(t.BlockedReason))).To(BeTrue(), "hold %s of %s", t.BlockedReason, t.Name)
		s.inspectText(t.Message)
	}
	if status.CurrentHealthy == nil {
		return
	}
	s.Expect(*status.CurrentHealthy).To(BeNumerically("<=", *status.ExpectedMachines))
	s.Expect(int(*status.UnhealthyTargetsTotal)).To(BeNumerically(">=", len(status.UnhealthyTargets)))
	s.Expect(*status.Blocked).To(BeNumerically("<=", *status.Unhealthy))
}

func (s *Stage) inspectText(text string) {
	s.T.Helper()
	s.Expect(len(text)).To(BeNumerically("<=", 2048))
	s.Expect(text).ToNot(MatchRegexp(relativeTime.String()))
}

// isInTree reports whether an in-tree check has this name. Cluster API's controller clears what is left of one that was released.
func (s *Stage) isInTree(check string) bool {
	return slices.ContainsFunc(s.InTreeChecks(), func(c clusterv1.MachineHealthCheck) bool { return c.Name == check })
}

// inspectMachine verifies that the responsible check of a Machine exists, and that both generations of conditions agree.
func (s *Stage) inspectMachine(m *clusterv1.Machine, checks []remedyv1.MachineHealthCheck) {
	s.T.Helper()
	if author := notes.ResponsibleCheck(m.Annotations); author != "" {
		s.Expect(slices.ContainsFunc(checks, func(c remedyv1.MachineHealthCheck) bool {
			return author == "MachineHealthCheck/"+c.Name && controllerutil.ContainsFinalizer(&c, remedyv1.CleanupFinalizer)
		}) || s.isInTree(path.Base(author))).To(BeTrue(), "the annotations of %s on %s have no check", author, m.Name)
	}
	modern, older := conditions.Get(m, explain.HealthCheckSucceeded), deprecated.Get(m, explain.HealthCheckSucceeded)
	s.Expect(modern == nil).To(Equal(older == nil), "HealthCheckSucceeded of %s in both generations", m.Name)
	if modern != nil {
		s.Expect(string(modern.Status)).To(Equal(string(older.Status)))
		s.inspectText(modern.Message)
		// The in-tree controller keeps the conditions of a check that was released.
		if modern.Status == metav1.ConditionFalse && len(s.InTreeChecks()) == 0 {
			s.Expect(notes.ResponsibleCheck(m.Annotations)).ToNot(BeEmpty(), "unhealthy Machine %s has no responsible check", m.Name)
		}
	}
}
