// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
)

// fleet is a pool of Machines with its check.
type fleet struct {
	pool                                 string
	healthy, unhealthy, starting, orphan int
	// skipped, paused and remediate have that annotation; deleting are unhealthy and have a finalizer.
	skipped, paused, remediate, deleting int
	trigger                              clusterv1.MachineHealthCheckRemediationTriggerIf
	// later is the limit of the second comparison.
	later clusterv1.MachineHealthCheckRemediationTriggerIf
	// byTemplate: the check has a template, which may be missing.
	byTemplate, missing bool
	// checkPaused: the check has the annotation paused. clusterPaused: its Cluster is paused.
	checkPaused, clusterPaused bool
}

func drawLimit(draw *rand.Rand) (trigger clusterv1.MachineHealthCheckRemediationTriggerIf) {
	switch draw.IntN(8) {
	case 0, 1:
		trigger.UnhealthyLessThanOrEqualTo = ptr.To(intstr.FromInt32(draw.Int32N(4)))
	case 2:
		trigger.UnhealthyLessThanOrEqualTo = ptr.To(intstr.FromString(fmt.Sprintf("%d%%", 10*draw.IntN(12))))
	case 3, 4, 5, 6:
		least := draw.IntN(5)
		trigger.UnhealthyInRange = fmt.Sprintf("[%d-%d]", least, least+draw.IntN(3))
	}
	return trigger
}

// drawFleets draws fleets with limits of every kind, on both sides of them. With a template, the in-tree controller handles one unhealthy
// Machine in a reconcile, and reports no health on others, so these fleets have a single one.
func drawFleets(n int) []fleet {
	draw := rand.New(rand.NewPCG(1, 2))
	all := make([]fleet, n)
	for i := range all {
		f := fleet{pool: fmt.Sprintf("pool-%d", i), trigger: drawLimit(draw), later: drawLimit(draw)}
		if f.byTemplate = draw.IntN(4) == 0; f.byTemplate {
			f.unhealthy, f.missing = 1, draw.IntN(2) == 0
		} else {
			f.healthy, f.unhealthy, f.starting, f.orphan = draw.IntN(3), draw.IntN(4), draw.IntN(2), draw.IntN(2)
			f.skipped, f.paused, f.remediate, f.deleting = draw.IntN(4)/3, draw.IntN(4)/3, draw.IntN(4)/3, draw.IntN(4)/3
		}
		f.checkPaused = draw.IntN(8) == 0
		all[i] = f
	}
	return all
}

// create creates the Machines of a fleet. Those without an owner are unhealthy.
func (f *fleet) create(a *environment) []string {
	a.t.Helper()
	var names []string
	ofPool := func(m *clusterv1.Machine) { m.Labels[poolLabel] = f.pool }
	annotated := func(name string) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) { m.Annotations = map[string]string{name: ""} }
	}
	for i, n := range []int{f.healthy, f.unhealthy, f.starting, f.orphan, f.skipped, f.paused, f.remediate, f.deleting} {
		for k := range n {
			name := fmt.Sprintf("%s-%d-%d", f.pool, i, k)
			names = append(names, name)
			switch i {
			case 0:
				a.machine(name, ofPool)
			case 1:
				a.falls(a.machine(name, ofPool))
			case 2:
				a.nodeless(name, ofPool)
			case 3:
				a.falls(a.machine(name, ofPool, func(m *clusterv1.Machine) { m.OwnerReferences = nil }))
			case 4:
				a.falls(a.machine(name, ofPool, annotated(clusterv1.MachineSkipRemediationAnnotation)))
			case 5:
				a.falls(a.machine(name, ofPool, annotated(clusterv1.PausedAnnotation)))
			case 6:
				a.machine(name, ofPool, annotated(clusterv1.RemediateMachineAnnotation))
			case 7:
				m := a.machine(name, ofPool, func(m *clusterv1.Machine) { m.Finalizers = []string{clusterv1.MachineFinalizer} })
				a.falls(m)
				a.Expect(a.api.Delete(a.ctx, m)).To(Succeed())
			}
		}
	}
	return names
}

// pause sets the annotation of a paused check.
func (f *fleet) pause(check *clusterv1.MachineHealthCheck) *clusterv1.MachineHealthCheck {
	if f.checkPaused {
		check.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	}
	return check
}

