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
