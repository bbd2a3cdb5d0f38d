// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// NameTaken means: another object has the name of the remediation request.
const NameTaken Reason = "NameTaken"

func guardNameTaken(_ *pass, t *Target, _ *candidate) (bool, Hold) {
	return t.NameTaken != "", Hold{Seen: Seen{Who: t.NameTaken}}
}
