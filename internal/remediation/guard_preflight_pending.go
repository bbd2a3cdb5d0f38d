// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// PreflightPending means: the preflight check of the decision has not run yet. The reconcile reports first, or has run out of time.
const PreflightPending Reason = "PreflightPending"

func guardPreflightPending(p *pass, _ *Target, _ *candidate) (bool, Hold) {
	return p.preflight.look.Late, Hold{}
}
