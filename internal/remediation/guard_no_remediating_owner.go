// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// NoRemediatingOwner means: the target has no owner that can remediate it.
const NoRemediatingOwner Reason = "NoRemediatingOwner"

func guardNoRemediatingOwner(_ *pass, t *Target, _ *candidate) (bool, Hold) {
	return t.Owner == "", Hold{Seen: Seen{Who: t.Owner}}
}
