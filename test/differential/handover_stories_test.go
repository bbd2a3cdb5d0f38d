// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
)

// Checks that are written in the older version are told of in the world: here nobody converts between versions.

// pool makes a check of the Machines of a pool, and a Machine in it.
func (a *environment) pool(name string, changes ...func(*clusterv1.MachineHealthCheckSpec)) (*theirs, *clusterv1.Machine) {
	a.t.Helper()
	m := a.machine(name+"-1", func(m *clusterv1.Machine) { m.Labels[poolLabel] = name })
	return a.theirs(name, append(changes, func(spec *clusterv1.MachineHealthCheckSpec) {
		spec.Selector.MatchLabels = map[string]string{poolLabel: name}
	})...), m
}

// isOurs lets the in-tree controller leave a check to us.
func (c *theirs) isOurs() {
	c.t.Helper()
	c.Eventually(c.pause).Should(Equal(remedyv1.Pause))
	c.looks()
	c.Eventually(c.says(remedyv1.AdoptedCondition)).Should(Equal("True " + remedyv1.AdoptedReason))
}

// isTheirs lets the in-tree controller look after a check again.
func (c *theirs) isTheirs() {
	c.t.Helper()
	c.Eventually(func() string { c.looks(); return c.says(clusterv1.PausedCondition)() }).Should(HavePrefix("False"))
	c.looks()
}

func (a *environment) pausesCluster(paused bool) {
	a.t.Helper()
	a.Expect(a.api.Get(a.ctx, client.ObjectKeyFromObject(a.cluster), a.cluster)).To(Succeed())
	before := a.cluster.DeepCopy()
	a.cluster.Spec.Paused = &paused
	a.Expect(a.api.Patch(a.ctx, a.cluster, client.MergeFrom(before))).To(Succeed())
}

// waits is a Machine whose owner was asked to remediate it.
const waits = "False " + clusterv1.MachineOwnerRemediatedWaitingForRemediationReason

func (a *environment) owner(m *clusterv1.Machine) func() string {
	return a.says(m, clusterv1.MachineOwnerRemediatedCondition)
}

// The in-tree controller is down, or its --watch-filter keeps it from a check: it says nothing, and nothing is ours. The other check shows
// that there was time enough.
func TestWithoutTheirWordNothingIsOurs(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{All: true}
	silent, m := a.pool("silent")
	speaks, other := a.pool("speaks")
	a.goes()
	a.Eventually(silent.pause).Should(Equal(remedyv1.Pause))
	a.falls(m)
	speaks.isOurs()
	a.falls(other)
	a.Eventually(a.owner(other)).Should(Equal(waits))
	a.Eventually(silent.says(remedyv1.AdoptedCondition)).Should(Equal("False " + remedyv1.WaitingForHandoverReason))
	a.Expect(a.owner(m)()).To(BeEmpty())
	a.Expect(a.health(m)()).ToNot(Equal(isSick))
	silent.looks()
	a.Eventually(a.owner(m)).Should(Equal(waits), "it is down no more")
}

// A check that our --watch-filter keeps us from is left as it is, whatever the flag says.
func TestWhatAnotherInstanceActsForIsNotTakenOver(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver, a.watchFilter = intree.AdoptionPolicy{All: true}, "mine"
	other, m := a.pool("other")
	mine, own := a.pool("mine")
	mine.isFor("mine")
	a.goes()
	mine.isOurs()
	a.falls(m)
	a.falls(own)
	a.Eventually(a.owner(own)).Should(Equal(waits))
	a.Expect(other.traces()).To(BeEmpty())
	a.Expect(a.owner(m)()).To(BeEmpty())
	other.looks()
	a.Expect(a.owner(m)()).To(Equal(waits), "the in-tree controller looks after it")
}

// isFor sets which instance is to act for a check.
func (c *theirs) isFor(instance string) {
	c.t.Helper()
	c.Expect(c.api.Get(c.ctx, client.ObjectKeyFromObject(c.check), c.check)).To(Succeed())
	before := c.check.DeepCopy()
	if c.check.Labels == nil {
		c.check.Labels = map[string]string{}
	}
	c.check.Labels[clusterv1.WatchLabel] = instance
	c.Expect(c.api.Patch(c.ctx, c.check, client.MergeFrom(before))).To(Succeed())
}

