// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
)

// record is what this process remembers of one check. It is lost with the process: what has to outlast a restart is an annotation. One worker
// reconciles a check at a time, so only the trigger, which watches set, needs the lock of records.
type record struct {
	trigger trigger
	// failures is how many reconciles in a row have failed.
	failures int
	// firstReadSince is since when the check waits for what is read for the first time.
	firstReadSince time.Time
	// uid and version are those of the check when its status was read live or written last. The version is empty where a write may or may not
	// have happened.
	uid     types.UID
	version string
	// reported is what was told about the targets.
	reported report.Memory
	// pauses are those of targets: an annotation that was removed leaves no time behind.
	pauses map[types.UID]pause
	// nodeGoneSince is since when the Nodes of targets no longer exist, where Observe forbids to annotate the targets.
	nodeGoneSince map[types.UID]time.Time
	// healthAfter is the target behind which the next reconcile begins to report health.
	healthAfter types.UID
	// rejected are requests that the API server has rejected.
	rejected map[rejectedRequest]rejection
	// finalizerReason is why the finalizer of the check stays although nothing else is left.
	finalizerReason string
}

// records are the records of all checks of a controller.
type records struct {
	mu  sync.Mutex
	all map[types.NamespacedName]*record
}

// of returns the record of a check.
func (r *records) of(check types.NamespacedName) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.locked(check)
}

func (r *records) locked(check types.NamespacedName) *record {
	if r.all == nil {
		r.all = map[types.NamespacedName]*record{}
	}
	if r.all[check] == nil {
		r.all[check] = &record{}
	}
	return r.all[check]
}

func (r *records) forget(check types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, check)
}

// trigger is when the next reconcile of a check is due, and when the first event since the last one came; zero for neither.
type trigger struct {
	due, event time.Time
	// spec: the check itself has changed since.
	spec bool
}

// event notes an event that concerns a check, or that the check itself has changed.
func (r *records) event(check types.NamespacedName, spec bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.locked(check).trigger
	if t.event.IsZero() {
		t.event = now
	}
	t.spec = t.spec || spec
}

// due notes when a check is reconciled next if nothing happens before.
func (r *records) due(check types.NamespacedName, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.locked(check).trigger.due = at
}

// begin returns what has led to a reconcile of a check, and how long ago. Without an event and a deadline it is a resync.
func (r *records) begin(check types.NamespacedName, now time.Time) (metrics.Trigger, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.locked(check).trigger
	r.all[check].trigger = trigger{}
	switch due := !t.due.IsZero() && !now.Before(t.due); {
	case due && (t.event.IsZero() || t.due.Before(t.event)):
		return metrics.ByTimer, now.Sub(t.due)
	case t.spec:
		return metrics.BySpec, now.Sub(t.event)
	case !t.event.IsZero():
		return metrics.ByEvent, now.Sub(t.event)
	}
	return metrics.ByResync, 0
}
