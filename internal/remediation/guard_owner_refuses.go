// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// OwnerRefuses means: the owner reports that it cannot remediate the target.
const OwnerRefuses Reason = "OwnerRefuses"

func guardOwnerRefuses(_ *pass, t *Target, _ *candidate) (bool, Hold) {
	return t.OwnerRemediation.Refused, Hold{Seen: Seen{Who: t.Owner, Message: t.OwnerRemediation.OwnerMessage}}
}