// A check that goes takes with it what it has left; the one that comes under its name is taken over as any other.
func TestACheckIsDeletedAndGeneratedAnew(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{All: true}
	c, m := a.pool("check")
	a.goes()
	c.isOurs()
	a.falls(m)
	a.Eventually(a.owner(m)).Should(Equal(waits))
	first := c.check.Annotations[remedyv1.AdoptionIDAnnotation]
	a.Expect(a.api.Delete(a.ctx, c.check)).To(Succeed())
	a.Eventually(func() bool {
		return apierrors.IsNotFound(a.api.Get(a.ctx, client.ObjectKeyFromObject(c.check), c.check))
	}).Should(BeTrue())
	a.Expect(a.owner(m)()).To(BeEmpty(), "nobody would take the mark back")
	a.Expect(ourNotes(m)).To(BeEmpty())

	c.check = a.coreCheck("check", func(spec *clusterv1.MachineHealthCheckSpec) {
		spec.Selector.MatchLabels = map[string]string{poolLabel: "check"}
	})
	a.create(c.check)
	a.Eventually(c.says(remedyv1.AdoptedCondition)).Should(Equal("False " + remedyv1.WaitingForHandoverReason))
	a.Expect(c.pause()).To(BeEmpty(), "nobody has said yet that it is not paused")
	c.looks()
	c.isOurs()
	a.Expect(c.check.Annotations[remedyv1.AdoptionIDAnnotation]).ToNot(Equal(first))
	a.Eventually(a.owner(m)).Should(Equal(waits))
}

// A Cluster that is paused stops everybody: before a take-over, and in the midst of it.
func TestAPausedClusterStopsATakeOver(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{All: true}
	c, m := a.pool("check")
	a.pausesCluster(true)
	c.looks()
	a.goes()
	a.Eventually(c.says(remedyv1.AdoptedCondition)).Should(Equal("False " + remedyv1.PausedByOthersReason))
	a.Expect(c.pause()).To(BeEmpty())
	a.pausesCluster(false)
	c.looks()
	a.Eventually(c.pause).Should(Equal(remedyv1.Pause))

	// What it says then is about the Cluster, and about our pause.
	a.pausesCluster(true)
	c.looks()
	a.falls(m)
	a.Eventually(c.says(remedyv1.AdoptedCondition)).Should(Equal("True " + remedyv1.AdoptedReason))
	a.Expect(c.says(clusterv1.PausedCondition)()).To(Equal("True " + clusterv1.PausedReason))
	a.Expect(a.owner(m)()).To(BeEmpty())
	a.pausesCluster(false)
	a.Eventually(a.owner(m)).Should(Equal(waits))
}

// A word that is only about the Cluster is none about our pause: whoever said it may not have seen that.
func TestAWordAboutTheClusterIsNotOneAboutOurPause(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{All: true}
	c, m := a.pool("check")
	speaks, other := a.pool("speaks")
	a.goes()
	a.Eventually(c.pause).Should(Equal(remedyv1.Pause))
	a.changeStatus(c.check, func() {
		for i := range c.check.Status.Conditions {
			if said := &c.check.Status.Conditions[i]; said.Type == clusterv1.PausedCondition {
				said.Status, said.Reason, said.Message = "True", clusterv1.PausedReason, "Cluster spec.paused is set to true"
			}
		}
	})
	a.falls(m)
	speaks.isOurs()
	a.falls(other)
	a.Eventually(a.owner(other)).Should(Equal(waits))
	a.Expect(a.owner(m)()).To(BeEmpty())
	a.Eventually(c.says(remedyv1.AdoptedCondition)).Should(Equal("False " + remedyv1.WaitingForHandoverReason))
}

// A person's pause is nobody's but that person's: it is there after a release as it was before.
func TestAPersonsPauseOutlivesATakeOver(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{OptIn: true}
	c, m := a.pool("check")
	c.asked(true)
	a.goes()
	c.isOurs()
	a.falls(m)
	a.Eventually(a.owner(m)).Should(Equal(waits))
	c.annotate(clusterv1.PausedAnnotation, "by hand")
	c.asked(false)
	a.Eventually(c.says(remedyv1.AdoptedCondition)).Should(Equal("False " + remedyv1.PausedByOthersReason))
	c.looks()
	a.turnWell(m)
	a.Expect(c.pause()).To(Equal("by hand"))
	a.Expect(c.check.Finalizers).ToNot(BeEmpty(), "what is left is taken away when the pause is over")

	c.annotate(clusterv1.PausedAnnotation, "")
	a.Eventually(c.traces).Should(BeEmpty())
	c.isTheirs()
	a.Eventually(a.health(m)).Should(Equal(isWell))
	a.Expect(ourNotes(m)).To(BeEmpty())
	c.annotate(clusterv1.PausedAnnotation, "by hand")
	c.looks()
	a.Expect(c.pause()).To(Equal("by hand"))
}

