// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// StuckDeleting means: the deletion of the target has not finished in time. Another remediation would not help.
const StuckDeleting Reason = "StuckDeleting"

func guardStuckDeleting(p *pass, t *Target, _ *candidate) (bool, Hold) {
	if t.DeletingSince.IsZero() {
		return false, Hold{}
	}
	return !p.now.Before(t.DeletingSince.Add(DeletionTimeout)), Hold{Seen: Seen{Since: t.DeletingSince}}
}
