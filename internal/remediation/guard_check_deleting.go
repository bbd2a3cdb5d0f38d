// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// CheckDeleting means: the check is being deleted.
const CheckDeleting Reason = "CheckDeleting"

func guardCheckDeleting(p *pass, _ *Target, _ *candidate) (bool, Hold) {
	return p.s.Check.Deleting, Hold{}
}
