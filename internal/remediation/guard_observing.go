// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// Observing means: the check, or the manager, only observes.
const Observing Reason = "Observing"

func guardObserving(p *pass, _ *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	return p.policy.Observe, time.Time{}, Seen{}
}
