// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// Paused means: the check, its Cluster or the target is paused. Nothing is written.
const Paused Reason = "Paused"

func guardPaused(p *pass, _ *Target, _ *candidate) (bool, Hold) {
	return p.s.Check.Paused, Hold{}
}
