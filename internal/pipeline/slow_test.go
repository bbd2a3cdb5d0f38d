// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// runs reconciles several times. Each reconcile begins at the same time of the clock, and one second later by its facts.
func (r *record) runs(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		r.facts.Situation.Targets = slices.Clone(r.facts.Situation.Targets)
		_, _ = r.run()
		for j := range r.facts.Situation.Targets {
			target := &r.facts.Situation.Targets[j]
			target.Blocked = remediation.Block{}
			at := noon.Add(time.Duration(i) * time.Second)
			target.BlockedAt = r.pass.Planned.Decisions[j].BlockedAt(target.BlockedAt, &r.pass.Assessment.Verdicts[j], at)
		}
		r.clock.SetTime(noon)
	}
}

// failSlowly lets a write take the time of a whole reconcile, and fail.
func (r *record) failSlowly(call string) {
	if r.then == nil {
		r.then = map[string]func(){}
	}
	r.then[call] = func() { r.clock.Step(passTime) }
	r.fails[call] = errors.New("failed calling webhook: context deadline exceeded")
}

// recovered makes a target healthy that has a request.
func (r *record) recovered(i int) {
	r.facts.Snapshot.Targets[i].Machine.Failure = ""
	r.facts.Snapshot.Targets[i].Node = health.NodeFacts{State: health.Present, Name: fmt.Sprintf("n-%d", i)}
	r.facts.Situation.Targets[i].Request = &remediation.Request{Step: r.facts.Policy.Steps[0].ID}
}

// timedOut gives a target a request that has timed out.
func (r *record) timedOut(i int) {
	r.facts.Policy.Steps[0].Timeout = time.Minute
	r.facts.Situation.Targets[i].Request = &remediation.Request{Step: r.facts.Policy.Steps[0].ID, Attempt: 1, Started: noon.Add(-time.Hour)}
}

// byOwner makes owner remediation the only step.
func (r *record) byOwner() {
	r.facts.Policy.Steps, r.facts.Policy.ReportsHealth = []remediation.Step{{Owner: true}}, true
	for i := range r.facts.Situation.Targets {
		r.facts.Situation.Targets[i].Owner = "MachineSet/a"
	}
}

func (r *record) oneByOne() {
	one := intstr.FromInt32(1)
	r.facts.Policy.MaxInFlight, r.facts.Policy.ReplacementTimeout = &one, time.Hour
}

func target(i int, write remediation.Write) string { return fmt.Sprintf("target %d: %d", i, write) }

// Every call takes half a second, and one that comes later never returns. The reconcile ends in time, and has acted before.
func TestRun_CallHangs_EndsInTime(t *testing.T) {
	for name, test := range map[string]struct {
		hangs string
		from  int
	}{
		"none":                    {"none", 0},
		"a later preflight check": {"look", 2},
		"a read of the check":     {"obstacle?", 3},
		"the first write":         {made(0), 1},
		"a later write":           {made(2), 1},
		"ends":                    {target(1, remediation.DeleteRequest), 1},
		"orphans":                 {"orphan ", 2},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := unhealthy(5)
			switch name {
			case "ends":
				for i := range 5 {
					r.recovered(i)
				}
			case "orphans":
				r.facts.Situation.Orphans = []remediation.Orphan{{Name: "o-0", Marked: true}, {Name: "o-1", Marked: true}}
			}
			calls := 0
			r.slow = func(call string) time.Duration {
				if strings.HasPrefix(call, test.hangs) {
					if calls++; calls >= test.from {
						return time.Hour
					}
				}
				return 500 * time.Millisecond
			}
			_, _ = r.run()
			g.Expect(calls).To(BeNumerically(">=", test.from), "it hangs")
			g.Expect(r.clock.Now()).To(BeTemporally("<=", noon.Add(passTime+freshTime+leastTime+time.Second)))
			g.Expect(r.calls).To(ContainElement(Or(Equal(made(0)), Equal(target(0, remediation.DeleteRequest)))))
		})
	}
}

// 1,000 targets are lost, and the client can send 100 writes in a second. One reconcile starts some remediations, and ends within ten
// seconds.
func TestRun_ManyTargets_EndsWithinTenSeconds(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(1000)
	r.slow = func(call string) time.Duration {
		switch {
		case strings.HasPrefix(call, "look"), call == "report":
			return time.Second
		case strings.HasPrefix(call, "target "):
			return 10 * time.Millisecond
		}
		return 0
	}
	wakeUp := r.succeeds(g)
	g.Expect(r.clock.Now()).To(BeTemporally("<", noon.Add(10*time.Second)))
	g.Expect(wakeUp).To(Equal(noon), "the next reconcile follows at once")
	g.Expect(r.calls).To(ContainElements(made(0), made(399)))
}

