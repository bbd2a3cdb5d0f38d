// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// Excluded means: a label on its Node keeps it from being remediated.
const Excluded Reason = "Excluded"

func guardExcluded(_ *pass, t *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	return t.Excluded, time.Time{}, Seen{}
}
