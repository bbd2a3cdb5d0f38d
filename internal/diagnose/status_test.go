// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

func is(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason}
}

func inTreeCheck(pause string, conditions ...metav1.Condition) *clusterv1.MachineHealthCheck {
	check := &clusterv1.MachineHealthCheck{}
	check.Namespace, check.Name, check.Status.Conditions = "team-a", "workers", conditions
	if pause != "" {
		check.Annotations = map[string]string{clusterv1.PausedAnnotation: pause}
	}
	return check
}

func TestStatusOf_InTreeCheck_ReportsWhatNeedsAPerson(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	allowed := is(remedyv1.RemediationAllowedCondition, yes, remedyv1.RemediationAllowedReason)
	adopted := is(remedyv1.AdoptedCondition, yes, remedyv1.AdoptedReason)
	paused := is(remedyv1.PausedCondition, yes, remedyv1.PausedReason)
	ready := is(remedyv1.ReadyCondition, yes, remedyv1.ReadyReason)
	adoptedIs := func(reason string) metav1.Condition { return is(remedyv1.AdoptedCondition, no, reason) }
	for name, test := range map[string]struct {
		check *clusterv1.MachineHealthCheck
		want  string
	}{
		"not adopted":       {inTreeCheck("", allowed), "True RemediationAllowed"},
		"not adopted, full": {inTreeCheck("", is(allowed.Type, no, "TooManyUnhealthy")), "False TooManyUnhealthy"},
		"paused by a user":  {inTreeCheck("user", allowed, paused, adoptedIs(remedyv1.PausedByOthersReason)), "True Paused"},
		"adopted":           {inTreeCheck(remedyv1.Pause, adopted, ready, paused, allowed), "True Ready"},
		"template missing": {
			inTreeCheck(remedyv1.Pause, adopted, is(remedyv1.ReadyCondition, no, "TemplateNotFound"), paused, allowed), "False TemplateNotFound",
		},
		"not acknowledged": {
			inTreeCheck(remedyv1.Pause, adoptedIs(remedyv1.WaitingForHandoverReason), allowed), "False WaitingForHandover",
		},
		"unpaused by a tool": {inTreeCheck("", adoptedIs(remedyv1.PauseConflictReason), allowed), "False PauseConflict"},
		"observed": {
			inTreeCheck(remedyv1.Pause, adoptedIs(remedyv1.OnlyObservedReason), ready, paused, allowed), "True Ready Observe",
		},
		"new": {inTreeCheck(""), "Unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			s := statusOf(test.check)
			NewWithT(t).Expect(strings.TrimSpace(s.Ready + " " + s.Reason + " " + string(s.Mode))).To(Equal(test.want))
		})
	}
}

// scripted is an API server whose watches end after each event.
type scripted struct {
	client.WithWatch
	events map[string][]watch.Event
}

func (s *scripted) Watch(ctx context.Context, list client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
	kind := "none"
	if _, inTree := list.(*clusterv1.MachineHealthCheckList); inTree {
		kind = inTreeKind
	}
	if len(s.events[kind]) == 0 {
		w := watch.NewFake()
		context.AfterFunc(ctx, w.Stop)
		return w, nil
	}
	w := watch.NewFakeWithChanSize(1, false)
	w.Action(s.events[kind][0].Type, s.events[kind][0].Object)
	w.Stop()
	s.events[kind] = s.events[kind][1:]
	return w, nil
}

// A line is printed for each change, also of an in-tree check and after the API server has ended a watch, and none for an unchanged check.
func TestWatch_EndedByTheServer_Continues(t *testing.T) {
	g := NewWithT(t)
	before := inTreeCheck(remedyv1.Pause, is(remedyv1.ReadyCondition, metav1.ConditionTrue, remedyv1.ReadyReason))
	after := inTreeCheck(remedyv1.Pause, is(remedyv1.ReadyCondition, metav1.ConditionFalse, "TemplateNotFound"))
	c := &Cluster{client: &scripted{events: map[string][]watch.Event{
		inTreeKind: {{Type: watch.Added, Object: before}, {Type: watch.Added, Object: before}, {Type: watch.Added, Object: after}},
	}}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var lines []string
	g.Expect(c.Watch(ctx, "team-a", func(why string) { t.Error(why) }, func(s *CheckStatus) error {
		if lines = append(lines, s.Title()+" "+s.Reason); len(lines) == 2 {
			stop()
		}
		return nil
	})).To(Succeed())
	g.Expect(lines).To(Equal([]string{
		inTreeKind + " (adopted) team-a/workers Ready", inTreeKind + " (adopted) team-a/workers TemplateNotFound",
	}))
}
