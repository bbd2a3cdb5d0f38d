// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

var noon = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

// record is a Case that records its calls, and fails where the test wants that.
type record struct {
	facts *Facts
	mu    sync.Mutex
	calls []string
	fails map[string]error
	// looks change what is read live of a target, takes is how long that takes, obstacle is what blocks writes, and then what happens with a
	// call.
	looks map[int]func(read *Preflight, n int)
	takes time.Duration
	clock *testingclock.FakeClock
	// slow is how long a call takes; nil is no time.
	slow func(call string) time.Duration
	// renewed is when kubelets renewed their Leases, and replacing what others have handed to owners.
	renewed   time.Time
	replacing []remediation.Replacement
	obstacle  *remediation.PreflightCheck
	then      map[string]func()
	announced *explain.Evaluation
	// progress are the reports in between.
	progress []*explain.Evaluation
	pass     *explain.Evaluation
}

func (r *record) call(ctx context.Context, format string, args ...any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	said := fmt.Sprintf(format, args...)
	r.calls = append(r.calls, said)
	if r.slow != nil {
		took := r.slow(said)
		// The test takes no time itself, so this is the timeout of the call.
		if end, limited := ctx.Deadline(); limited {
			if most := time.Until(end).Round(time.Second); took > most {
				r.clock.Step(most)
				return context.DeadlineExceeded
			}
		}
		r.clock.Step(took)
	}
	if happens := r.then[said]; happens != nil {
		happens()
	}
	return r.fails[said]
}

func (r *record) ControlPlane(ctx context.Context) remediation.ControlPlane {
	_ = r.call(ctx, "control plane")
	return remediation.ControlPlane{}
}

func (r *record) Obstacle(ctx context.Context) (*remediation.PreflightCheck, error) {
	if err := r.call(ctx, "obstacle?"); err != nil {
		return nil, err
	}
	return r.obstacle, nil
}

func (r *record) Preflight(ctx context.Context, targets []int, all bool) (*Preflight, error) {
	r.clock.Step(r.takes)
	what := fmt.Sprint(targets)
	if all {
		what = "all"
	}
	if err := r.call(ctx, "look %s", what); err != nil {
		return nil, err
	}
	facts := *r.facts
	facts.Snapshot.Targets, facts.Situation.Targets = slices.Clone(facts.Snapshot.Targets), slices.Clone(facts.Situation.Targets)
	facts.Situation.Replacing = r.replacing
	read := &Preflight{Facts: &facts, Checks: make([]remediation.PreflightCheck, len(targets))}
	for n, i := range targets {
		if change := r.looks[i]; change != nil {
			change(read, n)
		}
	}
	return read, nil
}

func (r *record) NodeLeases(ctx context.Context, nodes []string) []NodeLease {
	leases := make([]NodeLease, len(nodes))
	for i, node := range nodes {
		leases[i] = NodeLease{Renewed: r.renewed, Err: r.call(ctx, "lease %s", node)}
	}
	return leases
}

func (r *record) WriteCheck(ctx context.Context, _ *remediation.Planned, write remediation.CheckWrite) error {
	return r.call(ctx, "check %d", write)
}

func (r *record) WriteTarget(ctx context.Context, target int, _ *health.Verdict, _ *remediation.Decision, write remediation.Write) error {
	return r.call(ctx, "target %d: %d", target, write)
}

func (r *record) WriteOrphan(ctx context.Context, orphan int, _ *remediation.Decision, write remediation.Write) error {
	return r.call(ctx, "orphan %d: %d", orphan, write)
}

func (r *record) Announce(ctx context.Context, pass *explain.Evaluation) error {
	r.announced = pass
	return r.call(ctx, "announce")
}

func (r *record) Progress(ctx context.Context, pass *explain.Evaluation) error {
	r.progress = append(r.progress, pass)
	return r.call(ctx, "progress")
}

func (r *record) Report(ctx context.Context, pass *explain.Evaluation) error {
	r.pass = pass
	return r.call(ctx, "report")
}

// unhealthy are n unhealthy Machines of a check with a template.
func unhealthy(n int) *record {
	f := &Facts{
		Check: "MachineHealthCheck a/b",
		Policy: remediation.Policy{
			Limits: remediation.Limits{Default: intstr.FromString("100%")}, Steps: []remediation.Step{{ID: remediation.StepID{Template: "A/a"}}},
		},
	}
	reached := health.Milestone{Reached: true}
	f.Snapshot.Cluster = health.ClusterFacts{ControlPlaneInitialized: reached, InfrastructureReady: reached}
	for i := range n {
		name := fmt.Sprintf("m-%d", i)
		f.Snapshot.Targets = append(f.Snapshot.Targets, health.Target{Name: name, Machine: &health.MachineFacts{Failure: "CreateError"}})
		f.Situation.Targets = append(f.Situation.Targets, remediation.Target{Name: name})
	}
	return &record{facts: f, fails: map[string]error{}, looks: map[int]func(*Preflight, int){}, clock: testingclock.NewFakeClock(noon)}
}

