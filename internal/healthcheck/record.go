// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/annotations"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/checkup"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
)

// record is what this process remembers of one check. It is lost with the process: what has to outlast a restart is an annotation. One
// worker reconciles a check at a time, so only the trigger, which watches set, needs the lock of records.
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

// pause is that of a target.
type pause struct {
	paused bool
	ended  time.Time
}

// observePauses notes which targets are paused now, and returns when the pauses of the others ended. After a restart it is not known, so a
// step that was under way during a pause has less time left than it could have.
func (r *record) observePauses(targets []*Target, now time.Time) map[types.UID]time.Time {
	var known map[types.UID]pause
	var ended map[types.UID]time.Time
	for _, t := range targets {
		was, paused := r.pauses[t.uid()], annotations.HasPaused(t.Object)
		if !paused && !was.paused && was.ended.IsZero() {
			continue
		}
		if was.paused && !paused {
			was.ended = now
		}
		was.paused = paused
		if known == nil {
			known, ended = map[types.UID]pause{}, map[types.UID]time.Time{}
		}
		known[t.uid()], ended[t.uid()] = was, was.ended
	}
	r.pauses = known
	return ended
}

// observeNodes notes since when Nodes no longer exist. A check that only observes cannot annotate that on its targets.
func (r *record) observeNodes(targets []*Target, verdicts []health.Verdict) {
	r.nodeGoneSince = nil
	for i := range verdicts {
		if verdicts[i].NodeGoneSince.IsZero() {
			continue
		}
		if r.nodeGoneSince == nil {
			r.nodeGoneSince = map[types.UID]time.Time{}
		}
		r.nodeGoneSince[targets[i].uid()] = verdicts[i].NodeGoneSince
	}
}

// rejectedRequest is a request that was not created: that of a step, for a target, as the check was then.
type rejectedRequest struct {
	target     types.UID
	step       remediation.StepID
	check      types.UID
	generation int64
}

type rejection struct {
	err   *checkup.RefusedError
	until time.Time
}

// rejection returns why a request was rejected, if it is not worth trying again yet. A restart forgets it, so it is tried once too often
// then.
func (r *record) rejection(request rejectedRequest, now time.Time) *checkup.RefusedError {
	if found, known := r.rejected[request]; known && now.Before(found.until) {
		return found.err
	}
	return nil
}

// reject remembers a rejection until the check is reconciled anyway, and forgets older ones.
func (r *record) reject(request rejectedRequest, err *checkup.RefusedError, now time.Time) {
	for known, found := range r.rejected {
		if !now.Before(found.until) {
			delete(r.rejected, known)
		}
	}
	if r.rejected == nil {
		r.rejected = map[rejectedRequest]rejection{}
	}
	r.rejected[request] = rejection{err, now.Add(remediation.RetryTime)}
}

// firstReadTime is how long a check waits for what is read for the first time. Nothing is done meanwhile, and no condition reports a
// cluster as unreachable only because the manager has just started.
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

// healthTime is how long one reconcile reports health on targets. The first report on thousands takes minutes, and no target that becomes
// unhealthy meanwhile waits for it: the next reconciles report the rest.
const healthTime = 500 * time.Millisecond

// healthOrder is in which order health is reported on targets. First are healthy ones that were handed to their owner, which deletes them
// until it reads that they are healthy; then unhealthy ones; then all others. It begins behind the target at which the last reconcile ran
// out of time after a failure: one whose writes fail slowly does not starve the others.
func (r *record) healthOrder(pass *explain.Pass, targets []*Target) []int {
	var recovered, unhealthy, others []int
	for i := range pass.Assessment.Verdicts {
		switch kind := pass.Assessment.Verdicts[i].Kind; {
		case kind == health.Healthy && pass.Situation.Targets[i].Mark.Given:
			recovered = append(recovered, i)
		case kind == health.Unhealthy:
			unhealthy = append(unhealthy, i)
		default:
			others = append(others, i)
		}
	}
	all := slices.Concat(recovered, unhealthy, others)
	if r.healthAfter == "" {
		return all
	}
	first := 1 + slices.IndexFunc(all, func(i int) bool { return targets[i].uid() == r.healthAfter })
	return slices.Concat(all[first:], all[:first])
}
