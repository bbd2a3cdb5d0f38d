// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// PreflightPending means: the preflight check of the decision has not run yet. The reconcile reports first, or has run out of time.
const PreflightPending Reason = "PreflightPending"

func guardPreflightPending(p *planner, _ *Target, _ *candidate) (bool, Block) {
	return p.preflight.result.Late, Block{}
}

// PreflightFailed means: a preflight check did not confirm what the decision is based on.
const PreflightFailed Reason = "PreflightFailed"

func guardPreflightFailed(p *planner, _ *Target, _ *candidate) (bool, Block) {
	c := p.preflight
	if why := c.unconfirmed(p.now); why != "" {
		return true, Block{Details: Details{Cause: why}}
	}
	if c.d.Starts() && c.d.Budgeted && c.plan.Limited && c.result.Others >= c.plan.Slots {
		return true, Block{Details: Details{Cause: "maxInFlight is reached", Count: c.result.Others, Max: c.plan.Slots}}
	}
	return false, Block{}
}

// unconfirmed is why the facts do not confirm the decision; empty if they do.
func (c *preflight) unconfirmed(now time.Time) string {
	d, result := c.d, c.result
	switch {
	case result.Unwritten:
		return result.because("a required write failed")
	case result.Failed:
		return result.because("the facts could not be read again")
	case result.Changed:
		return "the check or its Cluster has changed"
	case d.Action == GiveUp && result.Verdict.Recovered():
		return "the target is healthy again"
	case d.Action == Withdraw && d.Why == Recovered && !result.Verdict.Recovered():
		return "the target is no longer healthy"
	case d.Action == Withdraw && d.Why == Recovered && !result.sameRecovery(c.t):
		return "the target was unhealthy in between"
	case !d.Starts():
		return ""
	case result.RequestsUnread:
		return result.because("other remediations of the target could not be read")
	case result.LeaseUnread:
		return result.because("the Lease of its kubelet could not be read")
	case !c.confirmed() && result.Cause != "":
		return result.because("the Node could not be read again")
	case !c.confirmed():
		return "its health has changed"
	case !(&Step{Conditions: d.For}).isFor(&result.Verdict):
		return "it is unhealthy for another cause"
	case !result.Target.deletingSince(d.Action == RequestOwnerRemediation).IsZero():
		return "the target is being deleted"
	case result.Target.Request != nil && !c.keptByRemediator(now):
		return "the target has a remediation request already"
	case d.Action == StartRequest && c.t.DeletedRequests.Unread:
		return "the last request cannot be read: another client may have deleted it"
	case d.Action == RequestOwnerRemediation && result.Target.OwnerRemediation.Waiting && result.Target.OwnerRemediation.Requested:
		return "owner remediation was requested already"
	case d.Action == StartRequest && c.ownerAsked():
		return "owner remediation was requested meanwhile"
	case !result.Target.History.same(&c.t.History):
		return "the remediation history has changed"
	case result.Target.CoveredBy != "":
		return result.Target.CoveredBy + " is responsible for the target"
	}
	return ""
}

// keptByRemediator reports whether owner remediation does not wait for the deletion of the request.
func (c *preflight) keptByRemediator(now time.Time) bool {
	live := c.result.Target.Request
	handsOver := c.d.HandsOver && c.result.Target.handedOver(&c.result.Verdict) && !live.DeletingSince.IsZero()
	return c.d.Action == RequestOwnerRemediation && (handsOver || released(live, now))
}

// ownerAsked reports whether owner remediation was requested since the plan, for instance by a remediator that has failed. One that was
// requested before the target became unhealthy is a remnant.
func (c *preflight) ownerAsked() bool {
	now := &c.result.Target.OwnerRemediation
	handedOver := c.result.Target.handedOver(&c.result.Verdict) && !now.HandedOverAt.Equal(c.t.OwnerRemediation.HandedOverAt)
	return handedOver || now.Requested && !now.Since.Equal(c.t.OwnerRemediation.Since)
}

// because appends the cause of a failed read or write, if there is one.
func (l *PreflightCheck) because(failed string) string {
	if l.Cause != "" {
		failed += ": " + l.Cause
	}
	return failed
}

// sameRecovery reports whether the request has the recovery that was planned for, and not a later one.
func (l *PreflightCheck) sameRecovery(t *Target) bool {
	now, before := l.Target.Request, t.Request
	return now == nil || before == nil || now.HealthySince.Equal(before.HealthySince)
}

// LeaseRenewed means: the kubelet has renewed its Lease since the Node became Unknown. It blocks for one more timeout at most.
const LeaseRenewed Reason = "LeaseRenewed"

// OnlyReadyUnknown reports whether the only cause that is met is Ready=Unknown: the node controller has reported it, and not the kubelet.
func OnlyReadyUnknown(v *health.Verdict) bool {
	return onlyReady(v, func(f *health.Finding) bool { return f.Status == string(corev1.ConditionUnknown) })
}

// NotByKubelet reports whether the only cause that is met is a condition Ready that the kubelet has not reported. With any other cause the
// Lease does not matter.
func NotByKubelet(v *health.Verdict) bool {
	return onlyReady(v, func(f *health.Finding) bool { return f.Cause != "KubeletNotReady" })
}

// onlyStartup reports whether the only cause that is met is a Node that has not joined in time.
func onlyStartup(v *health.Verdict) bool {
	return allMet(v, func(f *health.Finding) bool { return f.Rule == health.NodeStartupTimeout })
}

func onlyReady(v *health.Verdict, is func(f *health.Finding) bool) bool {
	return allMet(v, func(f *health.Finding) bool {
		return silent(f) || f.Rule == health.UnhealthyNode && f.Condition == string(corev1.NodeReady) && is(f)
	})
}

// allMet reports whether all causes that are met are of a kind.
func allMet(v *health.Verdict, are func(f *health.Finding) bool) bool {
	return v.Kind == health.Unhealthy && !slices.ContainsFunc(v.Findings, func(f health.Finding) bool { return f.Met && !are(&f) })
}

// silent reports whether the node controller has reported a condition of the kubelet, which has been silent: all of these are Unknown then.
// So is what Cluster API copies from the Node.
func silent(f *health.Finding) bool {
	kinds := []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure}
	ofNode := f.Rule == health.UnhealthyNode && slices.Contains(kinds, corev1.NodeConditionType(f.Condition)) ||
		f.Rule == health.UnhealthyMachine && health.AboutNode(f.Condition)
	return ofNode && f.Status == string(corev1.ConditionUnknown)
}

// Both times are from the clock of the workload cluster, unless another status was read later. A missing Lease does not block.
func guardLeaseRenewed(p *planner, _ *Target, _ *candidate) (bool, Block) {
	result := p.preflight.result
	if !p.preflight.d.Starts() || result.LeaseRenewed.IsZero() || !NotByKubelet(&result.Verdict) {
		return false, Block{}
	}
	block := Block{Details: Details{Since: result.LeaseRenewed}}
	for i := range result.Verdict.Findings {
		f := &result.Verdict.Findings[i]
		if !f.Met {
			continue
		}
		if !result.LeaseRenewed.After(f.Since) {
			return false, Block{}
		}
		// Before the manager has read the Node itself, any time may be claimed.
		block.Until = health.Latest(block.Until, health.Latest(f.Due, result.NodesReadSince).Add(f.Lasting))
	}
	return p.now.Before(block.Until), block
}
