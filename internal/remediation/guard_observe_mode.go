// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// ObserveMode means: the check, or the manager, only observes.
const ObserveMode Reason = "ObserveMode"

func guardObserveMode(p *pass, _ *Target, _ *candidate) (bool, Hold) {
	return p.policy.Observe, Hold{}
}
