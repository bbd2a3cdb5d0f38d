// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

func TestDecisionSentence_Blocked_HasCause(t *testing.T) {
	type seen = remediation.Details
	hour := ago(time.Hour)
	tests := []struct {
		reason remediation.Reason
		seen   seen
		until  time.Time
		says   string
	}{
		{reason: remediation.Paused, says: "The check or its Cluster is paused"},
		{reason: remediation.CheckDeleting, says: "The check is being deleted"},
		{reason: remediation.ObserveMode, says: "mode is Observe; with Enforce, Remedy would create the request of step 1 (FooTemplate/a)"},
		{reason: remediation.ClusterNotFound, says: "The Cluster does not exist"},
		{reason: remediation.ClusterDeleting, says: "The Cluster is being deleted"},
		{
			reason: remediation.ManagedByOtherCheck, seen: seen{Cause: "MachineHealthCheck default/a"},
			says: "MachineHealthCheck default/a is responsible for the target",
		},
		{
			reason: remediation.StuckDeleting, seen: seen{Since: hour},
			says: "Deletion was requested at 2026-03-14T11:00:00Z and is not complete. Check its finalizers and drain",
		},
		{
			reason: remediation.Terminating,
			seen:   seen{Cause: "deletion", Since: hour},
			says:   "Deletion was requested at 2026-03-14T11:00:00Z; remediation is blocked until 2026-03-14T11:30:00Z",
		},
		{reason: remediation.Terminating, seen: seen{Cause: "taint a"}, says: "Deletion was announced by taint a; remediation is blocked"},
		{
			reason: remediation.Terminating, seen: seen{Cause: "taint a", Since: hour},
			says: "Deletion was announced by taint a at 2026-03-14T11:00:00Z; remediation is blocked until 2026-03-14T11:30:00Z",
		},
		{
			reason: remediation.Excluded,
			says:   "The Node has the label remediation.medik8s.io/exclude-from-remediation; remove it to allow remediation",
		},
		{
			reason: remediation.NoRemediatingOwner,
			says:   "The Machine has no owner that can remediate it. Set remediationTemplate or replace the Machine",
		},
		{
			reason: remediation.OwnerRefuses, seen: seen{Cause: "KubeadmControlPlane/cp"},
			says: "KubeadmControlPlane/cp reports that it cannot remediate the Machine",
		},
		{
			reason: remediation.OwnerRefuses, seen: seen{Cause: "MachineSet/a", Message: "too many\nMachines are unhealthy"},
			says: "MachineSet/a reports that it cannot remediate the Machine: too many Machines are unhealthy",
		},
		{
			reason: remediation.PauseRequested, seen: seen{Cause: "an upgrade", Count: 1},
			says: `New remediations are paused by pauseRequests: "an upgrade"`,
		},
		{
			reason: remediation.PauseRequested, seen: seen{Cause: "an upgrade", Count: 3},
			says: `New remediations are paused by pauseRequests: "an upgrade" … and 2 more`,
		},
		{
			reason: remediation.ClusterUnreachable,
			says:   "Workload cluster is unreachable; this failure cannot be verified without it; see ClusterReachable",
		},
		{
			reason: remediation.TooManyUnhealthy, seen: seen{Cause: "maxUnhealthy=40%", Count: 11, Max: 10},
			says: "11 targets are unhealthy, and maxUnhealthy=40% allows 10. Check for a common cause before raising the limit",
		},
		{
			reason: remediation.TooManyUnhealthy, seen: seen{Cause: "unhealthyRange=[3-5]", Count: 6, Min: 3, Max: 5},
			says: "6 targets are unhealthy, and unhealthyRange=[3-5] allows 3 to 5. Check for a common cause before raising the limit",
		},
		{
			reason: remediation.TooFewUnhealthy, seen: seen{Cause: "unhealthyRange=[3-5]", Count: 1, Min: 3, Max: 5},
			says: "1 target is unhealthy, and unhealthyRange=[3-5] requires at least 3",
		},
		{
			reason: remediation.TooManyUnhealthy, seen: seen{Cause: "minHealthy=3", Count: 2, Max: -1},
			says: "2 targets are unhealthy, and minHealthy=3 requires more healthy targets than exist: lower it. Check for a common cause before " +
				"raising the limit",
		},
		{
			reason: remediation.InStorm, seen: seen{Since: hour},
			says: "Too many targets have been unhealthy at once since 2026-03-14T11:00:00Z; the cool-down starts when the limit is met",
		},
		{
			reason: remediation.InStorm, seen: seen{Since: hour}, until: noon,
			says: "Too many targets have been unhealthy at once since 2026-03-14T11:00:00Z; the limit is met again, and the cool-down ends at " +
				"2026-03-14T12:00:00Z",
		},
		{reason: remediation.AnnotationNotRemoved, says: "The remediation that the annotation cluster.x-k8s.io/remediate-machine requests " +
			"was done; remove the annotation"},
		{
			reason: remediation.AnnotationNotRemoved, seen: seen{Count: 2},
			says: "The remediation that the annotation cluster.x-k8s.io/remediate-machine requests has failed 2 times; remove the annotation",
		},
		{
			reason: remediation.EscalationExhausted, seen: seen{Count: 1}, until: noon,
			says: "All steps failed. Step 1 starts again at 2026-03-14T12:00:00Z. Check the remediator",
		},
		{
			reason: remediation.InBackoff, seen: seen{Count: 2}, until: noon,
			says: "Remediation has failed 2 times; the next one starts at 2026-03-14T12:00:00Z",
		},
		{reason: remediation.TemplateNotResolved, says: "The check has no step for the target"},
		{
			reason: remediation.TemplateNotResolved, seen: seen{Cause: "FooTemplate/a"},
			says: "No request can be created from the template FooTemplate/a; see TemplatesResolved",
		},
		{
			reason: remediation.RequestNameConflict,
			seen:   seen{Cause: "Foo/m of another check"},
			says:   "Foo/m of another check has the name of the request",
		},
		{
			reason: remediation.NodeLeaseHeld,
			seen:   seen{Cause: "drainer"},
			until:  noon,
			says:   "Lease of the Node is held by drainer until 2026-03-14T12:00:00Z",
		},
		{reason: remediation.ControlPlaneBusy, seen: seen{Cause: "cp-2"}, says: "cp-2 of the same control plane is being remediated"},
		{
			reason: remediation.QuorumUnknown,
			says:   "The etcd members of the control plane could not be read. Check the permission to list Pods in kube-system",
		},
		{reason: remediation.SingleControlPlane, seen: seen{Count: 1}, says: "The target is the only member of its control plane"},
		{
			reason: remediation.QuorumAtRisk, seen: seen{Count: 1, Min: 2, Max: 3},
			says: "Without the target, 1 of 3 etcd members are known to be healthy, and 2 are required",
		},
		{reason: remediation.MaxInFlight, seen: seen{Count: 2, Max: 2}, says: "maxInFlight is reached (2 of 2); this target is queued"},
		{
			reason: remediation.MaxInFlight, seen: seen{Cause: "a", Count: 1, Max: 1},
			says: "maxInFlight is reached (1 of 1, including a); this target is queued",
		},
		{
			reason: remediation.MaxInFlight, seen: seen{Cause: "a", Owner: "MachineSet/b", Count: 1, Max: 1},
			says: "maxInFlight is reached (1 of 1, including a, which MachineSet/b has not replaced yet); this target is queued",
		},
		{
			reason: remediation.MaxInFlight, seen: seen{Cause: "a", Count: 2, Max: 2},
			says: "maxInFlight is reached (2 of 2, including a); this target is queued",
		},
		{reason: remediation.PreflightPending, says: "Preflight check is queued and runs within seconds"},
		{
			reason: remediation.PreflightFailed, seen: seen{Cause: "its health has changed"},
			says: "Preflight check failed: its health has changed. Remedy evaluates the target again",
		},
		{
			reason: remediation.PreflightFailed, seen: seen{Cause: "maxInFlight is reached", Count: 2, Max: 2},
			says: "Preflight check failed: maxInFlight is reached (2 of 2). Remedy evaluates the target again",
		},
		// When it was renewed is left out: that changes every ten seconds.
		{
			reason: remediation.LeaseRenewed, seen: seen{Since: hour}, until: noon,
			says: "Kubelet renews the Node's Lease although Ready is Unknown; remediation is blocked until 2026-03-14T12:00:00Z",
		},
		{
			reason: remediation.OwnerNotActing, seen: seen{Cause: "MachineSet/a: RemediationDeferred", Since: hour},
			says: "Owner remediation was requested at 2026-03-14T11:00:00Z, and the owner has not acted: MachineSet/a: RemediationDeferred",
		},
		{
			reason: remediation.PreviousStepNotReleased, seen: seen{Since: hour},
			says: "Deletion of the request of step 1 (FooTemplate/a), requested at 2026-03-14T11:00:00Z, is blocked by " +
				"a finalizer of the remediator",
		},
		{
			reason: remediation.RequestFailed, seen: seen{Cause: "admission denied:\r\n spec.x\tis wrong"},
			says: "Failed to create the request: admission denied: spec.x is wrong",
		},
		{
			reason: remediation.RecoveryNotConfirmed, seen: seen{Since: hour},
			says: "The target is healthy since 2026-03-14T11:00:00Z; waiting for the annotation " +
				"remediation.medik8s.io/manually-confirmed-healthy on its Node",
		},
	}
	told := map[string]bool{}
	for _, test := range tests {
		told[string(test.reason)] = true
		t.Run(test.says, func(t *testing.T) {
			d := remediation.Decision{
				Block: remediation.Block{Reason: test.reason, Until: test.until, Details: test.seen},
				Step:  remediation.StepID{Order: 1, Template: "FooTemplate/a"},
			}
			NewWithT(t).Expect(decisionSentence(&Facts{Decision: &d})).To(Equal("Blocked: " + test.says))
		})
	}
	for _, reason := range worded(Guard, Preflight, Unfinished) {
		if !told[reason] {
			t.Errorf("no row has the reason %s", reason)
		}
	}
}

