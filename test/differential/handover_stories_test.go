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

// test/world tests checks in the older version: here there is no conversion between versions.

// pool makes a check of the Machines of a pool, and a Machine in it.
func (a *environment) pool(name string, changes ...func(*clusterv1.MachineHealthCheckSpec)) (*inTreeCheck, *clusterv1.Machine) {
	a.t.Helper()
	m := a.machine(name+"-1", func(m *clusterv1.Machine) { m.Labels[poolLabel] = name })
	return a.inTreeCheck(name, append(changes, func(spec *clusterv1.MachineHealthCheckSpec) {
		spec.Selector.MatchLabels = map[string]string{poolLabel: name}
	})...), m
}

// isOurs waits until a check is adopted.
func (c *inTreeCheck) isOurs() {
	c.t.Helper()
	c.Eventually(c.pause).Should(Equal(remedyv1.Pause))
	c.looks()
	c.Eventually(c.condition(remedyv1.AdoptedCondition)).Should(Equal("True " + remedyv1.AdoptedReason))
}

// isTheirs waits until the in-tree controller reconciles a check again.
func (c *inTreeCheck) isTheirs() {
	c.t.Helper()
	c.Eventually(func() string { c.looks(); return c.condition(clusterv1.PausedCondition)() }).Should(HavePrefix("False"))
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
	return a.condition(m, clusterv1.MachineOwnerRemediatedCondition)
}

// The in-tree controller is down, or its --watch-filter keeps it from a check: it reports nothing, and nothing is adopted. The other check shows
// that there was time enough.
func TestAdoption_NoAcknowledgement_IsNotAdopted(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{All: true}
	silent, m := a.pool("silent")
	answers, other := a.pool("answers")
	a.goes()
	a.Eventually(silent.pause).Should(Equal(remedyv1.Pause))
	a.falls(m)
	answers.isOurs()
	a.falls(other)
	a.Eventually(a.owner(other)).Should(Equal(waits))
	a.Eventually(silent.condition(remedyv1.AdoptedCondition)).Should(Equal("False " + remedyv1.WaitingForHandoverReason))
	a.Expect(a.owner(m)()).To(BeEmpty())
	a.Expect(a.health(m)()).ToNot(Equal(isSick))
	silent.looks()
	a.Eventually(a.owner(m)).Should(Equal(waits), "it is down no more")
}

// A check that --watch-filter excludes is not changed, whatever the value of --in-tree-machinehealthchecks.
func TestAdoption_ExcludedByWatchFilter_IsNotChanged(t *testing.T) {
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
	a.Expect(a.owner(m)()).To(Equal(waits), "the in-tree controller reconciles it")
}

// isFor sets which instance is to act for a check.
func (c *inTreeCheck) isFor(instance string) {
	c.t.Helper()
	c.Expect(c.api.Get(c.ctx, client.ObjectKeyFromObject(c.check), c.check)).To(Succeed())
	before := c.check.DeepCopy()
	if c.check.Labels == nil {
		c.check.Labels = map[string]string{}
	}
	c.check.Labels[clusterv1.WatchLabel] = instance
	c.Expect(c.api.Patch(c.ctx, c.check, client.MergeFrom(before))).To(Succeed())
}

// A deleted check is cleaned up; the next one of its name is adopted like any other.
func TestAdoption_DeletedAndCreatedAgain_IsAdopted(t *testing.T) {
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
	a.Expect(a.owner(m)()).To(BeEmpty(), "no controller would remove the condition later")
	a.Expect(ourNotes(m)).To(BeEmpty())

	c.check = a.coreCheck("check", func(spec *clusterv1.MachineHealthCheckSpec) {
		spec.Selector.MatchLabels = map[string]string{poolLabel: "check"}
	})
	a.create(c.check)
	a.Eventually(c.condition(remedyv1.AdoptedCondition)).Should(Equal("False " + remedyv1.WaitingForHandoverReason))
	a.Expect(c.pause()).To(BeEmpty(), "no controller has reported yet that it is not paused")
	c.looks()
	c.isOurs()
	a.Expect(c.check.Annotations[remedyv1.AdoptionIDAnnotation]).ToNot(Equal(first))
	a.Eventually(a.owner(m)).Should(Equal(waits))
}

