// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
)

// Both controllers reconcile the same check here, one after the other: the in-tree one when the test calls it, and Remedy by itself.

// asked sets the annotation that requests the adoption of a check, or removes it.
func (c *inTreeCheck) asked(is bool) {
	c.t.Helper()
	c.annotate(remedyv1.AdoptAnnotation, map[bool]string{true: "true"}[is])
}

// annotate sets an annotation of a check; an empty value removes it.
func (c *inTreeCheck) annotate(key, value string) {
	c.t.Helper()
	c.Expect(c.api.Get(c.ctx, client.ObjectKeyFromObject(c.check), c.check)).To(Succeed())
	before := c.check.DeepCopy()
	if c.check.Annotations == nil {
		c.check.Annotations = map[string]string{}
	}
	if c.check.Annotations[key] = value; value == "" {
		delete(c.check.Annotations, key)
	}
	c.Expect(c.api.Patch(c.ctx, c.check, client.MergeFrom(before))).To(Succeed())
}

// byAnother is the same check with a client of a concurrent writer.
func (c *inTreeCheck) byAnother() *inTreeCheck {
	other := *c
	other.check = c.check.DeepCopy()
	return &other
}

// pause is the value of the pause on a check; empty if it has none.
func (c *inTreeCheck) pause() string {
	c.t.Helper()
	c.Expect(c.api.Get(c.ctx, client.ObjectKeyFromObject(c.check), c.check)).To(Succeed())
	value, paused := c.check.Annotations[clusterv1.PausedAnnotation]
	if paused && value == "" {
		return "paused"
	}
	return value
}

// conditionOf is a condition of a check; empty if it does not exist.
func (c *inTreeCheck) condition(kind string) func() string {
	return func() string {
		c.t.Helper()
		c.Expect(c.api.Get(c.ctx, client.ObjectKeyFromObject(c.check), c.check)).To(Succeed())
		for _, said := range c.check.Status.Conditions {
			if said.Type == kind {
				return string(said.Status) + " " + said.Reason
			}
		}
		return ""
	}
}

// traces is everything on a check that Remedy has set.
func (c *inTreeCheck) traces() []string {
	c.t.Helper()
	c.Expect(c.api.Get(c.ctx, client.ObjectKeyFromObject(c.check), c.check)).To(Succeed())
	all := append([]string{}, c.check.Finalizers...)
	for key, value := range c.check.Annotations {
		if strings.HasPrefix(key, remedyv1.Prefix) || value == remedyv1.Pause {
			all = append(all, key)
		}
	}
	for _, kind := range clusterapi.OnlyOurs {
		if c.condition(kind)() != "" {
			all = append(all, kind)
		}
	}
	return all
}

func TestAdoption_OptIn_IsAdoptedAndReleased(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{OptIn: true}
	m := a.machine("m-1")
	c := a.inTreeCheck("check")
	a.goes()
	a.Expect(c.traces()).To(BeEmpty())

	c.asked(true)
	a.Eventually(c.condition(remedyv1.AdoptedCondition)).Should(Equal("False " + remedyv1.WaitingForHandoverReason))
	a.Expect(c.pause()).To(Equal(remedyv1.Pause))
	c.looks()
	a.Eventually(c.condition(remedyv1.AdoptedCondition)).Should(Equal("True " + remedyv1.AdoptedReason))
	a.Expect(c.condition(clusterv1.PausedCondition)()).To(HavePrefix("True"))

	a.falls(m)
	a.Eventually(a.condition(m, clusterv1.MachineOwnerRemediatedCondition)).Should(HavePrefix("False"))
	a.Eventually(c.condition(remedyv1.ReadyCondition)).Should(HavePrefix("True"))
	c.looks()
	a.Expect(c.condition(clusterv1.PausedCondition)()).To(HavePrefix("True"), "the condition Paused belongs to the in-tree controller")

	a.turnWell(m)
	a.Eventually(a.health(m)).Should(Equal(isWell))
	c.asked(false)
	a.Eventually(c.traces).Should(BeEmpty())
	c.looks()
	a.Expect(c.condition(clusterv1.PausedCondition)()).To(HavePrefix("False"))
}

// turnWell lets the Node of a Machine be ready again.
func (a *environment) turnWell(m *clusterv1.Machine) {
	a.t.Helper()
	a.turn(m, "True", 0)
}

