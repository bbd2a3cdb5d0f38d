// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package checkup

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
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
	// renewed is when kubelets renewed their Leases, and replacing what others have handed to owners.
	renewed   time.Time
	replacing []remediation.Replacement
	obstacle  *remediation.PreflightCheck
	then      map[string]func()
	announced *explain.Evaluation
	pass      *explain.Evaluation
}

func (r *record) call(format string, args ...any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	said := fmt.Sprintf(format, args...)
	r.calls = append(r.calls, said)
	if happens := r.then[said]; happens != nil {
		happens()
	}
	return r.fails[said]
}

func (r *record) ControlPlane(context.Context) remediation.ControlPlane {
	_ = r.call("control plane")
	return remediation.ControlPlane{}
}

func (r *record) Obstacle(context.Context) (*remediation.PreflightCheck, error) {
	if err := r.call("obstacle?"); err != nil {
		return nil, err
	}
	return r.obstacle, nil
}

func (r *record) Preflight(_ context.Context, targets []int, all bool) (*Preflight, error) {
	r.clock.Step(r.takes)
	what := fmt.Sprint(targets)
	if all {
		what = "all"
	}
	if err := r.call("look %s", what); err != nil {
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

func (r *record) NodeLeases(_ context.Context, nodes []string) []workload.NodeLease {
	leases := make([]workload.NodeLease, len(nodes))
	for i, node := range nodes {
		leases[i] = workload.NodeLease{Renewed: r.renewed, Err: r.call("lease %s", node)}
	}
	return leases
}

func (r *record) WriteCheck(_ context.Context, _ *remediation.Planned, write remediation.CheckWrite) error {
	return r.call("check %d", write)
}

func (r *record) WriteTarget(_ context.Context, target int, _ *health.Verdict, _ *remediation.Decision, write remediation.Write) error {
	return r.call("target %d: %d", target, write)
}

func (r *record) WriteOrphan(_ context.Context, stray int, _ *remediation.Decision, write remediation.Write) error {
	return r.call("orphan %d: %d", stray, write)
}

func (r *record) Announce(_ context.Context, pass *explain.Evaluation) error {
	r.announced = pass
	return r.call("announce")
}

func (r *record) Report(_ context.Context, pass *explain.Evaluation) error {
	r.pass = pass
	return r.call("report")
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

var (
	finalizer = fmt.Sprintf("check %d", remediation.AddFinalizer)
	remove    = fmt.Sprintf("check %d", remediation.RemoveFinalizer)
	conflict  = apierrors.NewConflict(schema.GroupResource{Resource: "checks"}, "b", errors.New("changed"))
)

func made(target int) string { return fmt.Sprintf("target %d: %d", target, remediation.CreateRequest) }

func TestRun_Writes_AreInOrder(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	wakeUp, err := r.run()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(wakeUp).To(BeZero(), "a step without a timeout is waited for")
	g.Expect(r.calls).To(Equal([]string{"obstacle?", finalizer, "announce", "look [0 1]", made(0), "obstacle?", made(1), "report"}))
	g.Expect(r.pass.Planned.Counts.Remediating).To(Equal(2))
}

func TestRun_TargetFails_OthersContinue(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	r.fails[made(0)] = errors.New("the API server is busy")
	_, err := r.run()
	g.Expect(err).To(MatchError(ContainSubstring("m-0: the API server is busy")))
	g.Expect(r.calls).To(ContainElements(made(1), "report"))
	g.Expect(r.pass.Planned.Decisions[0].Hold.Reason).To(Equal(remediation.NotConfirmed), "nothing was started, as far as is known")
	g.Expect(r.pass.Planned.Decisions[1].Action).To(Equal(remediation.StartRequest))
}

func TestRun_RequestRejected_LeavesItsPlace(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	one := intstr.FromInt32(1)
	r.facts.Policy.MaxInFlight = &one
	r.fails[made(0)] = &RejectedError{Message: "denied", Cause: errors.New("denied")}
	wakeUp, err := r.run()
	g.Expect(err).ToNot(HaveOccurred(), "a rejected request is no error of the reconcile")
	g.Expect(r.calls).To(Equal([]string{"obstacle?", finalizer, "announce", "look [0]", made(0), "look [1]", made(1), "report"}))
	g.Expect(r.pass.Planned.Decisions[0].Hold).To(
		Equal(remediation.Hold{Reason: remediation.RequestFailed, Seen: remediation.Seen{Who: "denied"}}),
	)
	g.Expect(wakeUp).To(Equal(noon.Add(remediation.RetryTime)))
}

// An action needs a recent preflight check. The first one after it follows at once, however long the reads took.
func TestPreflight_OutOfDate_RunsAgain(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	r.takes = freshTime
	_, err := r.run()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(r.calls).To(
		Equal([]string{"obstacle?", finalizer, "announce", "look [0 1]", "obstacle?", made(0), "look all", "obstacle?", made(1), "report"}),
		"the check may have been paused meanwhile, and the limit depends on facts that are out of date by then",
	)
}

func TestPreflight_ReadsFail_BlocksAll(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(4)
	r.fails["look [0 1 2 3]"] = errors.New("no answer")
	_, err := r.run()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(r.calls).To(Equal([]string{"obstacle?", finalizer, "announce", "look [0 1 2 3]", "report"}))
	for _, d := range r.pass.Planned.Decisions {
		g.Expect(d.Hold.Seen.Who).To(Equal("the facts could not be read again: no answer"))
	}
}

// Many targets are read with one preflight check, and written to in groups. The check is read between two groups.
func TestRun_ManyTargets_AreReadTogether(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2 * groupSize)
	_, err := r.run()
	g.Expect(err).ToNot(HaveOccurred())
	var created []string
	for i := range 2 * groupSize {
		created = append(created, made(i))
	}
	g.Expect(r.calls[:4]).To(Equal([]string{"obstacle?", finalizer, "announce", "look all"}))
	g.Expect(r.calls[4 : 4+groupSize]).To(ConsistOf(created[:groupSize]))
	g.Expect(r.calls[4+groupSize]).To(Equal("obstacle?"))
	g.Expect(r.calls[5+groupSize : 5+2*groupSize]).To(ConsistOf(created[groupSize:]))
	g.Expect(r.calls[5+2*groupSize:]).To(Equal([]string{"report"}))
}

// Members of a control plane are remediated one after the other.
func TestRun_ManyControlPlaneTargets_AreWrittenOneByOne(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2 * groupSize)
	r.facts.Policy.Steps = []remediation.Step{{Owner: true}}
	for i := range r.facts.Situation.Targets {
		r.facts.Situation.Targets[i].Owner = "KubeadmControlPlane/a"
	}
	r.facts.Situation.Targets[1].ControlPlane = true
	_, err := r.run()
	g.Expect(err).ToNot(HaveOccurred())
	for i := range r.facts.Situation.Targets {
		signed := slices.Index(r.calls, fmt.Sprintf("target %d: %d", i, remediation.SetMarkedBy))
		g.Expect(r.calls[signed-1]).To(Or(Equal("look all"), Equal("obstacle?")))
		g.Expect(r.calls[signed+1]).To(Equal(fmt.Sprintf("target %d: %d", i, remediation.SetOwnerRemediated)))
	}
}

// The report comes before anything is started. It does not claim that anything was.
func TestRun_Unhealthy_IsReportedBeforeStart(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	r.facts.Policy.Steps = append(r.facts.Policy.Steps[:0], remediation.Step{Owner: true})
	r.facts.Situation.Targets[0].Owner, r.facts.Situation.Targets[1].Owner = "MachineSet/a", "MachineSet/a"
	_, err := r.run()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(r.announced.Assessment.Counts.Unhealthy).To(Equal(2))
	g.Expect(r.announced.Planned.Counts.Remediating).To(BeZero())
	for i := range r.announced.Planned.Decisions {
		g.Expect(r.announced.Planned.Decisions[i].Hold.Reason).To(Equal(remediation.PreflightPending))
		g.Expect(r.pass.Planned.Decisions[i].Action).To(Equal(remediation.RequestOwnerRemediation))
	}
}

// A target that waits for a place gets its annotation without a preflight check, before the report.
func TestRun_WaitingTarget_NeedsNoPreflight(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	r.facts.Policy.ReportsHealth = true
	one := intstr.FromInt32(1)
	r.facts.Policy.MaxInFlight = &one
	_, err := r.run()
	g.Expect(err).ToNot(HaveOccurred())
	signed := func(i int) string { return fmt.Sprintf("target %d: %d", i, remediation.SetMarkedBy) }
	g.Expect(r.calls[:5]).To(ConsistOf("obstacle?", finalizer, signed(0), signed(1), "announce"))
	g.Expect(r.calls[5:]).To(Equal([]string{"look [0]", signed(0), made(0), "report"}))
}

// A remediation that is no longer wanted ends before another one starts.
func TestRun_Recovered_IsWithdrawnBeforeStart(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	r.facts.Snapshot.Targets[1].Machine.Failure = ""
	r.facts.Snapshot.Targets[1].Node = health.NodeFacts{State: health.Present, Name: "n-1"}
	r.facts.Situation.Targets[1].Request = &remediation.Request{Step: r.facts.Policy.Steps[0].ID}
	_, err := r.run()
	g.Expect(err).ToNot(HaveOccurred())
	deleted := fmt.Sprintf("target 1: %d", remediation.DeleteRequest)
	g.Expect(slices.Index(r.calls, deleted)).To(BeNumerically(">", slices.Index(r.calls, "announce")))
	g.Expect(slices.Index(r.calls, deleted)).To(BeNumerically("<", slices.Index(r.calls, made(0))))
}

// The request was deleted, so the end is reported, although the history could not be written after that.
func TestRun_RecordFailsAfterAction_ReportsAction(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(1)
	r.facts.Snapshot.Targets[0].Machine.Failure = ""
	r.facts.Snapshot.Targets[0].Node = health.NodeFacts{State: health.Present, Name: "n-0"}
	r.facts.Situation.Targets[0].Request = &remediation.Request{Step: r.facts.Policy.Steps[0].ID}
	r.facts.Situation.Targets[0].History.Failures = 1
	r.fails[fmt.Sprintf("target 0: %d", remediation.WriteHistory)] = conflict
	_, err := r.run()
	g.Expect(err).To(HaveOccurred())
	g.Expect(r.calls).To(ContainElement(fmt.Sprintf("target 0: %d", remediation.DeleteRequest)))
	g.Expect(r.pass.Planned.Decisions[0].Action).To(Equal(remediation.Withdraw))
}

// More targets become unhealthy than the limit allows while the first ones are remediated.
func TestRun_LimitExceededMeanwhile_StopsTheRest(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(8)
	half := intstr.FromString("50%")
	r.facts.Policy.Limits.MaxUnhealthy = &half
	for i := 4; i < 8; i++ {
		r.facts.Snapshot.Targets[i].Machine.Failure = ""
	}
	r.facts.Policy.Counting = remediation.CountUnhealthy
	r.takes = freshTime
	r.then = map[string]func(){made(0): func() { r.facts.Snapshot.Targets[7].Machine.Failure = "CreateError" }}
	_, err := r.run()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(r.calls).To(ContainElement(made(0)))
	for i := 1; i < 4; i++ {
		g.Expect(r.calls).ToNot(ContainElement(made(i)))
		g.Expect(r.pass.Planned.Decisions[i].Hold.Reason).To(Equal(remediation.TooManyUnhealthy))
	}
}

// refused are unhealthy Machines with one place. The API server rejects the requests of the first ones.
func refused(machines, first int) *record {
	r := unhealthy(machines)
	one := intstr.FromInt32(1)
	r.facts.Policy.MaxInFlight = &one
	for i := range first {
		r.fails[made(i)] = &RejectedError{Message: "denied", Cause: errors.New("denied")}
	}
	return r
}

// There is one place, and every request is rejected. Each target leaves the place to the next one until the time is over. The next reconcile
// follows at once.
func TestRun_OutOfTime_PostponesTargets(t *testing.T) {
	g := NewWithT(t)
	r := refused(50, 50)
	r.takes = passTime / 10
	wakeUp, err := r.run()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(wakeUp).To(Equal(noon))
	looked := 0
	for _, call := range r.calls {
		if strings.HasPrefix(call, "look") {
			looked++
		}
	}
	g.Expect(looked).To(Equal(10))
	g.Expect(r.pass.Planned.Counts.Remediating).To(BeZero())
	g.Expect(r.pass.Planned.Decisions).To(ContainElement(And(
		HaveField("Hold.Reason", remediation.PreflightPending), HaveField("Unconfirmed", false))))
}

// However slow the API server is, a reconcile starts something.
func TestRun_SlowReport_StillStarts(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	r.then = map[string]func(){"announce": func() { r.clock.Step(2 * passTime) }}
	wakeUp, err := r.run()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(r.calls).To(ContainElement(made(0)))
	g.Expect(wakeUp).To(BeZero())
}

// However many are refused, those who come after them have their turn.
func TestRun_ManyRejected_OthersContinue(t *testing.T) {
	g := NewWithT(t)
	r := refused(50, 49)
	_, err := r.run()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(r.calls).To(ContainElement(made(49)))
	g.Expect(r.pass.Planned.Counts.Remediating).To(Equal(1))
}

// Each rejection is slow, so one reconcile tries only some of the targets. The next ones begin with the others.
func TestRun_SlowRejections_DoNotStarveOthers(t *testing.T) {
	g := NewWithT(t)
	r := refused(50, 49)
	r.takes = passTime / 5
	for reconcile := range 11 {
		r.facts.Situation.Targets = slices.Clone(r.facts.Situation.Targets)
		_, err := r.run()
		g.Expect(err).ToNot(HaveOccurred())
		for i := range r.facts.Situation.Targets {
			target := &r.facts.Situation.Targets[i]
			target.HeldBack = remediation.Hold{}
			if r.pass.Planned.Decisions[i].BlockedLate() {
				target.BlockedAt = noon.Add(time.Duration(reconcile) * time.Second)
			}
		}
		r.clock.SetTime(noon)
	}
	g.Expect(r.calls).To(ContainElement(made(49)))
}

func TestRun_PausedMeanwhile_StopsBeforeNextAction(t *testing.T) {
	for reason, obstacle := range map[remediation.Reason]*remediation.PreflightCheck{
		remediation.Paused: {Paused: true},
		// An edit is no pause.
		remediation.NotConfirmed: {Changed: true},
	} {
		g := NewWithT(t)
		r := unhealthy(3)
		r.then = map[string]func(){made(0): func() { r.obstacle = obstacle }}
		_, err := r.run()
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(r.calls).To(Equal([]string{"obstacle?", finalizer, "announce", "look [0 1 2]", made(0), "obstacle?", "report"}))
		g.Expect(r.pass.Planned.Decisions[0].Action).To(Equal(remediation.StartRequest))
		for _, d := range r.pass.Planned.Decisions[1:] {
			g.Expect(d.Hold.Reason).To(Equal(reason))
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
	_, err := r.run()
	g.Expect(err).ToNot(HaveOccurred())
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
				g.Expect(r.pass.Planned.Decisions[0].Hold.Reason).ToNot(BeEmpty())
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
		g.Expect(r.pass.Planned.Decisions[0].Hold.Seen.Who).To(Equal("a required write failed: Lease a/b: not allowed"))
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
	_, err := r.run()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(r.calls).To(Equal([]string{"obstacle?", "report", "obstacle?", remove}))
	r = clean()
	r.fails["report"] = errors.New("no answer")
	_, err = r.run()
	g.Expect(err).To(HaveOccurred())
	g.Expect(r.calls).ToNot(ContainElement(remove))
	r = clean()
	r.facts.Situation.Orphans = []remediation.Orphan{{Name: "m", Marked: true}, {Name: "n", Marked: true}}
	cleared := func(i int) string { return fmt.Sprintf("orphan %d: %d", i, remediation.ClearConditions) }
	r.fails[cleared(0)] = errors.New("no answer")
	_, err = r.run()
	g.Expect(err).To(HaveOccurred())
	g.Expect(r.calls).To(ContainElement(cleared(1)))
	g.Expect(r.calls).ToNot(ContainElement(remove))
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
			_, err := r.run()
			g.Expect(err).ToNot(HaveOccurred())
			if test.read {
				g.Expect(r.calls).To(ContainElement("control plane"))
			} else {
				g.Expect(r.calls).ToNot(ContainElement("control plane"))
			}
		})
	}
}
