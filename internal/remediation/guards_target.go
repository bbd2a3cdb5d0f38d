// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"
)

// Paused means: the check, its Cluster or the target is paused. Nothing is written.
const Paused Reason = "Paused"

func guardPaused(p *planner, _ *Target, _ *candidate) (bool, Block) {
	return p.s.Check.Paused, Block{}
}

// CheckDeleting means: the check is being deleted.
const CheckDeleting Reason = "CheckDeleting"

func guardCheckDeleting(p *planner, _ *Target, _ *candidate) (bool, Block) {
	return p.s.Check.Deleting, Block{}
}

// ClusterNotFound means: the Cluster that the check names does not exist.
const ClusterNotFound Reason = "ClusterNotFound"

func guardClusterNotFound(p *planner, _ *Target, _ *candidate) (bool, Block) {
	return p.s.Check.Cluster == ClusterIsMissing, Block{}
}

// ClusterDeleting means: the Cluster is being deleted, and its Machines with it.
const ClusterDeleting Reason = "ClusterDeleting"

func guardClusterDeleting(p *planner, _ *Target, _ *candidate) (bool, Block) {
	return p.s.Check.Cluster == ClusterIsDeleting, Block{}
}

// ManagedByOtherCheck means: another check is responsible for the target.
const ManagedByOtherCheck Reason = "ManagedByOtherCheck"

// A check that only observes reports what it would do without the other one.
func guardManagedByOtherCheck(p *planner, t *Target, _ *candidate) (bool, Block) {
	return t.CoveredBy != "" && !p.policy.Observe, Block{Until: t.CoveredUntil, Details: Details{Cause: t.CoveredBy}}
}

// StuckDeleting means: the deletion of the target has not finished in time. Another remediation would not help.
const StuckDeleting Reason = "StuckDeleting"

func guardStuckDeleting(p *planner, t *Target, c *candidate) (bool, Block) {
	since := t.deletingSince(c.step.Owner)
	return !since.IsZero() && !p.now.Before(since.Add(DeletionTimeout)), Block{Details: Details{Since: since}}
}

// deletingSince is the deletion timestamp of the Machine or Node. An owner replaces a Machine also while a finalizer keeps its Node.
func (t *Target) deletingSince(byOwner bool) time.Time {
	if byOwner || !t.DeletingSince.IsZero() {
		return t.DeletingSince
	}
	return t.NodeDeletingSince
}

// Terminating means: the target is being deleted, or a taint or annotation announces that.
const Terminating Reason = "Terminating"

// DeletionTimeout is how long Remedy waits for the deletion of a target.
const DeletionTimeout = 30 * time.Minute

func guardTerminating(p *planner, t *Target, c *candidate) (bool, Block) {
	if since := t.deletingSince(c.step.Owner); !since.IsZero() {
		return true, Block{Until: since.Add(DeletionTimeout), Details: Details{Cause: "deletion", Since: since}}
	}
	// An announcement is left to the owner of the target.
	if t.Terminating.Sign == "" || c.step.Owner {
		return false, Block{}
	}
	block := Block{Details: Details{Cause: t.Terminating.Sign, Since: t.Terminating.Since}}
	if t.Terminating.Since.IsZero() {
		return true, block
	}
	block.Until = t.Terminating.Since.Add(DeletionTimeout)
	return p.now.Before(block.Until), block
}

// Excluded means: a label on the Node excludes it from remediation.
const Excluded Reason = "Excluded"

func guardExcluded(_ *planner, t *Target, _ *candidate) (bool, Block) {
	return t.Excluded, Block{}
}

// NoMachine means: the remediator needs the Machine of the Node as the owner of the request, and does not find one.
const NoMachine Reason = "NoMachine"

func guardNoMachine(_ *planner, t *Target, c *candidate) (bool, Block) {
	wanted := c.step.NeedsMachineIn
	return wanted != "" && t.MachineNamespace != wanted, Block{Details: Details{Cause: wanted}}
}

// NoRemediatingOwner means: the target has no owner that can remediate it.
const NoRemediatingOwner Reason = "NoRemediatingOwner"

func guardNoRemediatingOwner(_ *planner, t *Target, _ *candidate) (bool, Block) {
	return t.Owner == "", Block{Details: Details{Cause: t.Owner}}
}

// OwnerRefuses means: the owner reports that it cannot remediate the target.
const OwnerRefuses Reason = "OwnerRefuses"

func guardOwnerRefuses(_ *planner, t *Target, _ *candidate) (bool, Block) {
	return t.OwnerRemediation.Refused, Block{Details: Details{Cause: t.Owner, Message: t.OwnerRemediation.OwnerMessage}}
}

// ClusterUnreachable means: the workload cluster is unreachable, and the failure cannot be verified without it.
const ClusterUnreachable Reason = "ClusterUnreachable"

// ClockSkew means: the clocks of the manager and of the API server differ, so no timeout can be trusted.
const ClockSkew Reason = "ClockSkew"

// LargestClockSkew is how much they may differ.
const LargestClockSkew = 30 * time.Second

// Skewed reports whether the clocks differ by more than that.
func (c *Check) Skewed() bool { return c.ClockOffset.Abs() > LargestClockSkew }

func guardClockSkew(p *planner, _ *Target, _ *candidate) (bool, Block) {
	return p.s.Check.Skewed(), Block{Details: Details{Cause: p.s.Check.ClockOffset.Abs().Round(time.Second).String()}}
}

// ReconnectGracePeriod means: the manager has started, or the API server could be reached again, and kubelets get time to do so, too. The
// status of a Node whose kubelet has reported something is true.
const ReconnectGracePeriod Reason = "ReconnectGracePeriod"

func guardReconnectGracePeriod(p *planner, _ *Target, c *candidate) (bool, Block) {
	until := p.s.Check.KubeletsUntil
	v := &p.a.Verdicts[c.index]
	if !p.now.Before(until) || !OnlyReadyUnknown(v) && !onlyStartup(v) {
		return false, Block{}
	}
	return true, Block{Until: until}
}

func guardClusterUnreachable(p *planner, _ *Target, c *candidate) (bool, Block) {
	if !p.s.Check.Unreachable {
		return false, Block{}
	}
	for _, finding := range p.a.Verdicts[c.index].Findings {
		if finding.Met && !finding.NeedsNode() {
			return false, Block{Details: Details{Cause: string(finding.Rule)}}
		}
	}
	return true, Block{}
}
