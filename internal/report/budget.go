// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"time"

	"golang.org/x/time/rate"
)

const (
	// A check may record eventBurst events at once, and one per eventInterval after that.
	eventBurst    = 100
	eventInterval = 6 * time.Second
	// reservedEvents of them are not for changes of health.
	reservedEvents = eventBurst / 2
	// summaryInterval is the time between two summaries of omitted events.
	summaryInterval = time.Minute
)

// Budget limits the events of one check: Nodes that flap must not fill the API server with events.
type Budget struct {
	limiter *rate.Limiter
	// omitted are how many events were omitted since the last summary.
	omitted    int
	summarized time.Time
}

// Take reports whether an event may be recorded now. An event about an action or about the check is important.
func (b *Budget) Take(important bool, now time.Time) bool {
	if b.limiter == nil {
		b.limiter = rate.NewLimiter(rate.Every(eventInterval), eventBurst)
	}
	if (important || b.limiter.TokensAt(now) > reservedEvents) && b.limiter.AllowN(now, 1) {
		return true
	}
	b.omitted++
	return false
}

// Omitted returns how many events to report as omitted; 0 for no summary.
func (b *Budget) Omitted(now time.Time) int {
	if b.omitted == 0 || now.Before(b.summarized.Add(summaryInterval)) {
		return 0
	}
	omitted := b.omitted
	b.omitted, b.summarized = 0, now
	return omitted
}
