// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"slices"
	"time"
)

// PauseRequested means: somebody asked not to start anything new.
const PauseRequested Reason = "PauseRequested"

func guardPauseRequested(p *pass, _ *Target, _ *candidate) (held bool, until time.Time, seen Seen) {
	requests := p.s.Check.PauseRequests
	if len(requests) == 0 {
		return false, time.Time{}, Seen{}
	}
	return true, time.Time{}, Seen{Who: slices.Min(requests), Have: len(requests)}
}
