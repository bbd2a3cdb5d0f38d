// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// Excluded means: a label on the Node excludes it from remediation.
const Excluded Reason = "Excluded"

func guardExcluded(_ *pass, t *Target, _ *candidate) (bool, Hold) {
	return t.Excluded, Hold{}
}
