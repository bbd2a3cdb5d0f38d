// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// CheckDeleting means: the check is about to go.
const CheckDeleting Reason = "CheckDeleting"

func guardCheckDeleting(p *pass, _ *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	return p.s.Check.Deleting, time.Time{}, Seen{}
}
