// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// RequestNameConflict means: another object has the name of the remediation request.
const RequestNameConflict Reason = "RequestNameConflict"

func guardRequestNameConflict(_ *pass, t *Target, _ *candidate) (bool, Hold) {
	return t.RequestNameConflict != "", Hold{Seen: Seen{Who: t.RequestNameConflict}}
}