// The API server takes longer for one call than a reconcile may take for all. One action is possible all the same.
func TestRun_SlowAPIServer_ActsOnce(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(3)
	r.slow = func(string) time.Duration { return 8 * time.Second }
	_, _ = r.run()
	g.Expect(r.calls).To(ContainElement(made(0)))
	g.Expect(r.calls).ToNot(ContainElement(made(1)))
}

// After a slow preflight check, one action follows, and then another preflight check.
func TestRun_SlowPreflight_ActsOnceEachTime(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(25)
	r.takes = freshTime
	r.succeeds(g)
	first := slices.Index(r.calls, "look all")
	second := slices.IndexFunc(r.calls[first+1:], func(call string) bool { return strings.HasPrefix(call, "look") })
	g.Expect(r.calls[first+1 : first+1+second]).To(Equal([]string{"obstacle?", made(0)}))
}

// The annotation takes so long that the facts of the preflight check are out of date.
func TestRun_SlowAnnotation_PostponesAction(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(1)
	r.byOwner()
	r.then = map[string]func(){target(0, remediation.SetMarkedBy): func() { r.clock.Step(freshTime) }}
	g.Expect(r.succeeds(g)).To(Equal(noon))
	g.Expect(r.calls).ToNot(ContainElement(target(0, remediation.SetOwnerRemediated)))
	g.Expect(r.pass.Planned.Decisions[0].Block.Reason).To(Equal(remediation.PreflightPending))
}

// One write takes the time of a reconcile and fails, each time. Nothing else waits for it forever.
func TestRun_SlowFailingWrite_DoesNotStarveOthers(t *testing.T) {
	for name, test := range map[string]struct {
		targets, recovered, failing int
		fails                       remediation.Write
		want                        string
	}{
		"starts after an end": {2, 1, 1, remediation.DeleteRequest, made(1)},
		"starts after ends":   {3, 2, 2, remediation.DeleteRequest, made(2)},
		"other ends":          {3, 3, 1, remediation.DeleteRequest, target(2, remediation.DeleteRequest)},
		"other starts":        {3, 0, 1, remediation.CreateRequest, made(2)},
	} {
		t.Run(name, func(t *testing.T) {
			r := unhealthy(test.targets)
			for i := range test.recovered {
				r.recovered(i)
			}
			for i := range test.failing {
				r.failSlowly(target(i, test.fails))
			}
			r.runs(t, 10)
			NewWithT(t).Expect(r.calls).To(ContainElement(test.want))
		})
	}
}

// The write to a worker always takes long and fails. A member of the control plane has its turn.
func TestRun_SlowFailingWorker_DoesNotStarveControlPlane(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	r.byOwner()
	r.facts.Situation.Targets[1].ControlPlane = true
	r.failSlowly(target(0, remediation.SetOwnerRemediated))
	r.runs(t, 10)
	g.Expect(r.calls).To(ContainElement(target(1, remediation.SetOwnerRemediated)))
}

// Orphaned targets take no more than the time in which a reconcile begins something.
func TestRun_ManyOrphans_AreBounded(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(1)
	r.then = map[string]func(){}
	for i := range 200 {
		r.facts.Situation.Orphans = append(r.facts.Situation.Orphans, remediation.Orphan{Name: fmt.Sprintf("o-%d", i), Marked: true})
		r.then[fmt.Sprintf("orphan %d: %d", i, remediation.ClearConditions)] = func() { r.clock.Step(200 * time.Millisecond) }
	}
	wakeUp := r.succeeds(g)
	g.Expect(slices.DeleteFunc(slices.Clone(r.calls), func(call string) bool { return !strings.HasPrefix(call, "orphan ") })).To(HaveLen(25))
	g.Expect(r.calls).To(ContainElement(made(0)))
	g.Expect(wakeUp).To(Equal(noon))
}

// A write for one orphaned target always times out. The others are cleaned up all the same, in one of the next reconciles.
func TestRun_HangingOrphan_DoesNotBlockOthers(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(1)
	for i := range 3 {
		r.facts.Situation.Orphans = append(r.facts.Situation.Orphans, remediation.Orphan{Name: fmt.Sprintf("o-%d", i), Marked: true})
	}
	hangs := fmt.Sprintf("orphan 1: %d", remediation.ClearConditions)
	r.slow = func(call string) time.Duration {
		if call == hangs {
			return time.Minute
		}
		return 0
	}
	for i := range 20 {
		now := noon.Add(time.Duration(i) * 20 * time.Second)
		r.clock.SetTime(now)
		_, _ = Run(context.Background(), r.facts, r, r.clock, now)
	}
	for i := range 3 {
		g.Expect(r.calls).To(ContainElement(fmt.Sprintf("orphan %d: %d", i, remediation.ClearConditions)))
	}
}