// A paused Cluster stops both controllers: before an adoption, and during it.
func TestAdoption_PausedCluster_Waits(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{All: true}
	c, m := a.pool("check")
	a.pausesCluster(true)
	c.looks()
	a.goes()
	a.Eventually(c.condition(remedyv1.AdoptedCondition)).Should(Equal("False " + remedyv1.PausedByOthersReason))
	a.Expect(c.pause()).To(BeEmpty())
	a.pausesCluster(false)
	c.looks()
	a.Eventually(c.pause).Should(Equal(remedyv1.Pause))

	// Its message is about the Cluster, and about the pause of Remedy.
	a.pausesCluster(true)
	c.looks()
	a.falls(m)
	a.Eventually(c.condition(remedyv1.AdoptedCondition)).Should(Equal("True " + remedyv1.AdoptedReason))
	a.Expect(c.condition(clusterv1.PausedCondition)()).To(Equal("True " + clusterv1.PausedReason))
	a.Expect(a.owner(m)()).To(BeEmpty())
	a.pausesCluster(false)
	a.Eventually(a.owner(m)).Should(Equal(waits))
}

// A message about the Cluster alone acknowledges nothing: the in-tree controller may not have read the pause of Remedy.
func TestAdoption_PausedByCluster_IsNoAcknowledgement(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{All: true}
	c, m := a.pool("check")
	answers, other := a.pool("answers")
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
	answers.isOurs()
	a.falls(other)
	a.Eventually(a.owner(other)).Should(Equal(waits))
	a.Expect(a.owner(m)()).To(BeEmpty())
	a.Eventually(c.condition(remedyv1.AdoptedCondition)).Should(Equal("False " + remedyv1.WaitingForHandoverReason))
}

