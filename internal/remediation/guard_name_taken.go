// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// NameTaken means: something else bears the name that its request would have.
const NameTaken Reason = "NameTaken"

func guardNameTaken(_ *pass, t *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	return t.NameTaken != "", time.Time{}, Seen{Who: t.NameTaken}
}
