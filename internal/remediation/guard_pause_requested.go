// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "slices"

// PauseRequested means: pauseRequests of the check block new remediations.
const PauseRequested Reason = "PauseRequested"

func guardPauseRequested(p *pass, _ *Target, _ *candidate) (bool, Hold) {
	requests := p.s.Check.PauseRequests
	if len(requests) == 0 {
		return false, Hold{}
	}
	return true, Hold{Seen: Seen{Who: slices.Min(requests), Have: len(requests)}}
}
