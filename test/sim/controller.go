// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"

	"github.com/pkg/errors"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

var (
	errCrashed  = errors.New("the controller has crashed")
	errConflict = errors.New("the object has been changed by another writer")
	// errUnreachable is tried again after a while, the others at once.
	errUnreachable = errors.New("the workload cluster cannot be reached")
)

// Pass is one reconcile of a check: what it saw, what it decided, and what became of that.
type Pass struct {
	Check      string
	Snapshot   health.Snapshot
	Situation  remediation.Situation
	Assessment health.Assessment
	Plan       remediation.Planned
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

// run is a pass that is under way. Several can be, of different checks or of two leaders: each has its own view, and others act in between.
type run struct {
	w     *World
	name  string
	check *Check
	view  *State
	conn  Connection
	pass  Pass
	// old: it belongs to an earlier leader that has not noticed its end yet.
	old bool
	// moves is how often everything had been moved when it began: later it writes to a management cluster without these objects.
	moves int
	// others runs other controllers; nil for none.
	others func()
	// written is how often this very pass has written to an object.
	written map[string]int
	// frozen: the live read just before showed a pause. lookedAt is when that was, in the order of everything that happens.
	// halted: one of them did, so that something was not written that comes before every act.
	frozen, halted bool
	lookedAt       int
	// checked: this reconcile has run a preflight check.
	checked bool
	// turnKnown is the version of the control-plane lease at the beginning, turnSeen that of the preflight check, and uidSeen whose check it
	// was.
	turnKnown, turnSeen, uidSeen int
	crashIn                      int
	crashLate                    bool
	limited                      *limited
	noted                        bool
	// storm: what it has noted of the limit is a storm.
	storm bool
	err   error
}

func (w *World) newRun(check string, view *State) *run {
	return &run{
		w: w, name: check, view: view, conn: w.Conn, check: view.Checks[check], moves: w.moves, written: map[string]int{}, crashIn: never,
		turnKnown: view.Turn.Version,
	}
}

// Reconcile does for one check what the shell does: look, decide, act, report.
func (w *World) Reconcile(check string) (Pass, error) {
	r := w.newRun(check, w.Cache)
	r.reconcile()
	return r.pass, r.err
}

func (r *run) reconcile() {
	if r.check == nil {
		return
	}
	r.w.busy++
	r.err = r.lookAndAct()
	r.w.busy--
}

func (r *run) lookAndAct() error {
	w, c, pass := r.w, r.check, &r.pass
	pass.Check = r.name
	pass.Snapshot, pass.Situation = Facts(r.view, c, r.conn, w.Now)
	pass.Assessment = health.Evaluate(&pass.Snapshot, &c.Health, w.Now)
	pass.Plan = remediation.Plan(&pass.Situation, &pass.Assessment, &c.Policy, w.Now)
	if err := r.writeChecks(func(write remediation.CheckWrite) bool { return write < remediation.ReleaseControlPlaneLease }); err != nil {
		return err
	}
	w.noteView(r)
	w.noteHealth(r, false)
	r.auditAnnounced()
	failed := r.actAll(func(int) bool { return true })
	for again := true; again && failed == nil; {
		again, failed = r.actAgain()
	}
	if errors.Is(failed, errCrashed) {
		return failed
	}
	pass.Plan.Conclude(&pass.Assessment, w.Now)
	for i := range pass.Plan.Orphans {
		if err := r.clear(i); errors.Is(err, errCrashed) {
			return err
		} else if err != nil {
			failed = err
		}
	}
	if err := r.report(); err != nil {
		return err
	}
	if err := r.recordPass(); err != nil {
		failed = err
	}
	// After a failure something may be left, so the finalizer and the control-plane lease stay.
	if failed != nil {
		return failed
	}
	return r.writeChecks(func(write remediation.CheckWrite) bool { return write >= remediation.ReleaseControlPlaneLease })
}

// writeChecks writes to the check itself. Freeze is read live before every write.
func (r *run) writeChecks(which func(remediation.CheckWrite) bool) error {
	for _, write := range r.pass.Plan.CheckWrites(&r.pass.Situation, r.check.Finalizer) {
		if !which(write) {
			continue
		}
		if r.letOthers(); r.readPause() {
			// What comes before every act was not written: nothing follows in this pass.
			r.halted = true
			continue
		}
		if err := r.writeCheck(write); err != nil {
			return err
		}
		r.pass.CheckWrote = append(r.pass.CheckWrote, write)
	}
	return nil
}

// readPause reads live whether the check or its Cluster is paused, or the check does not exist.
func (r *run) readPause() bool {
	live := r.w.API.Checks[r.name]
	r.frozen = r.halted || live == nil || live.Paused || r.w.API.Paused
	r.lookedAt = r.w.moment()
	return r.frozen
}

func (r *run) letOthers() {
	if r.others != nil {
		r.others()
	}
}

func (r *run) actAll(which func(i int) bool) (failed error) {
	for i := range r.pass.Plan.Decisions {
		if !which(i) {
			continue
		}
		if err := r.act(i); err != nil {
			failed = err
		}
		if errors.Is(failed, errCrashed) {
			return failed
		}
	}
	return failed
}

// actAgain gives the places of targets that the preflight check has blocked to others.
func (r *run) actAgain() (bool, error) {
	pass := &r.pass
	remembered := pass.Plan.Replacing
	news := remediation.PlanAgain(&pass.Plan, &pass.Situation, &pass.Assessment, &r.check.Policy, r.w.Now)
	if len(news) == 0 {
		return false, nil
	}
	if !slices.Equal(remembered, pass.Plan.Replacing) {
		if r.letOthers(); r.readPause() {
			r.halted = true
			r.block(news, &remediation.PreflightCheck{Failed: true, Paused: true})
			return false, nil
		}
		if err := r.writeCheck(remediation.WriteReplacing); err != nil {
			r.block(news, &remediation.PreflightCheck{Failed: true, Unwritten: true})
			return false, err
		}
	}
	return true, r.actAll(func(i int) bool { return slices.Contains(news, i) })
}

// block blocks decisions that nothing was written for.
func (r *run) block(targets []int, why *remediation.PreflightCheck) {
	pass := &r.pass
	for _, i := range targets {
		pass.Plan.Decisions[i] = remediation.Confirm(
			&pass.Plan, &pass.Situation.Targets[i], &pass.Plan.Decisions[i], &pass.Assessment.Verdicts[i], why, r.w.Now)
	}
}

// act runs the preflight check, and does the writes of a decision.
func (r *run) act(i int) error {
	w, pass := r.w, &r.pass
	t, d := &pass.Situation.Targets[i], &pass.Plan.Decisions[i]
	if len(d.Writes(t)) == 0 {
		return nil
	}
	if r.letOthers(); (d.Action == remediation.StartRequest || d.Action == remediation.RequestOwnerRemediation) && !w.calm && w.rarely(6) {
		w.surprise(r.name, t.Name)
	}
	look := remediation.PreflightCheck{Late: true, Verdict: pass.Assessment.Verdicts[i], Target: *t}
	if !w.Slow || !r.checked {
		look, r.checked = r.look(i), true
	}
	confirmed := remediation.Confirm(&pass.Plan, t, d, &pass.Assessment.Verdicts[i], &look, w.Now)
	pass.Plan.Decisions[i] = confirmed
	r.auditAct(t, &confirmed)
	if confirmed.Action == remediation.CancelOwnerRemediation || confirmed.Action == remediation.RemoveConditions {
		w.records.cancels(r.name, t.Name, r.old)
	}
	acted := false
	for _, write := range confirmed.Writes(t) {
		if write == remediation.CreateRequest && w.Refuses != "" {
			pass.Plan.Decisions[i] = remediation.Rejected(&confirmed, t, w.Refuses)
			return nil
		}
		r.letOthers()
		if err := r.writeTarget(t, &confirmed, write); err != nil {
			if !acted && (write <= remediation.CreateRequest || write == remediation.SetOwnerRemediated) {
				// Nothing was started, as far as is known.
				r.block([]int{i}, &remediation.PreflightCheck{Failed: true, Unwritten: true})
			}
			return err
		}
		acted = acted || write.Acts()
		pass.wrote(t.Name, write)
	}
	return nil
}

// clear writes what a orphan needs.
func (r *run) clear(i int) error {
	orphan, d := &r.pass.Situation.Orphans[i], &r.pass.Plan.Orphans[i]
	writes := d.OrphanWrites(orphan)
	if len(writes) == 0 {
		return nil
	}
	r.letOthers()
	// Freeze is read live before every act, and so is the check.
	if now := r.w.API.Checks[r.name]; r.readPause() || now.Generation != r.check.Generation || now.Deleting != r.check.Deleting {
		return nil
	}
	if m := r.w.API.Machines[orphan.Name]; m != nil && m.Paused && !r.check.ForNodes {
		return nil
	}
	r.auditOrphan(orphan, d)
	r.w.records.cancels(r.name, orphan.Name, r.old)
	for _, write := range writes {
		r.letOthers()
		if err := r.writeOrphan(orphan, d, write); err != nil {
			return err
		}
		r.pass.wrote(orphan.Name, write)
	}
	return nil
}

// report writes the health of targets at once.
func (r *run) report() error {
	c, w := r.check, r.w
	if c.ForNodes || r.pass.Situation.Check.Paused || c.Deleting || c.Policy.Observe {
		return nil
	}
	for i := range r.pass.Situation.Targets {
		m, v := r.view.Machines[r.pass.Situation.Targets[i].Name], &r.pass.Assessment.Verdicts[i]
		if m == nil || v.Kind == health.Skipped || r.pass.Situation.Targets[i].CoveredBy != "" || r.pass.Plan.Decisions[i].Unconfirmed {
			continue
		}
		sick, well := m.Unhealthy, m.Healthy
		if live := w.API.Machines[m.Name]; v.Kind == health.Unhealthy && (live == nil || live.Author != r.name) {
			continue
		}
		// With OwnerRemediated=False that is left, that would request owner remediation.
		left := m.Owner != "" && !m.Unhealthy && r.pass.Plan.Decisions[i].Action != remediation.RequestOwnerRemediation
		if left && v.Kind == health.Unhealthy {
			continue
		}
		switch v.Kind {
		case health.Unhealthy:
			sick, well = true, false
		case health.Healthy:
			sick, well = false, true
		case health.Undetermined, health.Suspect, health.Skipped:
		}
		if sick == m.Unhealthy && well == m.Healthy {
			continue
		}
		// What is paused meanwhile is not written to.
		if live := w.API.Machines[m.Name]; r.readPause() || live == nil || live.Paused {
			continue
		}
		err := r.write(fmt.Sprintf("health of %s is unhealthy=%v healthy=%v", m.Name, sick, well), func() error {
			live, err := r.machine(m)
			if err == nil {
				live.Unhealthy, live.Healthy = sick, well
			}
			return err
		})
		if errors.Is(err, errCrashed) {
			return err
		}
	}
	return nil
}
