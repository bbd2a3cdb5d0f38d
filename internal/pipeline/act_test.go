// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// An action needs a recent preflight check. The first one after it follows at once, however long the reads took.
func TestPreflight_OutOfDate_RunsAgain(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	r.takes = freshTime
	r.succeeds(g)
	g.Expect(r.calls).To(
		Equal([]string{
			"obstacle?", finalizer, "announce", "look [0 1]", "obstacle?", made(0),
			"look all", "obstacle?", "progress", "obstacle?", made(1), "report",
		}),
		"the check may have been paused meanwhile, and the limit depends on facts that are out of date by then",
	)
}

func TestPreflight_ReadsFail_BlocksAll(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(4)
	r.fails["look [0 1 2 3]"] = errors.New("no answer")
	r.succeeds(g)
	g.Expect(r.calls).To(Equal([]string{"obstacle?", finalizer, "announce", "look [0 1 2 3]", "report"}))
	for _, d := range r.pass.Planned.Decisions {
		g.Expect(d.Block.Details.Cause).To(Equal("the facts could not be read again: no answer"))
	}
}

// Many targets are read with one preflight check, and written to in groups. The check is read between two groups.
func TestRun_ManyTargets_AreReadTogether(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2 * groupSize)
	r.succeeds(g)
	created := make([]string, 2*groupSize)
	for i := range created {
		created[i] = made(i)
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
		r.facts.Situation.Targets[i].Owner, r.facts.Situation.Targets[i].ControlPlane = "KubeadmControlPlane/a", i%2 == 0
	}
	r.succeeds(g)
	workers := slices.Index(r.calls, target(1, remediation.SetMarkedBy))
	for i := 0; i < 2*groupSize; i += 2 {
		signed := slices.Index(r.calls, target(i, remediation.SetMarkedBy))
		g.Expect(r.calls[signed-1]).To(Or(Equal("look all"), Equal("obstacle?")))
		g.Expect(r.calls[signed+1]).To(Equal(target(i, remediation.SetOwnerRemediated)))
		g.Expect(signed).To(BeNumerically(">", workers), "the others are written to in groups before")
	}
}

// The report comes before anything is started. It does not claim that anything was.
func TestRun_Unhealthy_IsReportedBeforeStart(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	r.facts.Policy.Steps = append(r.facts.Policy.Steps[:0], remediation.Step{Owner: true})
	r.facts.Situation.Targets[0].Owner, r.facts.Situation.Targets[1].Owner = "MachineSet/a", "MachineSet/a"
	r.succeeds(g)
	g.Expect(r.announced.Assessment.Counts.Unhealthy).To(Equal(2))
	g.Expect(r.announced.Planned.Counts.Remediating).To(BeZero())
	for i := range r.announced.Planned.Decisions {
		g.Expect(r.announced.Planned.Decisions[i].Block.Reason).To(Equal(remediation.PreflightPending))
		g.Expect(r.pass.Planned.Decisions[i].Action).To(Equal(remediation.RequestOwnerRemediation))
	}
}

// While a reconcile acts, a report a second shows what was started, and what is still waiting.
func TestRun_LongReconcile_ReportsProgress(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(5)
	r.slow = func(call string) time.Duration {
		if strings.HasPrefix(call, "target") {
			return 600 * time.Millisecond
		}
		return 0
	}
	r.succeeds(g)
	g.Expect(r.calls).To(Equal([]string{
		"obstacle?", finalizer, "announce", "look [0 1 2 3 4]", made(0), "obstacle?", made(1), "obstacle?", "progress", "obstacle?", made(2),
		"obstacle?", made(3), "obstacle?", "progress", "obstacle?", made(4), "report",
	}))
	for n, pass := range r.progress {
		started := 2 * (n + 1)
		g.Expect(pass.Planned.Counts.Remediating).To(Equal(started))
		for i := range pass.Planned.Decisions {
			blocked := map[bool]remediation.Reason{false: remediation.PreflightPending, true: ""}[i < started]
			g.Expect(pass.Planned.Decisions[i].Block.Reason).To(Equal(blocked), "target %d", i)
		}
	}
}

// Nothing was started, so there is nothing to report.
func TestRun_OnlyRejections_ReportsNoProgress(t *testing.T) {
	g := NewWithT(t)
	r := refused(8, 8)
	r.slow = func(string) time.Duration { return time.Second }
	r.succeeds(g)
	g.Expect(r.progress).To(BeEmpty())
}

// A target that waits for a place gets its annotation without a preflight check, before the report.
func TestRun_WaitingTarget_NeedsNoPreflight(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	r.facts.Policy.ReportsHealth = true
	r.oneByOne()
	r.succeeds(g)
	signed := func(i int) string { return target(i, remediation.SetMarkedBy) }
	g.Expect(r.calls[:5]).To(ConsistOf("obstacle?", finalizer, signed(0), signed(1), "announce"))
	g.Expect(r.calls[5:]).To(Equal([]string{"look [0]", signed(0), made(0), "report"}))
}