func (r *record) run() (time.Time, error) {
	return Run(context.Background(), r.facts, r, r.clock, noon)
}

func (r *record) succeeds(g *WithT) (wakeUp time.Time) {
	wakeUp, err := r.run()
	g.Expect(err).ToNot(HaveOccurred())
	return wakeUp
}

var (
	finalizer = fmt.Sprintf("check %d", remediation.AddFinalizer)
	remove    = fmt.Sprintf("check %d", remediation.RemoveFinalizer)
	conflict  = apierrors.NewConflict(schema.GroupResource{Resource: "checks"}, "b", errors.New("changed"))
)

func made(i int) string { return target(i, remediation.CreateRequest) }

func TestRun_Writes_AreInOrder(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	g.Expect(r.succeeds(g)).To(BeZero(), "a step without a timeout is waited for")
	g.Expect(r.calls).To(Equal([]string{"obstacle?", finalizer, "announce", "look [0 1]", made(0), "obstacle?", made(1), "report"}))
	g.Expect(r.pass.Planned.Counts.Remediating).To(Equal(2))
}

func TestRun_TargetFails_OthersContinue(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	r.fails[made(0)] = errors.New("the API server is busy")
	_, err := r.run()
	g.Expect(err).To(MatchError(ContainSubstring("the API server is busy")))
	g.Expect(r.calls).To(ContainElements(made(1), "report"))
	g.Expect(r.pass.Planned.Decisions[0].Block.Reason).To(Equal(remediation.PreflightFailed), "nothing was started, as far as is known")
	g.Expect(r.pass.Planned.Decisions[1].Action).To(Equal(remediation.StartRequest))
}

func TestRun_RequestRejected_LeavesItsPlace(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	r.oneByOne()
	r.fails[made(0)] = &RejectedError{Message: "denied", Cause: errors.New("denied")}
	wakeUp, err := r.run()
	g.Expect(err).ToNot(HaveOccurred(), "a rejected request is no error of the reconcile")
	g.Expect(r.calls).To(Equal([]string{"obstacle?", finalizer, "announce", "look [0]", made(0), "look [1]", made(1), "report"}))
	g.Expect(r.pass.Planned.Decisions[0].Block).To(
		Equal(remediation.Block{Reason: remediation.RequestFailed, Details: remediation.Details{Cause: "denied"}}),
	)
	g.Expect(wakeUp).To(Equal(noon.Add(remediation.RetryTime)))
}

// refused are unhealthy Machines with one place. The API server rejects the requests of the first ones.
func refused(machines, first int) *record {
	r := unhealthy(machines)
	r.oneByOne()
	for i := range first {
		r.fails[made(i)] = &RejectedError{Message: "denied", Cause: errors.New("denied")}
	}
	return r
}

func TestRun_PausedMeanwhile_StopsBeforeNextAction(t *testing.T) {
	for reason, obstacle := range map[remediation.Reason]*remediation.PreflightCheck{
		remediation.Paused: {Paused: true},
		// An edit is no pause.
		remediation.PreflightFailed: {Changed: true},
	} {
		g := NewWithT(t)
		r := unhealthy(3)
		r.then = map[string]func(){made(0): func() { r.obstacle = obstacle }}
		r.succeeds(g)
		g.Expect(r.calls).To(Equal([]string{"obstacle?", finalizer, "announce", "look [0 1 2]", made(0), "obstacle?", "report"}))
		g.Expect(r.pass.Planned.Decisions[0].Action).To(Equal(remediation.StartRequest))
		for _, d := range r.pass.Planned.Decisions[1:] {
			g.Expect(d.Block.Reason).To(Equal(reason))
		}
	}
}

// There are two places, and another process has taken one since. What this reconcile starts counts, too.
func TestPreflight_StartedSince_Counts(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	two := intstr.FromInt32(2)
	r.facts.Policy.MaxInFlight = &two
	r.replacing = []remediation.Replacement{{Target: "gone", Owner: "MachineSet/a"}}
	r.succeeds(g)
	g.Expect(r.calls).To(ContainElement(made(0)))
	g.Expect(r.calls).ToNot(ContainElement(made(1)))
}