func (f *fleet) spec(spec *clusterv1.MachineHealthCheckSpec) {
	spec.Selector.MatchLabels[poolLabel] = f.pool
	spec.Remediation.TriggerIf = f.trigger
	if f.byTemplate {
		byTheirTemplate(spec)
		if f.missing {
			spec.Remediation.TemplateRef.Name = "missing"
		}
	}
}

// change lets the first unhealthy Machine recover, and sets another limit.
func (f *fleet) change(a *environment) {
	a.t.Helper()
	if f.unhealthy > 0 {
		a.turn(&clusterv1.Machine{ObjectMeta: a.meta(f.pool + "-1-0")}, corev1.ConditionTrue, time.Hour)
	}
	check := &clusterv1.MachineHealthCheck{ObjectMeta: a.meta(f.pool)}
	a.Expect(a.api.Get(a.ctx, client.ObjectKeyFromObject(check), check)).To(Succeed())
	before := check.DeepCopy()
	check.Spec.Remediation.TriggerIf = f.later
	a.Expect(a.api.Patch(a.ctx, check, client.MergeFrom(before))).To(Succeed())
}

// eachFleet runs a function for several fleets at the same time.
func eachFleet(fleets []fleet, run func(i int)) {
	var all sync.WaitGroup
	next := make(chan int, len(fleets))
	for i := range fleets {
		next <- i
	}
	close(next)
	for range 8 {
		all.Go(func() {
			for i := range next {
				run(i)
			}
		})
	}
	all.Wait()
}

// setter is an object with conditions of both API generations.
type setter interface {
	client.Object
	conditions.Getter
	deprecated.Getter
}

// conditionsOf returns the conditions of these types in both API generations, without their times.
func conditionsOf(o setter, types ...string) []string {
	var all []string
	for _, kind := range types {
		if c := conditions.Get(o, kind); c != nil {
			all = append(all, fmt.Sprintf("%s %s %s: %q", c.Type, c.Status, c.Reason, c.Message))
		}
		if c := deprecated.Get(o, clusterv1.ConditionType(kind)); c != nil { //nolint:staticcheck // the older generation has no other type
			all = append(all, fmt.Sprintf("v1beta1 %s %s %s %s: %q", c.Type, c.Status, c.Severity, c.Reason, c.Message))
		}
	}
	return all
}

// conditions returns all conditions that Cluster API defines, and the counters, of a check and its Machines.
func (f *fleet) conditions(a *environment, machines []string) func() map[string][]string {
	return func() map[string][]string {
		a.t.Helper()
		check := &clusterv1.MachineHealthCheck{}
		a.Expect(a.api.Get(a.ctx, client.ObjectKey{Namespace: a.namespace, Name: f.pool}, check)).To(Succeed())
		all := map[string][]string{
			"": append(conditionsOf(check, clusterv1.MachineHealthCheckRemediationAllowedCondition, clusterv1.PausedCondition,
				string(clusterv1.ExternalRemediationTemplateAvailableV1Beta1Condition)),
				fmt.Sprint(ptr.Deref(check.Status.ExpectedMachines, -1), ptr.Deref(check.Status.CurrentHealthy, -1),
					ptr.Deref(check.Status.RemediationsAllowed, -1))),
		}
		for i, c := range all[""] {
			all[""][i] = strings.ReplaceAll(c, a.namespace, "NAMESPACE")
		}
		if f.checkPaused || f.clusterPaused {
			// Remedy counts the Machines of a paused check.
			all[""] = all[""][:len(all[""])-1]
		}
		if f.missing || f.checkPaused || f.clusterPaused {
			// Remedy reports the health of Machines also without the template, and while the check or its Cluster is paused.
			machines = nil
		}
		for _, name := range machines {
			m := &clusterv1.Machine{}
			a.Expect(a.api.Get(a.ctx, client.ObjectKey{Namespace: a.namespace, Name: name}, m)).To(Succeed())
			all[name] = conditionsOf(m, clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition,
				clusterv1.MachineExternallyRemediatedCondition)
		}
		return all
	}
}

// rangePosition returns where the number of unhealthy Machines is, as the in-tree controller counts: below, in or above the range; empty for
// a check without a range.
func (f *fleet) rangePosition() string {
	var least, most int
	if n, err := fmt.Sscanf(f.trigger.UnhealthyInRange, "[%d-%d]", &least, &most); n != 2 || err != nil {
		return ""
	}
	switch unhealthy := f.unhealthy + f.starting + f.orphan + f.remediate + f.deleting; {
	case unhealthy < least:
		return "below"
	case unhealthy > most:
		return "above"
	}
	return "in"
}

