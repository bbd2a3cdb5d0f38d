// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// Backoff is how the waiting time between attempts grows.
type Backoff struct {
	Initial, Limit time.Duration
}

// After is how long to wait after so many failures in a row: the initial time, doubled with each further failure, up to the limit.
// With 1m and 10m: 1m, 2m, 4m, 8m, 10m, 10m ...
func (b Backoff) After(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	wait := b.Initial
	// The limit is looked at before doubling, so that no number of failures can overflow.
	for range failures - 1 {
		if wait > b.Limit/2 {
			return b.Limit
		}
		wait *= 2
	}
	return min(wait, b.Limit)
}
