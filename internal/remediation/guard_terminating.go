// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

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
