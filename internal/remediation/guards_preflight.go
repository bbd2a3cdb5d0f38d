// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// PreflightPending means: the preflight check of the decision has not run yet. The reconcile reports first, or has run out of time.
const PreflightPending Reason = "PreflightPending"

func guardPreflightPending(p *pass, _ *Target, _ *candidate) (bool, Hold) {
	return p.preflight.look.Late, Hold{}
}

// PreflightFailed means: a preflight check did not confirm what the decision is based on.
const PreflightFailed Reason = "PreflightFailed"

func guardPreflightFailed(p *pass, _ *Target, _ *candidate) (bool, Hold) {
	c := p.preflight
	if why := c.unconfirmed(); why != "" {
		return true, Hold{Seen: Seen{Who: why}}
	}
	if c.d.Starts() && c.d.Budgeted && c.plan.Limited && c.look.Others >= c.plan.Slots {
		return true, Hold{Seen: Seen{Who: "maxInFlight is reached", Have: c.look.Others, Most: c.plan.Slots}}
	}
	return false, Hold{}
}

// unconfirmed is why the facts do not confirm the decision; empty if they do.
func (c *preflight) unconfirmed() string {
	d, look := c.d, c.look
	switch {
	case look.Unwritten:
		return look.because("a required write failed")
	case look.Failed:
		return look.because("the facts could not be read again")
	case look.Changed:
		return "the check or its Cluster has changed"
	case d.Action == GiveUp && look.Verdict.Recovered():
		return "the target is healthy again"
	case d.Action == Withdraw && d.Why == Recovered && !look.Verdict.Recovered():
		return "the target is no longer healthy"
	case d.Action == Withdraw && d.Why == Recovered && !look.sameRecovery(c.t):
		return "the target was unhealthy in between"
	case !d.Starts():
		return ""
	case look.RequestsUnread:
		return look.because("its requests could not be read")
	case look.LeaseUnread:
		return look.because("the Lease of its kubelet could not be read")
	case !c.bornOut() && look.Cause != "":
		return look.because("the Node could not be read again")
	case !c.bornOut():
		return "its health has changed"
	case !look.Target.DeletingSince.IsZero():
		return "the target is being deleted"
	case look.Target.Request != nil:
		return "the target has a remediation request already"
	case d.Action == RequestOwnerRemediation && look.Target.OwnerRemediation.Waiting && look.Target.OwnerRemediation.Requested:
		return "owner remediation was requested already"
	case !look.Target.History.same(&c.t.History):
		return "the remediation history has changed"
	case look.Target.CoveredBy != "":
		return look.Target.CoveredBy + " is responsible for the target"
	}
	return ""
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

// OnlyReadyUnknown reports whether the only cause that is met is Ready=Unknown. With any other cause the Lease does not matter.
func OnlyReadyUnknown(v *health.Verdict) bool {
	return v.Kind == health.Unhealthy && !slices.ContainsFunc(v.Findings, func(f health.Finding) bool {
		return f.Met && (f.Rule != health.UnhealthyNode || f.Condition != string(corev1.NodeReady) || f.Status != string(corev1.ConditionUnknown))
	})
}

// Both times are from the clock of the workload cluster. A missing Lease does not block.
func guardLeaseRenewed(p *pass, _ *Target, _ *candidate) (bool, Hold) {
	look := p.preflight.look
	if !p.preflight.d.Starts() || look.LeaseRenewed.IsZero() || !OnlyReadyUnknown(&look.Verdict) {
		return false, Hold{}
	}
	hold := Hold{Seen: Seen{Since: look.LeaseRenewed}}
	for i := range look.Verdict.Findings {
		f := &look.Verdict.Findings[i]
		if !f.Met {
			continue
		}
		if !look.LeaseRenewed.After(f.Since) {
			return false, Hold{}
		}
		hold.Until = health.Latest(hold.Until, f.Due.Add(f.Lasting))
	}
	return p.now.Before(hold.Until), hold
}
