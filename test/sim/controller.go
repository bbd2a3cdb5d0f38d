// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"time"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/pipeline"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

var (
	errCrashed  = errors.New("the controller has crashed")
	errConflict = &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonConflict, Message: "the object has been changed by another writer"}}
	// errUnreachable is tried again after a while, the others at once.
	errUnreachable = errors.New("the workload cluster cannot be reached")
)

// Pass is one reconcile of a check: what it saw, what it decided, and what became of that.
type Pass struct {
	Check      string
	Snapshot   health.Snapshot
	Situation  remediation.Situation
	Assessment health.Assessment
	// Plan is that of the report. It has no decisions if nothing was reported: the facts were out of date.
	Plan remediation.Planned
	// Writes is how many have landed. CheckWrote and Wrote are these writes: of the check, and of targets and orphans by name.
	Writes     int
	CheckWrote []remediation.CheckWrite
	Wrote      map[string][]remediation.Write
	// Status is what it has written to the status of the check; nil if it has not.
	Status *remedyv1.CheckStatus
}

func (p *Pass) wrote(target string, write remediation.Write) {
	if p.Wrote == nil {
		p.Wrote = map[string][]remediation.Write{}
	}
	p.Wrote[target] = append(p.Wrote[target], write)
}

// verdict is what was found about a target.
func (p *Pass) verdict(target string) health.Verdict {
	for i := range p.Situation.Targets {
		if p.Situation.Targets[i].Name == target {
			return p.Assessment.Verdicts[i]
		}
	}
	return health.Verdict{}
}

// run is a reconcile in progress: the client of internal/pipeline. Several can be in progress, of different checks or of two leaders: each has
// its own view, and others act in between.
type run struct {
	w     *World
	name  string
	check *Check
	view  *State
	conn  Connection
	facts *pipeline.Facts
	// own is the check with the writes of this reconcile.
	own  Check
	pass Pass
	// old: it belongs to an earlier leader that has not noticed its end yet.
	old bool
	// moves is how often everything had been moved when it began: later it writes to a management cluster without these objects.
	moves int
	// others runs other controllers; nil for none.
	others func()
	// written is how often this very reconcile has written to an object.
	written map[string]int
	// elapsed is how long it has taken, and slow: its calls take seconds.
	elapsed time.Duration
	slow    bool
	// frozen: the last live read showed a pause. pausedNow are targets that were paused then. halted: a pause or a change has stopped what comes
	// before every act.
	frozen, halted bool
	pausedNow      map[string]bool
	order          order
	// leaseKnown is the version of the control-plane Lease at the beginning, leaseSeen that of the preflight check.
	leaseKnown, leaseSeen int
	crashIn               int
	crashLate, crashed    bool
	limited               *limited
	noted                 bool
	// storm: what it has noted of the limit is a storm.
	storm  bool
	wakeUp time.Time
	err    error
}

func (w *World) newRun(check string, view *State) *run {
	return &run{
		w: w, name: check, view: view, conn: w.Conn, check: view.Checks[check], moves: w.moves, written: map[string]int{}, crashIn: never,
		pausedNow: map[string]bool{}, leaseKnown: view.Turn.Version, slow: !w.calm && !w.polls && w.log != nil && w.rarely(8),
	}
}

// Reconcile reconciles one check as the manager does.
func (w *World) Reconcile(check string) (Pass, error) {
	r := w.newRun(check, w.Cache)
	r.reconcile()
	return r.pass, r.err
}

func (r *run) reconcile() {
	if r.check == nil {
		return
	}
	w, c := r.w, r.check
	w.busy++
	defer func() { w.busy-- }()
	r.own = *c
	r.facts = &pipeline.Facts{Check: r.name, Finalizer: c.Finalizer, Health: c.Health, Policy: c.Policy}
	r.facts.Snapshot, r.facts.Situation = Facts(r.view, c, r.conn, w.Now)
	r.remember(&r.facts.Situation)
	r.pass.Check, r.pass.Snapshot, r.pass.Situation = r.name, r.facts.Snapshot, r.facts.Situation
	r.wakeUp, r.err = pipeline.RunOneByOne(context.Background(), r.facts, r, stopwatch{r, w.Now}, w.Now)
}

// stopwatch is the clock of a reconcile. Nothing else in the world takes time meanwhile.
type stopwatch struct {
	r     *run
	began time.Time
}

// Now is the time by this clock.
func (s stopwatch) Now() time.Time { return s.began.Add(s.r.elapsed) }

// Since is the time since then by this clock.
func (s stopwatch) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

// call is the beginning of a call: others act before it, and it may take long.
func (r *run) call() {
	if r.crashed {
		return
	}
	if r.others != nil {
		r.others()
	}
	if r.slow {
		r.elapsed += time.Duration(r.w.draw.IntN(2500)) * time.Millisecond
	}
}