// A check of ours and one of Cluster API bear the same name and select the same Machines: theirs wins as long as it is theirs, and whoever
// has begun something goes on with it.
func TestAnEqualNameOfBothKinds(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{OptIn: true}
	m := a.machine("m-1")
	c := a.theirs("check")
	ours := a.ours("check")
	a.goes()
	a.Eventually(a.tells(ours, remedyv1.SelectorsDisjointCondition)).Should(HavePrefix("False"))
	a.falls(m)
	a.Eventually(a.holds(ours, "m-1")).Should(Equal("Blocked " + string(remedyv1.BlockedManagedByOtherCheck)))
	c.looks()
	a.Expect(a.owner(m)()).To(Equal(waits), "the in-tree controller is not disturbed")
	a.Expect(ourNotes(m)).To(BeEmpty())

	c.asked(true)
	c.isOurs()
	// Of two of ours, the one of our own kind comes first.
	a.Eventually(a.tells(ours, remedyv1.SelectorsDisjointCondition)).Should(HavePrefix("True"))
	a.Eventually(c.says(remedyv1.SelectorsDisjointCondition)).Should(HavePrefix("False"))
	a.Expect(a.api.Delete(a.ctx, ours)).To(Succeed())
	a.Eventually(c.says(remedyv1.SelectorsDisjointCondition)).Should(HavePrefix("True"))
	a.turnWell(m)
	a.Eventually(a.health(m)).Should(Equal(isWell))
}

// What is given back bears no notes of ours any more, and goes on.
func TestWhatIsGivenBackIsCleanBefore(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{OptIn: true}
	a.template()
	marks, marked := a.pool("marks")
	asks, helped := a.pool("asks", byTheirTemplate)
	a.goes()
	for _, c := range []*theirs{marks, asks} {
		c.asked(true)
		c.isOurs()
	}
	a.falls(marked)
	a.falls(helped)
	a.Eventually(a.owner(marked)).Should(Equal(waits))
	a.Eventually(a.requests).Should(ConsistOf("asks-1"))
	a.Expect(ourNotes(marked)).ToNot(BeEmpty())
	for _, c := range []*theirs{marks, asks} {
		c.asked(false)
		a.Eventually(c.traces).Should(BeEmpty())
	}
	a.Expect(a.owner(marked)()).To(Equal(waits))
	a.Expect(a.owner(helped)()).To(BeEmpty())
	a.Expect(ourNotes(marked)).To(BeEmpty())
	a.Expect(ourNotes(helped)).To(BeEmpty())
	for _, request := range a.allRequests() {
		a.Expect(ourNotes(&request)).To(BeEmpty())
	}
	a.turnWell(helped)
	a.turnWell(marked)
	marks.isTheirs()
	asks.isTheirs()
	a.Expect(a.requests()).To(BeEmpty(), "the in-tree controller withdraws it as one of its own")
	a.Expect(a.health(marked)()).To(Equal(isWell))
}

// A check that goes while it is not ours, and bears our finalizer: we take away what is ours and leave to the in-tree controller what is
// its own.
func TestWhatIsTheirsStaysWhenACheckGoes(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{All: true}
	a.template()
	c, m := a.pool("check", byTheirTemplate)
	first := a.goes()
	c.isOurs()
	a.falls(m)
	a.Eventually(a.requests).Should(ConsistOf("check-1"))
	first.stop()
	// A tool takes our pause away, and the in-tree controller has its turn.
	c.annotate(clusterv1.PausedAnnotation, "")
	a.turnWell(m)
	c.isTheirs()
	a.Expect(a.requests()).To(BeEmpty())
	a.falls(m)
	c.looks()
	a.Expect(a.requests()).To(ConsistOf("check-1"))
	theirs := a.allRequests()[0].GetUID()
	a.Expect(a.api.Delete(a.ctx, c.check)).To(Succeed())
	tap := newTap()
	a.start(tap.of(ourProcesses, server.Admin), &shifted{})
	a.Eventually(func() bool {
		return apierrors.IsNotFound(a.api.Get(a.ctx, client.ObjectKeyFromObject(c.check), c.check))
	}).Should(BeTrue())
	for _, n := range tap.all() {
		if n.resource == "machinehealthchecks" && !n.read && n.before != nil && n.after != nil {
			before, after := asCheck(n.before), asCheck(n.after)
			changed := changedConditions(before.Status.Conditions, after.Status.Conditions)
			a.Expect(tells(before, after, changed)).To(BeFalse(), "the in-tree controller tells how it is: %s", n.String())
		}
	}
	a.Expect(a.allRequests()).To(HaveLen(1))
	a.Expect(a.allRequests()[0].GetUID()).To(Equal(theirs))
	a.Expect(a.api.Get(a.ctx, client.ObjectKeyFromObject(m), m)).To(Succeed())
	a.Expect(ourNotes(m)).To(BeEmpty())
}