func TestDecisionSentence_PausedAfterPlan_ReportsIt(t *testing.T) {
	g := NewWithT(t)
	d := remediation.Decision{Block: remediation.Block{Reason: remediation.Paused}, Answers: []remediation.Answer{
		{Guard: remediation.Paused}, {Guard: remediation.MaxInFlight}, {Guard: remediation.Paused, Blocks: true, Preflight: true},
	}}
	g.Expect(decisionSentence(&Facts{Decision: &d})).To(Equal("Blocked: The check, its Cluster or the target was paused after the decision"))
}

func TestDecisionSentence_Actions_HaveCause(t *testing.T) {
	step, policy := remediation.StepID{Order: 1, Template: "FooTemplate/a"}, &remediation.Policy{
		HealthyDelay: time.Minute, Steps: []remediation.Step{{ID: remediation.StepID{Order: 1, Template: "FooTemplate/a"}, Timeout: time.Hour}},
	}
	request := func(change func(*remediation.Request)) *remediation.Target {
		r := &remediation.Request{Step: step, Started: noon}
		change(r)
		return &remediation.Target{Request: r}
	}
	healthy, sick := &health.Verdict{Kind: health.Healthy}, &health.Verdict{Kind: health.Unhealthy}
	late := noon.Add(time.Hour)
	tests := []struct {
		why      string
		decision remediation.Decision
		verdict  *health.Verdict
		target   *remediation.Target
		says     string
	}{
		{"nothing", remediation.Decision{}, healthy, nil, ""},
		{
			"request",
			remediation.Decision{Action: remediation.StartRequest, Step: step, Attempt: 2},
			sick, nil,
			"Created the request of step 1 (FooTemplate/a), attempt 2",
		},
		{"single template", remediation.Decision{
			Action: remediation.StartRequest, Step: remediation.StepID{Template: "FooTemplate/a"},
			Attempt: 1,
		}, sick, nil, "Created the request (FooTemplate/a), attempt 1"},
		{
			"owner remediation",
			remediation.Decision{Action: remediation.RequestOwnerRemediation},
			sick, &remediation.Target{Owner: "MachineSet/a"},
			"Requested remediation by MachineSet/a",
		},
		{
			"owner remediation, unknown owner",
			remediation.Decision{Action: remediation.RequestOwnerRemediation},
			sick,
			nil,
			"Requested remediation by its owner",
		},
		{
			"timeout",
			remediation.Decision{Action: remediation.GiveUp, Why: remediation.StepTimedOut, Step: step},
			sick, nil,
			"Ended the request of step 1 (FooTemplate/a) because the step timed out",
		},
		{
			"failure",
			remediation.Decision{Action: remediation.GiveUp, Why: remediation.StepFailed, Step: step},
			sick, nil,
			"Ended the request of step 1 (FooTemplate/a) because the remediator reported a failure",
		},
		{
			"step changed",
			remediation.Decision{Action: remediation.Withdraw, Why: remediation.StepChanged, Step: step},
			sick, nil,
			"Withdrew the request of step 1 (FooTemplate/a) because the check no longer has this step",
		},
		{
			"healthy",
			remediation.Decision{Action: remediation.Withdraw, Why: remediation.Recovered, Step: step},
			healthy, nil,
			"Withdrew the request of step 1 (FooTemplate/a) because the target is healthy again",
		},
		{
			"Node no longer exists",
			remediation.Decision{Action: remediation.Withdraw, Why: remediation.NodeNotFound, Step: step},
			nil, nil,
			"Withdrew the request of step 1 (FooTemplate/a) because the Node no longer exists",
		},
		{
			"responsible check with name",
			remediation.Decision{Action: remediation.Withdraw, Why: remediation.ManagedByOtherCheck},
			sick,
			&remediation.Target{CoveredBy: "NodeHealthCheck b"}, "Withdrew the request because NodeHealthCheck b is responsible for the target",
		},
		{
			"responsible check",
			remediation.Decision{Action: remediation.Withdraw, Why: remediation.ManagedByOtherCheck},
			sick, nil,
			"Withdrew the request because another check is responsible for the target",
		},
		{
			"owner remediation is canceled",
			remediation.Decision{Action: remediation.CancelOwnerRemediation, Why: remediation.PauseRequested},
			sick,
			&remediation.Target{Owner: "MachineSet/a"}, "Canceled remediation by MachineSet/a because new remediations are paused by pauseRequests",
		},
		{
			"storm",
			remediation.Decision{Action: remediation.CancelOwnerRemediation, Why: remediation.InStorm},
			sick, nil,
			"Canceled remediation by its owner because too many targets were unhealthy at once",
		},
		{
			"no longer selected",
			remediation.Decision{Action: remediation.RemoveConditions, Why: remediation.NotSelected},
			nil, nil,
			"Removed the conditions of the check from the Machine because the check no longer selects the target",
		},
		{
			"observe mode",
			remediation.Decision{Action: remediation.RemoveConditions, Why: remediation.ObserveMode},
			nil, nil,
			"Removed the conditions of the check from the Machine because the check or the manager only observes",
		},
		{
			"check being deleted",
			remediation.Decision{Action: remediation.RemoveConditions, Why: remediation.CheckDeleting},
			nil, nil,
			"Removed the conditions of the check from the Machine because the check is being deleted",
		},
		{
			"no Cluster",
			remediation.Decision{Action: remediation.RemoveConditions, Why: remediation.ClusterNotFound},
			nil, nil,
			"Removed the conditions of the check from the Machine because the Cluster does not exist",
		},
		{
			"remediator works",
			remediation.Decision{Action: remediation.Wait, Step: step, Until: late},
			sick,
			request(func(*remediation.Request) {}), "Waiting for the remediator of the request of step 1 (FooTemplate/a) until " +
				"2026-03-14T13:00:00Z",
		},
		{
			"request being deleted",
			remediation.Decision{Action: remediation.Wait, Step: step},
			sick,
			request(func(r *remediation.Request) { r.DeletingSince = noon }),
			"Waiting for the deletion of the request of step 1 (FooTemplate/a) since 2026-03-14T12:00:00Z",
		},
		{
			"healthy for a while",
			remediation.Decision{Action: remediation.Wait, Step: step, HealthySince: noon},
			healthy,
			request(func(*remediation.Request) {}), "Healthy since 2026-03-14T12:00:00Z; Remedy withdraws the request of step 1 (FooTemplate/a) " +
				"at 2026-03-14T12:01:00Z",
		},
		{
			"owner works",
			remediation.Decision{Action: remediation.Wait, Until: late},
			sick,
			&remediation.Target{Owner: "MachineSet/a", OwnerRemediation: remediation.OwnerRemediation{Since: noon}},
			"Waiting for remediation by MachineSet/a since 2026-03-14T12:00:00Z until 2026-03-14T13:00:00Z",
		},
		{
			"owner with a reason",
			remediation.Decision{Action: remediation.Wait},
			sick,
			&remediation.Target{Owner: "MachineSet/a", OwnerRemediation: remediation.OwnerRemediation{OwnerReason: "RemediationDeferred"}},
			"Waiting for remediation by MachineSet/a; OwnerRemediated has the reason RemediationDeferred",
		},
		{
			"target being deleted",
			remediation.Decision{Action: remediation.Wait, Until: late},
			sick, &remediation.Target{DeletingSince: noon},
			"Waiting for the deletion of the target since 2026-03-14T12:00:00Z until 2026-03-14T13:00:00Z",
		},
		{
			"request only",
			remediation.Decision{Action: remediation.Wait, Attempt: 1, Step: step},
			nil, nil,
			"Waiting for the request of step 1 (FooTemplate/a)",
		},
		{"owner only", remediation.Decision{Action: remediation.Wait}, nil, nil, "Waiting for remediation by the owner"},
	}
	told := map[remediation.Reason]bool{}
	for _, test := range tests {
		told[test.decision.Why] = true
		t.Run(test.why, func(t *testing.T) {
			NewWithT(t).Expect(decisionSentence(&Facts{
				Decision: &test.decision, Verdict: test.verdict, Target: test.target,
				Policy: policy,
			})).To(Equal(test.says))
		})
	}
	for _, reason := range worded(Ending) {
		if !told[remediation.Reason(reason)] {
			t.Errorf("no row has the reason %s", reason)
		}
	}
}