// hasCondition reports whether a condition begins with this text.
func hasCondition(all []string, prefix string) bool {
	return slices.ContainsFunc(all, func(c string) bool { return strings.HasPrefix(c, prefix) })
}

const conditionsTime = 3 * time.Minute

// An adopted check and its Machines have the conditions of Cluster API, word for word, below, within and above every kind of limit, and again
// after a Machine has recovered and the limit has changed; and while the Cluster is paused, and after that.
func TestConditions_AdoptedCheck_EqualTheInTreeOnes(t *testing.T) {
	t.Parallel()
	inTreeEnv, remedyEnv := newEnvironments(t)
	remedyEnv.takesOver = intree.AdoptionPolicy{Replace: true}
	inTreeEnv.template()
	remedyEnv.template()
	fleets := drawFleets(64)
	want, machines := make([]map[string][]string, len(fleets)), make([][]string, len(fleets))
	checks := make([]*inTreeCheck, len(fleets))
	eachFleet(fleets, func(i int) {
		f := &fleets[i]
		machines[i] = f.create(inTreeEnv)
		f.create(remedyEnv)
		checks[i] = inTreeEnv.inTreeCheck(f.pool, f.spec)
		before := checks[i].check.DeepCopy()
		inTreeEnv.Expect(inTreeEnv.api.Patch(inTreeEnv.ctx, f.pause(checks[i].check), client.MergeFrom(before))).To(Succeed())
		_, err := checks[i].pass()
		inTreeEnv.Expect(err == nil || f.missing).To(BeTrue(), "%v", err)
		want[i] = f.conditions(inTreeEnv, machines[i])()
		remedyEnv.create(f.pause(remedyEnv.coreCheck(f.pool, f.spec)))
	})
	premises := map[string]int{}
	for i := range fleets {
		f := &fleets[i]
		allowed := slices.Contains(want[i][""], `RemediationAllowed True RemediationAllowed: ""`)
		premises[fmt.Sprint("allowed ", allowed)]++
		premises["range "+f.rangePosition()]++
		premises[fmt.Sprint("template ", f.byTemplate, " missing ", f.missing)]++
		premises[fmt.Sprint("paused ", f.checkPaused)]++
	}
	t.Log(premises)
	for _, name := range []string{"allowed true", "allowed false", "range below", "range in", "range above", "paused true", "template true missing false", "template true missing true"} {
		inTreeEnv.Expect(premises[name]).To(BeNumerically(">=", 3), name)
	}
	remedyEnv.goes()
	changed := false
	equal := func() (different []string) {
		for i := range fleets {
			if changed && fleets[i].byTemplate {
				// In-tree, ExternallyRemediated stays on a Machine that has recovered, and HealthCheckSucceeded depends on the request.
				continue
			}
			for object, found := range fleets[i].conditions(remedyEnv, machines[i])() {
				if !slices.Equal(found, want[i][object]) {
					different = append(different, fmt.Sprintf("%s %s has %q, and in-tree %q: %+v", fleets[i].pool, object, found, want[i][object], fleets[i]))
				}
			}
		}
		return different
	}
	remedyEnv.Eventually(equal, conditionsTime, time.Second).Should(BeEmpty())
	changed = true
	compare := func(before func(f *fleet)) {
		eachFleet(fleets, func(i int) {
			f := &fleets[i]
			before(f)
			_, err := checks[i].pass()
			inTreeEnv.Expect(err == nil || f.missing).To(BeTrue(), "%v", err)
			want[i] = f.conditions(inTreeEnv, machines[i])()
		})
		remedyEnv.Eventually(equal, conditionsTime, time.Second).Should(BeEmpty())
	}
	compare(func(f *fleet) {
		f.change(inTreeEnv)
		f.change(remedyEnv)
	})
	for _, paused := range []bool{true, false} {
		inTreeEnv.pausesCluster(paused)
		remedyEnv.pausesCluster(paused)
		compare(func(f *fleet) { f.clusterPaused = paused })
		for i := range fleets {
			inTreeEnv.Expect(hasCondition(want[i][""], "Paused True")).To(Equal(paused || fleets[i].checkPaused))
		}
	}
}
