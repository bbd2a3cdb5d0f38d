// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"
)

// Paused means: the check, its Cluster or the target is paused. Nothing is written.
const Paused Reason = "Paused"

func guardPaused(p *pass, _ *Target, _ *candidate) (bool, Hold) {
	return p.s.Check.Paused, Hold{}
}

// CheckDeleting means: the check is being deleted.
const CheckDeleting Reason = "CheckDeleting"

func guardCheckDeleting(p *pass, _ *Target, _ *candidate) (bool, Hold) {
	return p.s.Check.Deleting, Hold{}
}

// ClusterNotFound means: the Cluster that the check names does not exist.
const ClusterNotFound Reason = "ClusterNotFound"

func guardClusterNotFound(p *pass, _ *Target, _ *candidate) (bool, Hold) {
	return p.s.Check.Cluster == ClusterIsMissing, Hold{}
}

// ClusterDeleting means: the Cluster is being deleted, and its Machines with it.
const ClusterDeleting Reason = "ClusterDeleting"

func guardClusterDeleting(p *pass, _ *Target, _ *candidate) (bool, Hold) {
	return p.s.Check.Cluster == ClusterIsDeleting, Hold{}
}

// ManagedByOtherCheck means: another check is responsible for the target.
const ManagedByOtherCheck Reason = "ManagedByOtherCheck"

func guardManagedByOtherCheck(_ *pass, t *Target, _ *candidate) (bool, Hold) {
	return t.CoveredBy != "", Hold{Until: t.CoveredUntil, Seen: Seen{Who: t.CoveredBy}}
}

// StuckDeleting means: the deletion of the target has not finished in time. Another remediation would not help.
const StuckDeleting Reason = "StuckDeleting"

func guardStuckDeleting(p *pass, t *Target, _ *candidate) (bool, Hold) {
	if t.DeletingSince.IsZero() {
		return false, Hold{}
	}
	return !p.now.Before(t.DeletingSince.Add(DeletionTimeout)), Hold{Seen: Seen{Since: t.DeletingSince}}
}

// Terminating means: the target is being deleted, or a taint or annotation announces that.
const Terminating Reason = "Terminating"

// DeletionTimeout is how long Remedy waits for the deletion of a target.
const DeletionTimeout = 30 * time.Minute

func guardTerminating(p *pass, t *Target, c *candidate) (bool, Hold) {
	if !t.DeletingSince.IsZero() {
		return true, Hold{Until: t.DeletingSince.Add(DeletionTimeout), Seen: Seen{Who: "deletion", Since: t.DeletingSince}}
	}
	// An announcement is left to the owner of the target.
	if t.Terminating.Sign == "" || c.step.Owner {
		return false, Hold{}
	}
	hold := Hold{Seen: Seen{Who: t.Terminating.Sign, Since: t.Terminating.Since}}
	if t.Terminating.Since.IsZero() {
		return true, hold
	}
	hold.Until = t.Terminating.Since.Add(DeletionTimeout)
	return p.now.Before(hold.Until), hold
}

// Excluded means: a label on the Node excludes it from remediation.
const Excluded Reason = "Excluded"

func guardExcluded(_ *pass, t *Target, _ *candidate) (bool, Hold) {
	return t.Excluded, Hold{}
}

// NoRemediatingOwner means: the target has no owner that can remediate it.
const NoRemediatingOwner Reason = "NoRemediatingOwner"

func guardNoRemediatingOwner(_ *pass, t *Target, _ *candidate) (bool, Hold) {
	return t.Owner == "", Hold{Seen: Seen{Who: t.Owner}}
}

// OwnerRefuses means: the owner reports that it cannot remediate the target.
const OwnerRefuses Reason = "OwnerRefuses"

func guardOwnerRefuses(_ *pass, t *Target, _ *candidate) (bool, Hold) {
	return t.OwnerRemediation.Refused, Hold{Seen: Seen{Who: t.Owner, Message: t.OwnerRemediation.OwnerMessage}}
}

// ClusterUnreachable means: the workload cluster is unreachable, and the failure cannot be verified without it.
const ClusterUnreachable Reason = "ClusterUnreachable"

func guardClusterUnreachable(p *pass, _ *Target, c *candidate) (bool, Hold) {
	if !p.s.Check.Unreachable {
		return false, Hold{}
	}
	for _, finding := range p.a.Verdicts[c.index].Findings {
		if finding.Met && !finding.NeedsNode() {
			return false, Hold{Seen: Seen{Who: string(finding.Rule)}}
		}
	}
	return true, Hold{}
}