func TestRun_FinalizerFails_DoesNothing(t *testing.T) {
	for _, test := range []struct {
		why      string
		change   func(*record)
		reported bool
		fails    bool
	}{
		{"it could not be written", func(r *record) { r.fails[finalizer] = errors.New("forbidden") }, true, true},
		{"the check is paused by now", func(r *record) { r.obstacle = &remediation.PreflightCheck{Paused: true} }, true, false},
		{"it is unknown whether it is", func(r *record) { r.fails["obstacle?"] = errors.New("no answer") }, true, true},
		{"the facts are out of date and are not reported", func(r *record) { r.fails[finalizer] = errors.Wrap(conflict, "failed") }, false, true},
	} {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			r := unhealthy(1)
			test.change(r)
			_, err := r.run()
			g.Expect(err != nil).To(Equal(test.fails))
			g.Expect(r.calls).ToNot(ContainElement(made(0)))
			g.Expect(r.pass != nil).To(Equal(test.reported))
			if r.pass != nil {
				g.Expect(r.pass.Planned.Decisions[0].Block.Reason).ToNot(BeEmpty())
			}
		})
	}
}

// What could not be written, and why, is in the status of every target that depends on it.
func TestRun_WriteFails_CauseIsReported(t *testing.T) {
	for _, write := range []string{finalizer, made(0)} {
		g := NewWithT(t)
		r := unhealthy(1)
		r.fails[write] = errors.Wrap(&WriteError{Cause: "Lease a/b: not allowed", Err: errors.New("10.0.0.1")}, "failed")
		_, err := r.run()
		g.Expect(err).To(MatchError(ContainSubstring("10.0.0.1")))
		g.Expect(r.pass.Planned.Decisions[0].Block.Details.Cause).To(Equal("a required write failed: Lease a/b: not allowed"))
	}
}

// The finalizer goes last, and only if all before has succeeded.
func TestRun_Deleting_RemovesFinalizerLast(t *testing.T) {
	g := NewWithT(t)
	clean := func() *record {
		r := unhealthy(0)
		r.facts.Finalizer = true
		return r
	}
	r := clean()
	r.succeeds(g)
	g.Expect(r.calls).To(Equal([]string{"obstacle?", "report", "obstacle?", remove}))
	r = clean()
	r.facts.Situation.Orphans = []remediation.Orphan{{Name: "m", Marked: true}, {Name: "n", Marked: true}}
	cleared := func(i int) string { return fmt.Sprintf("orphan %d: %d", i, remediation.ClearConditions) }
	r.fails[cleared(0)] = errors.New("no answer")
	_, err := r.run()
	g.Expect(err).To(HaveOccurred())
	g.Expect(r.calls).To(ContainElement(cleared(1)))
	g.Expect(r.calls).ToNot(ContainElement(remove))
}

// An API server that rejects the status of a check would otherwise keep the check, and its namespace, from being deleted.
func TestRun_ReportFails_RemovesFinalizer(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(0)
	r.facts.Finalizer = true
	r.fails["report"] = errors.New("no answer")
	_, err := r.run()
	g.Expect(err).To(MatchError("no answer"))
	g.Expect(r.calls).To(Equal([]string{"obstacle?", "report", "obstacle?", remove}))
}

// The control plane is read only if something depends on it.
func TestRun_ControlPlane_IsReadIfNeeded(t *testing.T) {
	for _, test := range []struct {
		why    string
		change func(*Facts)
		read   bool
	}{
		{"an unhealthy Machine of it may get a request", func(*Facts) {}, true},
		{"a worker is no part of it", func(f *Facts) { f.Situation.Targets[0].ControlPlane = false }, false},
		{"owners remediate without it", func(f *Facts) { f.Policy.Steps = []remediation.Step{{Owner: true}} }, false},
		{"a healthy one has nothing", func(f *Facts) { f.Snapshot.Targets[0].Machine.Failure = "" }, false},
		{"but there may be a Lease to be released", func(f *Facts) { f.Snapshot.Targets[0].Machine.Failure = ""; f.Finalizer = true }, true},
		{"a pause leaves everything", func(f *Facts) { f.Situation.Check.Paused = true }, false},
		{"what is left of one counts, too", func(f *Facts) {
			f.Situation.Targets[0].ControlPlane = false
			f.Situation.Orphans = []remediation.Orphan{{Name: "cp", ControlPlane: true, Marked: true}}
		}, true},
	} {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			r := unhealthy(1)
			r.facts.Situation.Targets[0].ControlPlane = true
			test.change(r.facts)
			r.succeeds(g)
			g.Expect(slices.Contains(r.calls, "control plane")).To(Equal(test.read))
		})
	}
}
