// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

// Observing means: the check, or the manager, only observes.
const Observing Reason = "Observing"

func guardObserving(p *pass, _ *Target, _ *candidate) (bool, Hold) {
	return p.policy.Observe, Hold{}
}