func TestAdoption_ExistingRequest_IsAdopted(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{All: true}
	a.template()
	m := a.machine("m-1")
	c := a.inTreeCheck("check", byTheirTemplate)
	a.falls(m)
	c.looks()
	a.Expect(a.requests()).To(ConsistOf("m-1"), "the in-tree controller has asked for help")
	a.goes()
	c.isOurs()
	a.Eventually(func() []string { return ourNotes(&a.allRequests()[0]) }).ShouldNot(BeEmpty(), "it is adopted")
	a.Eventually(c.finalizers).Should(ConsistOf(remedyv1.CleanupFinalizer))
	a.turnWell(m)
	a.Eventually(a.requests).Should(BeEmpty(), "it is adopted, and withdrawn when its Machine is healthy")
	a.Eventually(a.health(m)).Should(Equal(isWell))
	a.Eventually(c.finalizers).Should(BeEmpty())
}

// finalizers are those of a check as it is now.
func (c *inTreeCheck) finalizers() []string {
	c.t.Helper()
	c.Expect(c.api.Get(c.ctx, client.ObjectKeyFromObject(c.check), c.check)).To(Succeed())
	return c.check.Finalizers
}

// The pause of a user is a pause for both, before an adoption and during it.
func TestAdoption_PausedByUser_Waits(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{All: true}
	m := a.machine("m-1")
	c := a.inTreeCheck("check")
	c.annotate(clusterv1.PausedAnnotation, "by hand")
	a.goes()
	a.Eventually(c.condition(remedyv1.AdoptedCondition)).Should(Equal("False " + remedyv1.PausedByOthersReason))
	a.Expect(c.pause()).To(Equal("by hand"))

	c.annotate(clusterv1.PausedAnnotation, "")
	c.looks()
	c.isOurs()

	c.annotate(clusterv1.PausedAnnotation, "by hand")
	a.Eventually(c.condition(remedyv1.AdoptedCondition)).Should(Equal("False " + remedyv1.PausedByOthersReason))
	a.falls(m)
	c.looks()
	a.Expect(a.health(m)()).ToNot(Equal(isSick))
	a.Expect(c.pause()).To(Equal("by hand"))
}

// A tool removes the pause of Remedy: Remedy stops, tries again, and gives up the third time.
func TestAdoption_PauseRemovedThreeTimes_IsGivenUp(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{All: true}
	c := a.inTreeCheck("check")
	a.goes()
	for range 3 {
		c.isOurs()
		c.annotate(clusterv1.PausedAnnotation, "")
		a.Eventually(c.condition(remedyv1.AdoptedCondition)).Should(HavePrefix("False"))
		c.looks()
	}
	a.Eventually(c.condition(remedyv1.AdoptedCondition)).Should(Equal("False " + remedyv1.PauseConflictReason))
	a.Expect(c.pause()).To(BeEmpty())
}

// A manager that was stopped during an adoption continues it; one that is not to adopt any more releases what it has adopted.
func TestAdoption_Restart_ContinuesUntilFlagIsRemoved(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{All: true}
	c := a.inTreeCheck("check")
	first := a.goes()
	a.Eventually(c.pause).Should(Equal(remedyv1.Pause))
	first.stop()
	c.looks()
	second := a.goes()
	a.Eventually(c.condition(remedyv1.AdoptedCondition)).Should(HavePrefix("True"))
	second.stop()
	a.takesOver = intree.AdoptionPolicy{}
	a.goes()
	a.Eventually(c.traces).Should(BeEmpty())
	c.looks()
	a.Expect(c.condition(clusterv1.PausedCondition)()).To(HavePrefix("False"))
}

// Where the in-tree controller does not run, there is no acknowledgement to wait for.
func TestReplace_NewCheck_IsReconciledAtOnce(t *testing.T) {
	a := newEnvironment(t)
	a.takesOver = intree.AdoptionPolicy{Replace: true}
	m := a.machine("m-1")
	c := a.inTreeCheck("check")
	a.goes()
	a.falls(m)
	a.Eventually(a.condition(m, clusterv1.MachineOwnerRemediatedCondition)).Should(HavePrefix("False"))
	a.Eventually(c.condition(clusterv1.PausedCondition)).Should(Equal("False " + remedyv1.NotPausedReason))
	a.Expect(c.pause()).To(BeEmpty())
}
