// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

func TestRemediationEvents_StartAndEnd_NameStepAndReason(t *testing.T) {
	g := NewWithT(t)
	step := remediation.StepID{Order: 2, Template: "FenceAgentsRemediationTemplate/hard"}
	g.Expect(Started("m-1", step, 3, false)).To(Equal(Event{
		"Normal", "RemediationStarted", StartRemediation,
		"m-1: Created the request of step 2 (FenceAgentsRemediationTemplate/hard), attempt 3",
	}))
	g.Expect(Started("m-1", remediation.StepID{}, 0, true)).To(Equal(Event{
		"Normal", "RemediationStarted", StartRemediation, "m-1: Requested remediation by its owner",
	}))
	g.Expect(Ended("m-1", step, false, remediation.StepTimedOut)).To(Equal(Event{
		"Warning", "StepTimedOut", EndRemediation,
		"m-1: Remediation by the request of step 2 (FenceAgentsRemediationTemplate/hard) ended because the step timed out",
	}))
	g.Expect(Ended("m-1", remediation.StepID{}, true, Replaced)).To(Equal(Event{
		"Normal", "Replaced", EndRemediation, "m-1: Remediation by its owner ended because the target was deleted",
	}))
	g.Expect(Ended("m-1", remediation.StepID{}, true, remediation.OwnerRefuses)).To(Equal(Event{
		"Warning", "OwnerRefuses", EndRemediation, "m-1: Remediation by its owner ended because the owner cannot remediate the target",
	}))
	g.Expect(Ended("m-1", remediation.StepID{}, false, Withdrawn)).To(Equal(Event{
		"Normal", "Withdrawn", EndRemediation, "m-1: Remediation by the request ended because another client canceled it",
	}))
}

func TestConditionEvents_Transitions_AreReportedOnce(t *testing.T) {
	g := NewWithT(t)
	c := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "why"}
	}
	allowed, closed := c(remedyv1.RemediationAllowedCondition, metav1.ConditionTrue, "RemediationAllowed"),
		c(remedyv1.RemediationAllowedCondition, metav1.ConditionFalse, "TooManyUnhealthy")
	paused, free := c(remedyv1.PausedCondition, metav1.ConditionTrue, "Paused"),
		c(remedyv1.PausedCondition, metav1.ConditionFalse, "NotPaused")
	observes, again := c(remedyv1.RemediationAllowedCondition, metav1.ConditionFalse, "ObserveMode"),
		c(remedyv1.ClusterReachableCondition, metav1.ConditionUnknown, "Reconnecting")
	ready := c(remedyv1.ReadyCondition, metav1.ConditionFalse, "TooManyUnhealthy")
	tell := func(before, after []metav1.Condition) []string {
		events := ConditionEvents(before, after)
		told := make([]string, 0, len(events))
		for _, e := range events {
			told = append(told, e.Type+" "+e.Reason+", "+e.Message)
		}
		return told
	}
	all := func(conditions ...metav1.Condition) []metav1.Condition { return conditions }
	g.Expect(tell(nil, all(allowed, free))).To(BeEmpty(), "a new check without failures")
	g.Expect(tell(nil, all(closed, ready))).To(Equal([]string{"Warning TooManyUnhealthy, RemediationAllowed became False: why"}),
		"a new check with a failure")
	g.Expect(tell(all(closed), all(closed))).To(BeEmpty(), "a state that lasts is no event")
	g.Expect(tell(all(closed), all(allowed))).To(Equal([]string{"Normal RemediationAllowed, RemediationAllowed became True: why"}))
	g.Expect(tell(all(free), all(paused))).To(Equal([]string{"Normal Paused, Paused became True: why"}))
	g.Expect(tell(all(allowed), all(c(remedyv1.RemediationAllowedCondition, metav1.ConditionFalse, "Paused")))).To(BeEmpty(),
		"the condition Paused has the event")
	g.Expect(tell(all(paused), all(free))).To(Equal([]string{"Normal NotPaused, Paused became False: why"}))
	g.Expect(tell(nil, all(observes))).To(BeEmpty(), "configured")
	g.Expect(tell(all(allowed), all(observes))).To(Equal([]string{"Normal ObserveMode, RemediationAllowed became False: why"}))
	held := func(reason string) []metav1.Condition {
		return all(c(remedyv1.RemediationAllowedCondition, metav1.ConditionFalse, reason))
	}
	for _, row := range []struct {
		why           string
		before, after []metav1.Condition
		tells         string
	}{
		{"unpaused with a failure", held("Paused"), held("TooManyUnhealthy"), "Warning TooManyUnhealthy"},
		{"another failure", held("ClusterUnreachable"), held("TooManyUnhealthy"), "Warning TooManyUnhealthy"},
		{"adoption is contested", held("WaitingForHandover"), held("PauseConflict"), "Warning PauseConflict"},
		{"storm abates", held("TooManyUnhealthy"), held("Storm"), ""},
		{"storm returns", held("Storm"), held("TooManyUnhealthy"), "Warning TooManyUnhealthy"},
		{"paused", held("TooManyUnhealthy"), held("Paused"), ""},
		{"check deleted", all(allowed), held("CheckDeleting"), "Normal CheckDeleting"},
		{"blocked check deleted", held("TooManyUnhealthy"), held("CheckDeleting"), ""},
		{"Cluster deleted", all(allowed), held("ClusterDeleting"), "Normal ClusterDeleting"},
		{"pause requested", all(allowed), held("PauseRequested"), "Normal PauseRequested"},
		{"Cluster missing", all(allowed), held("ClusterNotFound"), "Warning ClusterNotFound"},
		{
			"no control plane yet", nil, all(c(remedyv1.ClusterReachableCondition, metav1.ConditionUnknown, "ControlPlaneNotInitialized")),
			"Normal ControlPlaneNotInitialized",
		},
		{
			"reached, unreadable", all(c(remedyv1.ClusterReachableCondition, metav1.ConditionFalse, "ClusterUnreachable")),
			all(c(remedyv1.ClusterReachableCondition, metav1.ConditionFalse, "NodesUnreadable")), "Warning NodesUnreadable",
		},
		{
			"another good reason", all(c(remedyv1.TemplatesResolvedCondition, metav1.ConditionTrue, "NoTemplates")),
			all(c(remedyv1.TemplatesResolvedCondition, metav1.ConditionTrue, "TemplatesResolved")), "",
		},
	} {
		g.Expect(strings.Join(tell(row.before, row.after), "; ")).To(HavePrefix(row.tells), row.why)
		g.Expect(tell(row.before, row.after)).To(HaveLen(len(strings.Fields(row.tells))/2), row.why)
	}
	g.Expect(tell(nil, all(again))).To(Equal([]string{"Normal Reconnecting, ClusterReachable became Unknown: why"}))
}
