// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// Leaving means: it is about to go by itself: its deletion was asked for, or something announces it.
const Leaving Reason = "Leaving"

// LeavingTime is how long something that is said to be leaving is waited for.
const LeavingTime = 30 * time.Minute

func guardLeaving(p *pass, t *Target, c *candidate) (held bool, until time.Time, seen Seen) {
	if !t.DeletingSince.IsZero() {
		return true, t.DeletingSince.Add(LeavingTime), Seen{Who: "deletion", Since: t.DeletingSince}
	}
	// What is only announced is for its owner to judge, which knows more about its own plans.
	if t.Leaving.Sign == "" || c.step.Owner {
		return false, time.Time{}, Seen{}
	}
	seen = Seen{Who: t.Leaving.Sign, Since: t.Leaving.Since}
	if t.Leaving.Since.IsZero() {
		return true, time.Time{}, seen
	}
	until = t.Leaving.Since.Add(LeavingTime)
	return p.now.Before(until), until, seen
}
