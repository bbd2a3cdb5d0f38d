// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// CoveredByOther means: another check takes care of it.
const CoveredByOther Reason = "CoveredByOther"

func guardCoveredByOther(_ *pass, t *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	return t.CoveredBy != "", t.CoveredUntil, Seen{Who: t.CoveredBy}
}
