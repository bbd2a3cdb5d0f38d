// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// freshTime is how long a preflight check is valid, and slowCall how long one takes in a slow world: a reconcile begins no other after that.
const freshTime, slowCall = 3 * time.Second, 5 * time.Second

// order is what a reconcile has done, for invariants about the sequence itself.
type order struct {
	prepared, announced, started bool
	// preflightAt is when the last preflight check of a target began, by its index. preflightMoment is when the last one was, in the order of
	// everything that happens, and unused: no decision of it was acted on yet.
	preflightAt     map[int]time.Duration
	preflightMoment int
	unused          bool
	// readAt is when the last live read began; acted: something was done since.
	readAt time.Duration
	acted  bool
	// changes are all changes of the world that this reconcile has seen: those before its last preflight check, and its own.
	changes int
}

// read is called before a live read.
func (o *order) read(began time.Duration) { o.readAt, o.acted = began, false }

// preflight is called when a preflight check reads.
func (o *order) preflight(w *World, targets []int, began time.Duration) {
	if o.preflightAt == nil {
		o.preflightAt = map[int]time.Duration{}
	}
	for _, i := range targets {
		o.preflightAt[i] = began
	}
	o.unused, o.preflightMoment, o.changes = true, w.moment(), w.changes
	o.read(began)
}

// auditOrder is called before the first write of a decision.
func (r *run) auditOrder(i int, d *remediation.Decision, target string) {
	w, o := r.w, &r.order
	if !d.Starts() && !d.Ends() {
		return
	}
	began, found := o.preflightAt[i]
	fresh := o.unused || r.elapsed-began < freshTime || o.readAt-began < freshTime
	w.must(found && fresh, "an act follows its preflight check", "%s acts on %s", r.name, target)
	w.must(!o.acted, "a pause is read before every act", "%s acts on %s", r.name, target)
	w.must(o.announced, "health is reported before an act", "%s acts on %s", r.name, target)
	w.must(d.Starts() || !o.started, "what ends comes before what starts", "%s ends that of %s (%s)", r.name, target, d.Why)
	o.started, o.unused, o.acted = o.started || d.Starts(), false, true
}

// disturbed reports whether another writer has changed something since the last preflight check. What is decided for its other targets may be
// out of date by then, for freshTime.
func (r *run) disturbed() bool { return r.order.changes != r.w.changes }