// The Cluster is paused after the report. The check is patched as little as its targets.
func TestRun_PausedAfterReport_DoesNotPatchCheck(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(3)
	r.byOwner()
	r.oneByOne()
	for i := range r.facts.Situation.Targets {
		r.looks[i] = func(read *Preflight, n int) { read.Checks[n].Paused = true }
	}
	r.then = map[string]func(){"announce": func() { r.obstacle = &remediation.PreflightCheck{Paused: true} }}
	r.succeeds(g)
	g.Expect(r.calls[slices.Index(r.calls, "look [0]"):]).ToNot(ContainElement(HavePrefix("check ")))
}

// The response to a request of owner remediation is lost, so the owner may be replacing that Machine.
func TestRun_LostResponse_KeepsPlace(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	r.byOwner()
	r.oneByOne()
	r.fails[target(0, remediation.SetOwnerRemediated)] = errors.New("http2: client connection lost")
	_, err := r.run()
	g.Expect(err).To(HaveOccurred())
	g.Expect(r.calls).ToNot(ContainElement(target(1, remediation.SetOwnerRemediated)))
	g.Expect(r.pass.Planned.Replacing).To(ConsistOf(HaveField("Target", "m-0")))
}

// A request that could not be deleted, or whose remediator could not be stopped, is not reported as ended.
func TestRun_EndFails_IsNotReportedAsDone(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(2)
	r.recovered(0)
	r.timedOut(1)
	r.fails[target(0, remediation.DeleteRequest)], r.fails[target(1, remediation.StopRemediator)] = errors.New("denied"), errors.New("denied")
	_, err := r.run()
	g.Expect(err).To(HaveOccurred())
	for i := range 2 {
		g.Expect(
			r.pass.Planned.Decisions[i],
		).To(
			And(HaveField("Action", remediation.None), HaveField("Block.Reason", remediation.PreflightFailed)),
		)
	}
}

// A step has timed out, and the target recovers before the preflight check.
func TestRun_EndNotConfirmed_WasNotAnnounced(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(1)
	r.timedOut(0)
	r.looks[0] = func(read *Preflight, _ int) { recoveredMeanwhile(read) }
	r.succeeds(g)
	g.Expect(r.announced.Planned.Decisions[0]).To(And(
		HaveField("Action", remediation.None), HaveField("Block.Reason", remediation.PreflightPending)))
}

func recoveredMeanwhile(read *Preflight) {
	read.Facts.Snapshot.Targets[0].Machine = &health.MachineFacts{}
	read.Facts.Snapshot.Targets[0].Node = health.NodeFacts{State: health.Present, Name: "n-0"}
}

// Owner remediation was requested, and the cache does not have that yet.
func TestRun_OwnerRequestedAlready_StartsNothing(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(1)
	r.byOwner()
	r.looks[0] = func(read *Preflight, _ int) {
		read.Facts.Situation.Targets[0].OwnerRemediation = remediation.OwnerRemediation{
			Requested: true, Unhealthy: true, MarkedByThis: true, RequestedByThis: true, Waiting: true, Since: noon.Add(-time.Second),
		}
	}
	r.succeeds(g)
	g.Expect(r.pass.Planned.Decisions[0]).To(And(HaveField("Action", remediation.None), HaveField("InFlight", false)))
}

// A Machine has recovered, its owner has not removed OwnerRemediated=False yet, and it is unhealthy again by the cache only. With
// HealthCheckSucceeded=False in the report, the owner would delete it.
func TestAnnounce_LeftoverCondition_RequestsNothing(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(1)
	r.byOwner()
	r.facts.Situation.Targets[0].OwnerRemediation = remediation.OwnerRemediation{
		MarkedByThis: true, RequestedByThis: true, Waiting: true, Since: noon.Add(-time.Minute),
	}
	r.looks[0] = func(read *Preflight, _ int) { recoveredMeanwhile(read) }
	r.succeeds(g)
	announced := r.announced.Facts(0)
	g.Expect(explain.ForMachine(&announced, &r.facts.Situation.Check).HealthCheckSucceeded).To(BeNil())
}

// A Machine without an owner gets the conditions. That is no block after the plan.
func TestRun_NoOwner_IsNotBlockedLate(t *testing.T) {
	g := NewWithT(t)
	r := unhealthy(1)
	r.byOwner()
	r.facts.Situation.Targets[0].Owner = ""
	r.succeeds(g)
	g.Expect(r.calls).To(ContainElement(target(0, remediation.SetOwnerRemediated)))
	g.Expect(r.pass.Planned.Decisions[0].BlockedLate()).To(BeFalse())
}
