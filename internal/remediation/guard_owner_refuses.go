// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// OwnerRefuses means: its owner says that it cannot remediate it.
const OwnerRefuses Reason = "OwnerRefuses"

func guardOwnerRefuses(_ *pass, t *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	return t.Mark.Refused, time.Time{}, Seen{Who: t.Owner}
}