// Who has not heard that a check is not its own any more asks before it says anything on a Machine.
func TestWhoHasNotHeardOfALossTellsNothing(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{All: true}
	closed := func(spec *clusterv1.MachineHealthCheckSpec) {
		spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = ptr.To(intstr.FromInt32(0))
		spec.Checks.UnhealthyNodeConditions = append(spec.Checks.UnhealthyNodeConditions, clusterv1.UnhealthyNodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionFalse, TimeoutSeconds: ptr.To[int32](300),
		})
	}
	tap := newTap()
	c, m := a.pool("check", closed)
	deaf := a.start(tap.of(ourProcesses, server.Admin), &shifted{})
	c.isOurs()
	a.falls(m)
	why := func() string {
		a.Expect(a.api.Get(a.ctx, client.ObjectKeyFromObject(m), m)).To(Succeed())
		return conditions.GetMessage(m, clusterv1.MachineHealthCheckSucceededCondition)
	}
	a.Eventually(why).Should(ContainSubstring("Unknown"))
	deaf.Watches().Hold("machinehealthchecks.cluster.x-k8s.io")
	c.annotate(clusterv1.PausedAnnotation, "")
	before := len(tap.all())
	// It is sick for another reason: nothing is to be done about that, but it is to be told.
	a.turn(m, corev1.ConditionFalse, 10*time.Minute)
	a.Eventually(func() bool {
		for _, n := range tap.all()[before:] {
			if n.resource == "machinehealthchecks" && n.read || n.resource == "machines" && !n.read {
				return true
			}
		}
		return false
	}).Should(BeTrue(), "it asks, or tells")
	deaf.stop()
	a.Expect(why()).To(ContainSubstring("Unknown"), "the in-tree controller has its own word, and has not said it yet")
}

// A person is faster by a moment, and has a pause there when ours is about to be put on.
func TestAPauseThatComesAtTheSameMomentStays(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{All: true}
	c, _ := a.pool("check")
	tap, first, other := newTap(), sync.Once{}, c.byAnother()
	tap.meddle = func(at place, status bool) {
		if at == (place{"machinehealthchecks", "check"}) && !status {
			first.Do(func() { other.annotate(clusterv1.PausedAnnotation, "by hand") })
		}
	}
	a.start(tap.of(ourProcesses, server.Admin), &shifted{})
	a.Eventually(c.says(remedyv1.AdoptedCondition)).Should(Equal("False " + remedyv1.PausedByOthersReason))
	a.Expect(c.pause()).To(Equal("by hand"))
}

// The in-tree controller says something in the moment in which we are about to tell the status: its word stays.
func TestTheirWordIsNotOverwritten(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{All: true}
	c, m := a.pool("check")
	tap, first, falls, other := newTap(), sync.Once{}, atomic.Bool{}, c.byAnother()
	tap.meddle = func(at place, status bool) {
		if at == (place{"machinehealthchecks", "check"}) && status && falls.Load() {
			first.Do(func() {
				other.annotate(clusterv1.PausedAnnotation, "")
				other.looks()
			})
		}
	}
	a.start(tap.of(ourProcesses, server.Admin), &shifted{})
	c.isOurs()
	a.Eventually(c.says(remedyv1.ReadyCondition)).Should(HavePrefix("True"))
	falls.Store(true)
	a.falls(m)
	a.Eventually(c.says(clusterv1.PausedCondition)).Should(HavePrefix("False"), "the in-tree controller has set its condition")
	a.Eventually(c.pause).Should(Equal(remedyv1.Pause), "it is taken over once more, as nobody says that it is paused")
	a.Expect(c.says(clusterv1.PausedCondition)()).To(HavePrefix("False"))
	a.Expect(a.owner(m)()).To(BeEmpty(), "Remedy reports before it acts, and the check was no longer its own then")
}
