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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/pipeline"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// record is the state of one check in memory. A restart loses it: persistent state is in annotations. One worker reconciles a check at a
// time, so only the trigger, which watches set, needs the lock of records.
type record struct {
	trigger trigger
	// failures and conflicts count the reconciles in a row that failed, and that had only conflicts.
	failures, conflicts int
	// firstReadSince is since when the check waits for a first read.
	firstReadSince time.Time
	// uid and version are those of the check at its last live read or write. The version is empty if there may be a newer one. written is the
	// check after the last write, until a reconcile reads one from the cache that is as new.
	uid     types.UID
	version string
	written client.Object
	// reported is what was reported about the targets.
	reported report.Memory
	// events limits those of the check.
	events report.Budget
	// pauses are those of targets, because a removed annotation has no time.
	pauses map[types.UID]pause
	// nodeGoneSince is since when the Nodes of targets no longer exist, if Observe forbids to annotate the targets.
	nodeGoneSince map[types.UID]time.Time
	// blockedAt is when the remediation of targets was last blocked after it was planned.
	blockedAt map[types.UID]time.Time
	// unhealthyAt is when targets were first evaluated as unhealthy.
	unhealthyAt map[types.UID]time.Time
	// healthAfter is the target after which the next reconcile begins to report health.
	healthAfter types.UID
	// requests remembers those of the targets.
	requests remediation.RequestMemory
	// rejected are requests that the API server has rejected. Requests are created at the same time.
	rejectedMu sync.Mutex
	rejected   map[rejectedRequest]rejection
	// targets is the number of targets, targetsAt when it last changed, and mostTargets its maximum since a minute before that.
	targets, mostTargets int
	targetsAt            time.Time
	// lastNodes are the targets of the last read, if these are Nodes.
	lastNodes []*Target
	// unreleased is a Lease that could not be released, and why; empty if there is none to report.
	unreleased string
	// lastRequests are the requests of the last read, if these are in a workload cluster.
	lastRequests []*requests.Request
	// selfHosted is the UID of the Cluster, if that was found to be the management cluster.
	selfHosted types.UID
	// finalizerReason is the last logged reason for which the finalizer of the check stays.
	finalizerReason string
}

