// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// ManagedByOtherCheck means: another check is responsible for the target.
const ManagedByOtherCheck Reason = "ManagedByOtherCheck"

func guardManagedByOtherCheck(_ *pass, t *Target, _ *candidate) (bool, Hold) {
	return t.CoveredBy != "", Hold{Until: t.CoveredUntil, Seen: Seen{Who: t.CoveredBy}}
}
