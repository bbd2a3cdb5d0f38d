// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// readingTime is how long a check waits for what is being read for the first time. Nothing is forgotten meanwhile, as nothing is done; and nobody
// is told that a cluster cannot be reached only because we have just begun.
const readingTime = 10 * time.Second

// errNotReadYet: what the check rests on is being read, and somebody wakes us when it is known.
var errNotReadYet = errors.New("not everything has been read yet")

// waits remembers since when checks have waited.
type waits struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

// until says until when a check waits; zero if it has waited for long enough.
func (w *waits) until(check types.NamespacedName, now time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	since, waiting := w.since[check]
	if !waiting {
		if w.since == nil {
			w.since = map[types.NamespacedName]time.Time{}
		}
		since, w.since[check] = now, now
	}
	if end := since.Add(readingTime); now.Before(end) {
		return end
	}
	return time.Time{}
}

// over notes that a check does not wait any more.
func (w *waits) over(check types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.since, check)
}

// connecting says whether nothing is known of the Nodes yet only because they are being read for the first time.
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
