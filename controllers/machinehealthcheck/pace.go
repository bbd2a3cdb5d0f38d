// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
)

// pace knows why a check is looked at, and since when that could have been done: when its deadline came, or the news that concern it.
type pace struct {
	mu     sync.Mutex
	checks map[types.NamespacedName]reasonToLook
}

// reasonToLook is when the next look is due by itself, and when the first news since the last one came; zero for neither.
type reasonToLook struct {
	due, news time.Time
	// changed: the check itself has changed since.
	changed bool
}

// told notes that there is news for a check.
func (p *pace) told(check types.NamespacedName, now time.Time) {
	p.change(check, func(r *reasonToLook) {
		if r.news.IsZero() {
			r.news = now
		}
	})
}

// changed notes that a check itself has changed.
func (p *pace) changed(check types.NamespacedName, now time.Time) {
	p.told(check, now)
	p.change(check, func(r *reasonToLook) { r.changed = true })
}

// next notes when a check is looked at again if nothing happens before.
func (p *pace) next(check types.NamespacedName, due time.Time) {
	p.change(check, func(r *reasonToLook) { r.due = due })
}

// looks says what has led to a look at a check now, and how long it has taken. A look without news and without a deadline is a routine one.
func (p *pace) looks(check types.NamespacedName, now time.Time) (trigger metrics.Trigger, late time.Duration) {
	p.change(check, func(r *reasonToLook) {
		switch due := !r.due.IsZero() && !now.Before(r.due); {
		case due && (r.news.IsZero() || r.due.Before(r.news)):
			trigger, late = metrics.ByTimer, now.Sub(r.due)
		case r.changed:
			trigger, late = metrics.BySpec, now.Sub(r.news)
		case !r.news.IsZero():
			trigger, late = metrics.ByEvent, now.Sub(r.news)
		default:
			trigger = metrics.ByResync
		}
		*r = reasonToLook{}
	})
	return trigger, late
}

func (p *pace) forget(check types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.checks, check)
}

func (p *pace) change(check types.NamespacedName, change func(*reasonToLook)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.checks == nil {
		p.checks = map[types.NamespacedName]reasonToLook{}
	}
	r := p.checks[check]
	change(&r)
	p.checks[check] = r
}
