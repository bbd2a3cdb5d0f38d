// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// StuckDeleting means: its deletion hangs. A second cure on top of it would not help.
const StuckDeleting Reason = "StuckDeleting"

func guardStuckDeleting(p *pass, t *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	if t.DeletingSince.IsZero() {
		return false, time.Time{}, Seen{}
	}
	return !p.now.Before(t.DeletingSince.Add(LeavingTime)), time.Time{}, Seen{Since: t.DeletingSince}
}
