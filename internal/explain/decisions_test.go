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
	type row struct {
		reason remediation.Reason
		seen   seen
		until  time.Time
		says   string
	}
	blocked := func(reason remediation.Reason, seen remediation.Details, until time.Time, says string) row {
		return row{reason, seen, until, says}
	}
	tests := []row{
		blocked(remediation.Paused, seen{}, never, "The check or its Cluster is paused"),
		blocked(remediation.CheckDeleting, seen{}, never, "The check is being deleted"),
		blocked(remediation.ObserveMode, seen{}, never,
			"mode is Observe; with Enforce, Remedy would create the request of step 1 (FooTemplate/a)"),
		blocked(remediation.ClusterNotFound, seen{}, never, "The Cluster does not exist"),
		blocked(remediation.ClusterDeleting, seen{}, never, "The Cluster is being deleted"),
		blocked(remediation.ManagedByOtherCheck, seen{Cause: "MachineHealthCheck default/a"}, never,
			"MachineHealthCheck default/a is responsible for the target"),
		blocked(remediation.StuckDeleting, seen{Since: hour}, never,
			"Deletion was requested at 2026-03-14T11:00:00Z and is not complete. Check its finalizers and drain"),
		blocked(remediation.Terminating, seen{Cause: "deletion", Since: hour}, never,
			"Deletion was requested at 2026-03-14T11:00:00Z; remediation is blocked until 2026-03-14T11:30:00Z"),
		blocked(remediation.Terminating, seen{Cause: "taint a"}, never, "Deletion was announced by taint a; remediation is blocked"),
		blocked(remediation.Terminating, seen{Cause: "taint a", Since: hour}, never,
			"Deletion was announced by taint a at 2026-03-14T11:00:00Z; remediation is blocked until 2026-03-14T11:30:00Z"),
		blocked(remediation.Excluded, seen{}, never,
			"The Node has the label remediation.medik8s.io/exclude-from-remediation; remove it to allow remediation"),
		blocked(remediation.NoMachine, seen{Cause: "prod"}, never,
			"No Machine in namespace prod has this Node, and the remediator needs the Machine. Use a template of a remediator that finds Nodes"),
		blocked(remediation.NoRemediatingOwner, seen{}, never,
			"The Machine has no owner that can remediate it. Set remediationTemplate or replace the Machine"),
		blocked(remediation.OwnerRefuses, seen{Cause: "KubeadmControlPlane/cp"}, never,
			"KubeadmControlPlane/cp reports that it cannot remediate the Machine"),
		blocked(remediation.OwnerRefuses, seen{Cause: "MachineSet/a", Message: "too many\nMachines are unhealthy"}, never,
			"MachineSet/a reports that it cannot remediate the Machine: too many Machines are unhealthy"),
		blocked(remediation.PauseRequested, seen{Cause: "an upgrade", Count: 1}, never,
			`New remediations are paused by pauseRequests: "an upgrade"`),
		blocked(remediation.PauseRequested, seen{Cause: "an upgrade", Count: 3}, never,
			`New remediations are paused by pauseRequests: "an upgrade" … and 2 more`),
		blocked(remediation.ClockSkew, seen{Cause: "10m0s"}, never, "The clocks of the manager and of the API server differ by 10m0s"),
		blocked(remediation.ReconnectGracePeriod, seen{}, never,
			"Kubelets get 50 seconds to report after the API server or the manager has started, or the first connection"),
		blocked(remediation.ClusterUnreachable, seen{}, never,
			"Workload cluster is unreachable; this failure cannot be verified without it; see ClusterReachable"),
		blocked(remediation.TooManyUnhealthy, seen{Cause: "maxUnhealthy=40%", Count: 11, Max: 10}, never,
			"11 targets are unhealthy, and maxUnhealthy=40% allows 10. Check for a common cause before raising the limit"),
		blocked(remediation.TooManyUnhealthy, seen{Cause: "unhealthyRange=[3-5]", Count: 6, Min: 3, Max: 5}, never,
			"6 targets are unhealthy, and unhealthyRange=[3-5] allows 3 to 5. Check for a common cause before raising the limit"),
		blocked(remediation.TooFewUnhealthy, seen{Cause: "unhealthyRange=[3-5]", Count: 1, Min: 3, Max: 5}, never,
			"1 target is unhealthy, and unhealthyRange=[3-5] requires at least 3"),
		blocked(remediation.TooManyUnhealthy, seen{Cause: "minHealthy=3", Count: 2, Max: -1}, never,
			"2 targets are unhealthy, and minHealthy=3 requires more healthy targets than exist: lower it. Check for a common cause before "+
				"raising the limit"),
		blocked(remediation.InStorm, seen{Since: hour}, never,
			"Too many targets have been unhealthy at once since 2026-03-14T11:00:00Z; the cool-down starts when the limit is met"),
		blocked(remediation.InStorm, seen{Since: hour}, noon,
			"Too many targets have been unhealthy at once since 2026-03-14T11:00:00Z; the limit is met again, and the cool-down ends at "+
				"2026-03-14T12:00:00Z"),
		blocked(remediation.AnnotationNotRemoved, seen{}, never,
			"The remediation that the annotation cluster.x-k8s.io/remediate-machine requests was done; remove the annotation"),
		blocked(remediation.AnnotationNotRemoved, seen{Count: 2}, never,
			"The remediation that the annotation cluster.x-k8s.io/remediate-machine requests has failed 2 times; remove the annotation"),
		blocked(remediation.EscalationExhausted, seen{Count: 1}, noon,
			"All steps failed. Step 1 starts again at 2026-03-14T12:00:00Z. Check the remediator"),
		blocked(remediation.InBackoff, seen{Count: 2}, noon, "Remediation has failed 2 times; the next one starts at 2026-03-14T12:00:00Z"),
		blocked(remediation.NoStepForCondition, seen{Cause: "DiskPressure=True (KubeletHasDiskPressure)"}, never,
			"No step of escalatingRemediations is for DiskPressure=True (KubeletHasDiskPressure), so the target is only reported"),
		blocked(remediation.TemplateNotResolved, seen{Cause: "FooTemplate/a"}, never,
			"No request can be created from the template FooTemplate/a; see TemplatesResolved"),
		blocked(remediation.RequestNameConflict, seen{Cause: "Foo/m of another check"}, never,
			"Foo/m of another check has the name of the request"),
		blocked(remediation.NodeLeaseHeld, seen{Cause: "drainer"}, noon, "Lease of the Node is held by drainer until 2026-03-14T12:00:00Z"),
		blocked(remediation.ControlPlaneBusy, seen{Cause: "cp-2"}, never, "cp-2 of the same control plane is being remediated"),
		blocked(remediation.QuorumUnknown, seen{}, never,
			"The etcd members of the control plane could not be read. Check the permission to list Pods in kube-system"),
		blocked(remediation.SingleControlPlane, seen{Count: 1}, never, "The target is the only member of its control plane"),
		blocked(remediation.QuorumAtRisk, seen{Count: 1, Min: 2, Max: 3}, never,
			"Without the target, 1 of 3 etcd members are known to be healthy, and 2 are required"),
		blocked(remediation.MaxInFlight, seen{Count: 2, Max: 2}, never, "maxInFlight is reached (2 of 2); this target is queued"),
		blocked(remediation.MaxInFlight, seen{Cause: "a", Count: 1, Max: 1}, never,
			"maxInFlight is reached (1 of 1, including a); this target is queued"),
		blocked(remediation.MaxInFlight, seen{Cause: "a", Owner: "MachineSet/b", Count: 1, Max: 1}, never,
			"maxInFlight is reached (1 of 1, including a, which MachineSet/b has not replaced yet); this target is queued"),
		blocked(remediation.MaxInFlight, seen{Cause: "a", Count: 2, Max: 2}, never,
			"maxInFlight is reached (2 of 2, including a); this target is queued"),
		blocked(remediation.PreflightPending, seen{}, never, "Preflight check is queued and runs within seconds"),
		blocked(remediation.PreflightFailed, seen{Cause: "its health has changed"}, never,
			"Preflight check failed: its health has changed. Remedy evaluates the target again"),
		blocked(remediation.PreflightFailed, seen{Cause: "maxInFlight is reached", Count: 2, Max: 2}, never,
			"Preflight check failed: maxInFlight is reached (2 of 2). Remedy evaluates the target again"),
		// When it was renewed is left out: that changes every ten seconds.
		blocked(remediation.LeaseRenewed, seen{Since: hour}, noon,
			"Kubelet renews the Node's Lease although Ready is not True; remediation is blocked until 2026-03-14T12:00:00Z"),
		blocked(remediation.OwnerNotActing, seen{Cause: "MachineSet/a: RemediationDeferred", Since: hour}, never,
			"Owner remediation was requested at 2026-03-14T11:00:00Z, and the owner has not acted: MachineSet/a: RemediationDeferred"),
		blocked(remediation.PreviousStepNotReleased, seen{Since: hour}, never,
			"Deletion of the request of step 1 (FooTemplate/a), requested at 2026-03-14T11:00:00Z, is blocked by a finalizer of the remediator"),
		blocked(remediation.RequestFailed, seen{Cause: "admission denied:\r\n spec.x\tis wrong"}, never,
			"Failed to create the request: admission denied: spec.x is wrong"),
		blocked(remediation.RecoveryNotConfirmed, seen{Since: hour}, never,
			"The target is healthy since 2026-03-14T11:00:00Z; waiting for the annotation remediation.medik8s.io/manually-confirmed-healthy on "+
				"its Node"),
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
	var none remediation.StepID
	ends := func(action remediation.Action, why remediation.Reason, step remediation.StepID) remediation.Decision {
		return remediation.Decision{Action: action, Why: why, Step: step}
	}
	unchangedRequest := func(*remediation.Request) {}
	healthy, sick := &health.Verdict{Kind: health.Healthy}, &health.Verdict{Kind: health.Unhealthy}
	late := noon.Add(time.Hour)
	type row struct {
		why      string
		decision remediation.Decision
		verdict  *health.Verdict
		target   *remediation.Target
		says     string
	}
	decided := func(why string, decision remediation.Decision, verdict *health.Verdict, target *remediation.Target, says string) row {
		return row{why, decision, verdict, target, says}
	}
	tests := []row{
		decided("nothing", remediation.Decision{}, healthy, nil, ""),
		decided("request", remediation.Decision{Action: remediation.StartRequest, Step: step, Attempt: 2}, sick, nil,
			"Created the request of step 1 (FooTemplate/a), attempt 2"),
		decided("single template",
			remediation.Decision{Action: remediation.StartRequest, Step: remediation.StepID{Template: "FooTemplate/a"}, Attempt: 1}, sick, nil,
			"Created the request (FooTemplate/a), attempt 1"),
		decided("owner remediation", ends(remediation.RequestOwnerRemediation, "", none), sick, &remediation.Target{Owner: "MachineSet/a"},
			"Requested remediation by MachineSet/a"),
		decided("owner remediation, unknown owner", ends(remediation.RequestOwnerRemediation, "", none), sick, nil,
			"Requested remediation by its owner"),
		decided("timeout", ends(remediation.GiveUp, remediation.StepTimedOut, step), sick, nil,
			"Ended the request of step 1 (FooTemplate/a) because the step timed out"),
		decided("failure", ends(remediation.GiveUp, remediation.StepFailed, step), sick, nil,
			"Ended the request of step 1 (FooTemplate/a) because the remediator reported a failure"),
		decided("step changed", ends(remediation.Withdraw, remediation.StepChanged, step), sick, nil,
			"Withdrew the request of step 1 (FooTemplate/a) because the check no longer has this step"),
		decided("healthy", ends(remediation.Withdraw, remediation.Recovered, step), healthy, nil,
			"Withdrew the request of step 1 (FooTemplate/a) because the target is healthy again"),
		decided("Node no longer exists", ends(remediation.Withdraw, remediation.NodeNotFound, step), nil, nil,
			"Withdrew the request of step 1 (FooTemplate/a) because the Node no longer exists"),
		decided("responsible check with name", ends(remediation.Withdraw, remediation.ManagedByOtherCheck, none), sick,
			&remediation.Target{CoveredBy: "NodeHealthCheck b"}, "Withdrew the request because NodeHealthCheck b is responsible for the target"),
		decided("responsible check", ends(remediation.Withdraw, remediation.ManagedByOtherCheck, none), sick, nil,
			"Withdrew the request because another check is responsible for the target"),
		decided("owner remediation is canceled", ends(remediation.CancelOwnerRemediation, remediation.PauseRequested, none), sick,
			&remediation.Target{Owner: "MachineSet/a"}, "Canceled remediation by MachineSet/a because new remediations are paused by pauseRequests"),
		decided("storm", ends(remediation.CancelOwnerRemediation, remediation.InStorm, none), sick, nil,
			"Canceled remediation by its owner because too many targets were unhealthy at once"),
		decided("no longer selected", ends(remediation.RemoveConditions, remediation.NotSelected, none), nil, nil,
			"Removed the conditions of the check from the Machine because the check no longer selects the target"),
		decided("observe mode", ends(remediation.RemoveConditions, remediation.ObserveMode, none), nil, nil,
			"Removed the conditions of the check from the Machine because the check or the manager only observes"),
		decided("check being deleted", ends(remediation.RemoveConditions, remediation.CheckDeleting, none), nil, nil,
			"Removed the conditions of the check from the Machine because the check is being deleted"),
		decided("no Cluster", ends(remediation.RemoveConditions, remediation.ClusterNotFound, none), nil, nil,
			"Removed the conditions of the check from the Machine because the Cluster does not exist"),
		decided("remediator works", remediation.Decision{Action: remediation.Wait, Step: step, Until: late}, sick, request(unchangedRequest),
			"Waiting for the remediator of the request of step 1 (FooTemplate/a) until 2026-03-14T13:00:00Z"),
		decided("remediator reports an error", remediation.Decision{Action: remediation.Wait, Step: step, Until: late}, sick,
			request(func(r *remediation.Request) { r.Problem = "Node is not\ncapable to reboot itself" }),
			"Waiting for the remediator of the request of step 1 (FooTemplate/a) until 2026-03-14T13:00:00Z; "+
				"it reports: Node is not capable to reboot itself"),
		decided("Lease has ended", remediation.Decision{Action: remediation.Wait, Step: step, LeaseEnd: noon}, sick, request(unchangedRequest),
			"Waiting for the remediator of the request of step 1 (FooTemplate/a). The Lease of the Node ended at 2026-03-14T12:00:00Z, and "+
				"others may remediate or maintain the Node"),
		decided("request being deleted", remediation.Decision{Action: remediation.Wait, Step: step}, sick,
			request(func(r *remediation.Request) { r.DeletingSince = noon }),
			"Waiting for the deletion of the request of step 1 (FooTemplate/a) since 2026-03-14T12:00:00Z; until then, its remediator can continue"),
		decided("healthy for a while", remediation.Decision{Action: remediation.Wait, Step: step, HealthySince: noon}, healthy,
			request(unchangedRequest),
			"Healthy since 2026-03-14T12:00:00Z; Remedy withdraws the request of step 1 (FooTemplate/a) at 2026-03-14T12:01:00Z"),
		decided("owner works", remediation.Decision{Action: remediation.Wait, Until: late}, sick,
			&remediation.Target{Owner: "MachineSet/a", OwnerRemediation: remediation.OwnerRemediation{Since: noon}},
			"Waiting for remediation by MachineSet/a since 2026-03-14T12:00:00Z until 2026-03-14T13:00:00Z"),
		decided("owner with a reason", ends(remediation.Wait, "", none), sick,
			&remediation.Target{Owner: "MachineSet/a", OwnerRemediation: remediation.OwnerRemediation{OwnerReason: "RemediationDeferred"}},
			"Waiting for remediation by MachineSet/a; OwnerRemediated has the reason RemediationDeferred"),
		decided("target being deleted", remediation.Decision{Action: remediation.Wait, Until: late}, sick,
			&remediation.Target{DeletingSince: noon},
			"Waiting for the deletion of the target since 2026-03-14T12:00:00Z until 2026-03-14T13:00:00Z"),
		decided("request only", remediation.Decision{Action: remediation.Wait, Attempt: 1, Step: step}, nil, nil,
			"Waiting for the request of step 1 (FooTemplate/a)"),
		decided("owner only", ends(remediation.Wait, "", none), nil, nil, "Waiting for remediation by the owner"),
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
