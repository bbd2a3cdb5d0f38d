// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// NoRemediatingOwner means: it has no owner that could remediate it.
const NoRemediatingOwner Reason = "NoRemediatingOwner"

func guardNoRemediatingOwner(_ *pass, t *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	return t.Owner == "", time.Time{}, Seen{Who: t.Owner}
}
