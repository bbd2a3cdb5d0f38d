// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// firstReadTime is how long a check waits for what is read for the first time. Nothing is done meanwhile, and no condition reports a cluster as
// unreachable only because the manager has just started.
const firstReadTime = 10 * time.Second

// errNotReadYet: what the check rests on is still being read; its reader wakes the check when it is known.
var errNotReadYet = errors.New("not everything has been read yet")

// awaitFirstRead returns until when a check waits while something is pending; zero if it does not.
func (r *record) awaitFirstRead(pending bool, now time.Time) time.Time {
	switch {
	case !pending:
		r.firstReadSince = time.Time{}
		return time.Time{}
	case r.firstReadSince.IsZero():
		r.firstReadSince = now
	}
	if end := r.firstReadSince.Add(firstReadTime); now.Before(end) {
		return end
	}
	return time.Time{}
}

// connecting reports whether nothing is known of the Nodes yet only because they are being read for the first time.
func (s *seen) connecting() bool {
	if !s.initialized() {
		return false
	}
	if !s.connection.Up && s.connection.LastSeen.IsZero() && workload.ObstacleOf(s.connection.Err) == workload.NotConnected {
		return true
	}
	return slices.ContainsFunc(s.readings, func(r workload.Reading) bool {
		return r.Err != nil && workload.ObstacleOf(r.Err) == workload.NotReadYet
	})
}
