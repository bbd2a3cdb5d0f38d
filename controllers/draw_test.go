// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/machinehealthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/nodehealthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func some[T any](t *rapid.T, name string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, name)
}

// rarely is true in one of twelve cases. Rapid prefers the ends of a range, so neither of them is used.
func rarely(t *rapid.T, name string) bool { return rapid.IntRange(0, 11).Draw(t, name) == 4 }

func drawTime(t *rapid.T, name string) time.Time {
	return noon.Add(-time.Duration(rapid.IntRange(1, 40).Draw(t, name)) * time.Minute)
}

// drawSpecs returns a MachineHealthCheck and a NodeHealthCheck with the same settings.
func drawSpecs(t *rapid.T) (*healthcheck.Check, *healthcheck.Check) {
	machines := &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	nodes := &remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	for _, status := range []remedyv1.ConditionStatus{"False", "Unknown"} {
		lasting := remedyv1.Duration{Duration: metav1.Duration{Duration: some(t, "lasting", 5*time.Minute, 20*time.Minute)}}
		machines.Spec.UnhealthyConditions = append(machines.Spec.UnhealthyConditions,
			remedyv1.UnhealthyNodeCondition{Type: "Ready", Status: status, Timeout: lasting})
		nodes.Spec.UnhealthyConditions = append(nodes.Spec.UnhealthyConditions,
			remedyv1.LastingNodeCondition{Type: "Ready", Status: status, Duration: lasting})
	}
	machines.Spec.Limits, machines.Spec.Pace = drawLimits(t), drawPace(t)
	nodes.Spec.Limits, nodes.Spec.Pace = machines.Spec.Limits, machines.Spec.Pace
	kind := remedyv1.TemplateKind{APIVersion: "example.com/v1", Kind: "FooTemplate"}
	for i := range rapid.IntRange(1, 3).Draw(t, "steps") {
		kind.Name = fmt.Sprintf("step-%d", i)
		timeout := remedyv1.Duration{Duration: metav1.Duration{Duration: some(t, "timeout", 10*time.Minute, time.Hour)}}
		machines.Spec.EscalatingRemediations = append(machines.Spec.EscalatingRemediations, remedyv1.MachineEscalationStep{
			Order: int32(i), RemediationTemplate: &remedyv1.MachineTemplateReference{TemplateKind: kind}, Timeout: &timeout,
		})
		nodes.Spec.EscalatingRemediations = append(nodes.Spec.EscalatingRemediations, remedyv1.NodeEscalationStep{
			Order: int32(i), RemediationTemplate: remedyv1.NodeTemplateReference{Namespace: "default", TemplateKind: kind}, Timeout: timeout,
		})
	}
	if rapid.Bool().Draw(t, "one template") {
		machines.Spec.EscalatingRemediations, nodes.Spec.EscalatingRemediations = nil, nil
		machines.Spec.RemediationTemplate = &remedyv1.MachineTemplateReference{TemplateKind: kind}
		nodes.Spec.RemediationTemplate = &remedyv1.NodeTemplateReference{Namespace: "default", TemplateKind: kind}
	}
	return machinehealthcheck.CheckOf(machines), nodehealthcheck.CheckOf(nodes)
}

// drawLimits always sets a limit, because the defaults differ.
func drawLimits(t *rapid.T) remedyv1.Limits {
	limit := some(t, "limit", intstr.FromInt32(1), intstr.FromInt32(3), intstr.FromString("40%"), intstr.FromString("100%"))
	switch rapid.IntRange(0, 3).Draw(t, "limits") {
	case 0:
		return remedyv1.Limits{MinHealthy: &limit}
	case 1:
		return remedyv1.Limits{UnhealthyRange: "[1-3]"}
	}
	return remedyv1.Limits{MaxUnhealthy: &limit}
}