// A remediation that is no longer wanted ends before another one starts.
func TestRun_Recovered_IsWithdrawnBeforeStart(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	r.recovered(1)
	r.succeeds(g)
	deleted := target(1, remediation.DeleteRequest)
	g.Expect(slices.Index(r.calls, deleted)).To(BeNumerically(">", slices.Index(r.calls, "announce")))
	g.Expect(slices.Index(r.calls, deleted)).To(BeNumerically("<", slices.Index(r.calls, made(0))))
}

// The request was deleted, so the end is reported, although the history could not be written after that.
func TestRun_RecordFailsAfterAction_ReportsAction(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(1)
	r.recovered(0)
	r.facts.Situation.Targets[0].History.Failures = 1
	r.fails[target(0, remediation.WriteHistory)] = conflict
	_, err := r.run()
	g.Expect(err).To(HaveOccurred())
	g.Expect(r.calls).To(ContainElement(target(0, remediation.DeleteRequest)))
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
	r.then = map[string]func(){made(0): func() { r.facts.Snapshot.Targets[7].Machine.Failure, r.takes = "CreateError", 0 }}
	r.succeeds(g)
	g.Expect(r.calls).To(ContainElement(made(0)))
	for i := 1; i < 4; i++ {
		g.Expect(r.calls).ToNot(ContainElement(made(i)))
		g.Expect(r.pass.Planned.Decisions[i].Block.Reason).To(Equal(remediation.TooManyUnhealthy))
	}
}

// There is one place, and by the preflight check the limit is exceeded. Nothing else is planned in that place.
func TestRun_LimitExceededMeanwhile_PlansNoOthers(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(8)
	r.oneByOne()
	half := intstr.FromString("50%")
	r.facts.Policy.Limits.MaxUnhealthy, r.facts.Policy.Counting = &half, remediation.CountUnhealthy
	for i := 4; i < 8; i++ {
		r.facts.Snapshot.Targets[i].Machine.Failure = ""
	}
	r.then = map[string]func(){"announce": func() { r.facts.Snapshot.Targets[7].Machine.Failure = "CreateError" }}
	r.succeeds(g)
	g.Expect(r.pass.Planned.Decisions[0].Block.Reason).To(Equal(remediation.TooManyUnhealthy))
	g.Expect(r.calls).To(Equal([]string{"obstacle?", finalizer, "announce", "look [0]", "report"}))
}

// There is one place, and every request is rejected. Each target leaves the place to the next one for a while. The next reconcile follows
// after a pause.
func TestRun_AllRejected_RetriesLater(t *testing.T) {
	g := NewWithT(t)
	r := refused(50, 50)
	r.takes = time.Second
	g.Expect(r.succeeds(g)).To(Equal(noon.Add(remediation.RetryTime)))
	g.Expect(slices.DeleteFunc(r.calls, func(call string) bool { return !strings.HasPrefix(call, "look") })).To(HaveLen(3))
	g.Expect(r.pass.Planned.Counts.Remediating).To(BeZero())
}

// The same, and the report before it was slow. The next reconcile follows after the same pause, and not at once.
func TestRun_AllRejectedAfterSlowReport_RetriesLater(t *testing.T) {
	g := NewWithT(t)
	r := refused(50, 50)
	r.takes = 900 * time.Millisecond
	r.then = map[string]func(){"announce": func() { r.clock.Step(2500 * time.Millisecond) }}
	g.Expect(r.succeeds(g)).To(Equal(noon.Add(remediation.RetryTime)))
}

// Every preflight check is slow, so each is used for one start. After the time is over, the next reconcile follows at once.
func TestRun_OutOfTime_PostponesTargets(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(50)
	r.takes = preflightTime - time.Second
	g.Expect(r.succeeds(g)).To(Equal(noon))
	g.Expect(r.calls).To(ContainElements(made(0), made(1)))
	g.Expect(r.calls).ToNot(ContainElement(made(2)))
	g.Expect(r.pass.Planned.Decisions[2:]).To(HaveEach(And(
		HaveField("Block.Reason", remediation.PreflightPending), HaveField("Unconfirmed", false))))
}

// However slow the API server is, a reconcile starts something.
func TestRun_SlowReport_StillStarts(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	r.then = map[string]func(){"announce": func() { r.clock.Step(2 * passTime) }}
	wakeUp := r.succeeds(g)
	g.Expect(r.calls).To(ContainElement(made(0)))
	g.Expect(wakeUp).To(BeZero())
}

// However many are refused, those who come after them have their turn.
func TestRun_ManyRejected_OthersContinue(t *testing.T) {
	g := NewWithT(t)
	r := refused(50, 49)
	r.succeeds(g)
	g.Expect(r.calls).To(ContainElement(made(49)))
	g.Expect(r.pass.Planned.Counts.Remediating).To(Equal(1))
}

// Each rejection is slow, so one reconcile tries only some of the targets. The next ones begin with the others.
func TestRun_SlowRejections_DoNotStarveOthers(t *testing.T) {
	g := NewWithT(t)
	r := refused(50, 49)
	r.takes = preflightTime / 5
	r.runs(t, 30)
	g.Expect(r.calls).To(ContainElement(made(49)))
}