// The pause of a user is not changed: it is the same after a release as before.
func TestAdoption_PausedByUser_PauseIsKept(t *testing.T) {
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
	a.Eventually(c.condition(remedyv1.AdoptedCondition)).Should(Equal("False " + remedyv1.PausedByOthersReason))
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

// A check of Remedy and an in-tree check have the same name and select the same Machines: the in-tree check is responsible until its adoption,
// and each continues what it has begun.
func TestAdoption_SameNameInBothKinds_InTreeIsResponsible(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{OptIn: true}
	m := a.machine("m-1")
	c := a.inTreeCheck("check")
	remedyEnv := a.remedyCheck("check")
	a.goes()
	a.Eventually(a.checkCondition(remedyEnv, remedyv1.SelectorsDisjointCondition)).Should(HavePrefix("False"))
	a.falls(m)
	a.Eventually(a.holds(remedyEnv, "m-1")).Should(Equal("Blocked " + string(remedyv1.BlockedManagedByOtherCheck)))
	c.looks()
	a.Expect(a.owner(m)()).To(Equal(waits), "the in-tree controller is not disturbed")
	a.Expect(ourNotes(m)).To(BeEmpty())

	c.asked(true)
	c.isOurs()
	// After the adoption, the check of Remedy comes first. Both report the overlap.
	a.Eventually(a.holds(remedyEnv, "m-1")).ShouldNot(Equal("Blocked " + string(remedyv1.BlockedManagedByOtherCheck)))
	a.Expect(a.checkCondition(remedyEnv, remedyv1.SelectorsDisjointCondition)()).To(Equal("False " + remedyv1.SelectorsOverlapReason))
	a.Eventually(c.condition(remedyv1.SelectorsDisjointCondition)).Should(HavePrefix("False"))
	a.Expect(a.api.Delete(a.ctx, remedyEnv)).To(Succeed())
	a.Eventually(c.condition(remedyv1.SelectorsDisjointCondition)).Should(HavePrefix("True"))
	a.turnWell(m)
	a.Eventually(a.health(m)).Should(Equal(isWell))
}

// A released request has no annotations of Remedy any more, and continues.
func TestRelease_Request_HasNoAnnotations(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{OptIn: true}
	a.template()
	marks, marked := a.pool("marks")
	asks, helped := a.pool("asks", byTheirTemplate)
	a.goes()
	for _, c := range []*inTreeCheck{marks, asks} {
		c.asked(true)
		c.isOurs()
	}
	a.falls(marked)
	a.falls(helped)
	a.Eventually(a.owner(marked)).Should(Equal(waits))
	a.Eventually(a.requests).Should(ConsistOf("asks-1"))
	a.Expect(ourNotes(marked)).ToNot(BeEmpty())
	for _, c := range []*inTreeCheck{marks, asks} {
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

// A check is deleted while it is not adopted, and has the finalizer of Remedy: Remedy removes its own traces, and no others.
func TestDeletion_NotAdoptedCheck_KeepsInTreeState(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{All: true}
	a.template()
	c, m := a.pool("check", byTheirTemplate)
	first := a.goes()
	c.isOurs()
	a.falls(m)
	a.Eventually(a.requests).Should(ConsistOf("check-1"))
	first.stop()
	// A tool removes the pause of Remedy, and the in-tree controller reconciles.
	c.annotate(clusterv1.PausedAnnotation, "")
	a.turnWell(m)
	c.isTheirs()
	a.Expect(a.requests()).To(BeEmpty())
	a.falls(m)
	c.looks()
	a.Expect(a.requests()).To(ConsistOf("check-1"))
	inTreeEnv := a.allRequests()[0].GetUID()
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
			a.Expect(reports(before, after, changed)).To(BeFalse(), "the in-tree controller reports its health: %s", n.String())
		}
	}
	a.Expect(a.allRequests()).To(HaveLen(1))
	a.Expect(a.allRequests()[0].GetUID()).To(Equal(inTreeEnv))
	a.Expect(a.api.Get(a.ctx, client.ObjectKeyFromObject(m), m)).To(Succeed())
	a.Expect(ourNotes(m)).To(BeEmpty())
}

// An instance that has not read the end of its adoption reads live before it writes to a Machine.
func TestAdoption_EndNotInCache_MachineIsNotChanged(t *testing.T) {
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
	// It is unhealthy for another reason: that needs no action, but a report.
	a.turn(m, corev1.ConditionFalse, 10*time.Minute)
	a.Eventually(func() bool {
		for _, n := range tap.all()[before:] {
			if n.resource == "machinehealthchecks" && n.read || n.resource == "machines" && !n.read {
				return true
			}
		}
		return false
	}).Should(BeTrue(), "it reads live, or reports")
	deaf.stop()
	a.Expect(why()).To(ContainSubstring("Unknown"), "the in-tree controller has its own message, and has not written it yet")
}

// A user pauses the check just before Remedy does.
func TestAdoption_ConcurrentPause_IsKept(t *testing.T) {
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
	a.Eventually(c.condition(remedyv1.AdoptedCondition)).Should(Equal("False " + remedyv1.PausedByOthersReason))
	a.Expect(c.pause()).To(Equal("by hand"))
}

// The in-tree controller writes the status just before Remedy does: its write stays.
func TestStatus_ConcurrentInTreeWrite_IsKept(t *testing.T) {
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
	a.Eventually(c.condition(remedyv1.ReadyCondition)).Should(HavePrefix("True"))
	falls.Store(true)
	a.falls(m)
	a.Eventually(c.condition(clusterv1.PausedCondition)).Should(HavePrefix("False"), "the in-tree controller has set its condition")
	a.Eventually(c.pause).Should(Equal(remedyv1.Pause), "it is adopted again, because it does not report a pause")
	a.Expect(c.condition(clusterv1.PausedCondition)()).To(HavePrefix("False"))
	a.Expect(a.owner(m)()).To(BeEmpty(), "Remedy reports before it acts, and the check was no longer its own then")
}