func drawPace(t *rapid.T) remedyv1.Pace {
	pace := remedyv1.Pace{Mode: remedyv1.EnforceMode}
	if rapid.Bool().Draw(t, "limited") {
		pace.MaxInFlight = ptr.To(intstr.FromInt32(rapid.Int32Range(1, 3).Draw(t, "maxInFlight")))
	}
	if rapid.Bool().Draw(t, "storms") {
		pace.StormCooldownDuration = &remedyv1.Duration{Duration: metav1.Duration{Duration: 5 * time.Minute}}
	}
	if rapid.Bool().Draw(t, "delays recovery") {
		pace.HealthyDelay = &remedyv1.Duration{Duration: metav1.Duration{Duration: 10 * time.Minute}}
	}
	if rarely(t, "confirmed recovery") {
		pace.Recovery = remedyv1.ConfirmedRecovery
	}
	if rarely(t, "observes") {
		pace.Mode = remedyv1.ObserveMode
	}
	if rarely(t, "pause requests") {
		pace.PauseRequests = []string{"an upgrade"}
	}
	return pace
}

// drawObjects returns a Node, and a Machine with the same name, creation time, history and wishes of users.
func drawObjects(t *rapid.T, name string) (*clusterv1.Machine, *corev1.Node) {
	meta := metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)), Annotations: map[string]string{}}
	node, machine := &corev1.Node{ObjectMeta: *meta.DeepCopy()}, &clusterv1.Machine{ObjectMeta: *meta.DeepCopy()}
	machine.Namespace, machine.Status.NodeRef.Name = "default", name
	annotate := func(ofMachine, ofNode, value string) {
		machine.Annotations[ofMachine], node.Annotations[ofNode] = value, value
	}
	if rarely(t, "paused") {
		annotate(clusterv1.PausedAnnotation, clusterv1.PausedAnnotation, "")
	}
	if rarely(t, "skipped") {
		annotate(clusterv1.MachineSkipRemediationAnnotation, remedyv1.SkipRemediationAnnotation, "")
	}
	if rarely(t, "requested by a user") {
		annotate(clusterv1.RemediateMachineAnnotation, remedyv1.RemediateNodeAnnotation, "")
	}
	if rapid.IntRange(0, 3).Draw(t, "history") == 2 {
		annotate(remedyv1.AttemptsAnnotation, remedyv1.AttemptsAnnotation, "1")
		before := drawTime(t, "not before").Add(20 * time.Minute).Format(time.RFC3339)
		annotate(remedyv1.NotBeforeAnnotation, remedyv1.NotBeforeAnnotation, before)
	}
	if rarely(t, "excluded") {
		node.Labels = map[string]string{remedyv1.ExcludeLabel: "true"}
	}
	if rarely(t, "confirmed") {
		node.Annotations[remedyv1.ConfirmedHealthyAnnotation] = ""
	}
	if rarely(t, "terminating") {
		node.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}
	}
	if rarely(t, "deleting") {
		node.DeletionTimestamp = ptr.To(metav1.NewTime(drawTime(t, "deleted")))
	}
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: "Ready", Status: some(t, "ready", corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown), Reason: "KubeletNotReady",
		LastTransitionTime: metav1.NewTime(drawTime(t, "since")),
	}}
	return machine, node
}

// drawRest completes the facts of both kinds with those that the engine adds for every kind.
func drawRest(t *rapid.T, policy *remediation.Policy, targets ...*remediation.Target) {
	var request *remediation.Request
	if rapid.IntRange(0, 2).Draw(t, "request") == 1 {
		request = &remediation.Request{
			Step: some(t, "step", policy.Steps...).ID, Attempt: 1, Started: drawTime(t, "started"), Failed: rarely(t, "failed"),
			TimedOut: rarely(t, "timed out"), Succeeded: rarely(t, "succeeded"),
		}
		if rapid.Bool().Draw(t, "healthy again") {
			request.HealthySince = drawTime(t, "healthy since")
		}
		if rarely(t, "request deleted") {
			request.DeletingSince = drawTime(t, "request deleted since")
		}
	}
	lease := remediation.Lease{Used: rapid.Bool().Draw(t, "leases")}
	if lease.Used && rarely(t, "lease") {
		lease.Until, lease.HeldByThis, lease.Holder = noon.Add(time.Minute), rapid.Bool().Draw(t, "held by this"), "other"
	}
	covered, conflict := rarely(t, "covered"), rarely(t, "name taken")
	for _, target := range targets {
		if target.Lease = lease; request != nil {
			target.Request = ptr.To(*request)
		}
		if covered {
			target.CoveredBy = "NodeHealthCheck other"
		}
		if conflict && request == nil {
			target.RequestNameConflict = "FooRemediation default/x"
		}
	}
}