// wrote records a check that was written.
func (r *record) wrote(check client.Object) {
	// Objects in the cache do not have them either.
	check.SetManagedFields(nil)
	r.uid, r.version, r.written = check.GetUID(), check.GetResourceVersion(), check
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

// trigger is when the next reconcile of a check is due, and the time of the first event since the last one; zero without.
type trigger struct {
	due, event time.Time
	// spec: the check itself has changed since.
	spec bool
}

// event records an event that concerns a check, or a change of the check itself.
func (r *records) event(check types.NamespacedName, spec bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.locked(check).trigger
	if t.event.IsZero() {
		t.event = now
	}
	t.spec = t.spec || spec
}

// due records when a check is reconciled next if no event comes before.
func (r *records) due(check types.NamespacedName, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.locked(check).trigger.due = at
}

// begin returns what has triggered a reconcile, and how long ago. Without an event and a deadline it is a resync.
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

// observePauses records which targets are paused now, and returns when the pauses of the others ended. A restart loses these times, so a
// remediation step that was paused times out earlier then.
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

// observeNodes records since when Nodes no longer exist. A check that only observes cannot annotate it on its targets.
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

// observeBlocked records which starts and ends of remediations were blocked after they were planned.
func (r *record) observeBlocked(evaluation *explain.Evaluation, targets []*Target, now time.Time) {
	before := r.blockedAt
	r.blockedAt = nil
	for i := range evaluation.Planned.Decisions {
		uid := targets[i].uid()
		at := evaluation.Planned.Decisions[i].BlockedAt(before[uid], &evaluation.Assessment.Verdicts[i], now)
		if at.IsZero() {
			continue
		}
		if r.blockedAt == nil {
			r.blockedAt = map[types.UID]time.Time{}
		}
		r.blockedAt[uid] = at
	}
}

// observeUnhealthy records when targets became unhealthy. While a target cannot be evaluated, its time stays.
func (r *record) observeUnhealthy(targets []*Target, verdicts []health.Verdict, now time.Time) {
	before := r.unhealthyAt
	r.unhealthyAt = nil
	for i := range verdicts {
		at := before[targets[i].uid()]
		switch kind := verdicts[i].Kind; {
		case kind == health.Unhealthy && at.IsZero():
			at = now
		case at.IsZero(), kind != health.Unhealthy && kind != health.Undetermined:
			continue
		}
		if r.unhealthyAt == nil {
			r.unhealthyAt = map[types.UID]time.Time{}
		}
		r.unhealthyAt[targets[i].uid()] = at
	}
}

// readRequests records the requests of the targets. In the snapshot, they become complete, and there are those that other clients have
// deleted, unless that is not known now.
func (r *record) readRequests(s *snapshot, now time.Time) {
	if s.pending || s.unknown || s.nodesUnread != nil || len(s.byTarget) == 0 && r.requests.Empty() {
		return
	}
	s.completed, s.deletedRequests = map[types.UID]*remediation.Request{}, map[types.UID]remediation.DeletedRequests{}
	targets := make(map[string]bool, len(s.targets))
	for _, t := range s.targets {
		targets[string(t.uid())] = true
		var facts *remediation.Request
		if found := s.requestFor(t); found != nil {
			facts = found.Facts(s.check.Naming)
			s.completed[t.uid()] = facts
		}
		deleted := r.requests.Unread(string(t.uid()))
		if facts != nil || len(s.unread) == 0 {
			deleted = r.requests.Read(string(t.uid()), facts, now)
		}
		if deleted != (remediation.DeletedRequests{}) {
			s.deletedRequests[t.uid()] = deleted
		}
	}
	r.requests.Keep(func(target string) bool { return targets[target] })
}

// observeRecovered forgets the deleted requests of targets that are healthy.
func (r *record) observeRecovered(targets []*Target, verdicts []health.Verdict) {
	for i := range verdicts {
		if verdicts[i].Recovered() {
			r.requests.Recovered(string(targets[i].uid()))
		}
	}
}

// replacementTime is how long a target that was removed counts as missing: its owner usually replaces it.
const replacementTime = time.Minute

// observeTargets records the number of targets, and returns how many are missing, and until when.
func (r *record) observeTargets(n int, now time.Time) (missing int, until time.Time) {
	if n != r.targets {
		r.targets, r.targetsAt = n, now
	}
	until = r.targetsAt.Add(replacementTime)
	if !now.Before(until) {
		r.mostTargets = 0
	}
	r.mostTargets = max(r.mostTargets, n)
	return r.mostTargets - n, until
}

// rejectedRequest identifies a request that the API server has rejected.
type rejectedRequest struct {
	target     types.UID
	step       remediation.StepID
	check      types.UID
	generation int64
}

type rejection struct {
	err   *pipeline.RejectedError
	until time.Time
}

// rejection returns why a request was rejected, until it is retried. A restart loses it and retries earlier.
func (r *record) rejection(request rejectedRequest, now time.Time) *pipeline.RejectedError {
	r.rejectedMu.Lock()
	defer r.rejectedMu.Unlock()
	if found, known := r.rejected[request]; known && now.Before(found.until) {
		return found.err
	}
	return nil
}

// reject remembers a rejection until the check is reconciled anyway, and forgets older ones.
func (r *record) reject(request rejectedRequest, err *pipeline.RejectedError, now time.Time) {
	r.rejectedMu.Lock()
	defer r.rejectedMu.Unlock()
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

// firstReadTime is how long a check waits for first reads. Without it, a new manager would report clusters as unreachable.
const firstReadTime = 10 * time.Second

// errNotReadYet is returned while a first read is pending. Its source reconciles the check when it is complete.
var errNotReadYet = errors.New("a first read is pending")

// awaitFirstRead returns until when a check waits for a first read; zero if it does not.
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

// healthTime is how long one reconcile reports health on targets. The next reconciles report the rest: the first report on thousands of
// targets takes minutes, and a target that becomes unhealthy meanwhile must not wait for it.
const healthTime = time.Second

// healthGroup is on how many targets health is reported at the same time.
const healthGroup = 10

// healthOrder returns the order in which health is reported on targets. First are healthy targets with OwnerRemediated=False, because their
// owner deletes them until it reads that they are healthy; then unhealthy targets; then all others. The order begins after the target at
// which the last reconcile ran out of time after a failure, so targets whose writes fail slowly do not starve the others.
func (r *record) healthOrder(evaluation *explain.Evaluation, targets []*Target) []int {
	var recovered, unhealthy, others []int
	for i := range evaluation.Assessment.Verdicts {
		switch kind := evaluation.Assessment.Verdicts[i].Kind; {
		case kind == health.Healthy && evaluation.Situation.Targets[i].OwnerRemediation.Requested:
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
