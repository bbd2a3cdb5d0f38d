// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
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
	trigger                              clusterv1.MachineHealthCheckRemediationTriggerIf
}

// drawFleets draws fleets with limits of every kind, on both sides of them.
func drawFleets(n int) []fleet {
	draw := rand.New(rand.NewPCG(1, 2))
	all := make([]fleet, n)
	for i := range all {
		f := fleet{pool: fmt.Sprintf("pool-%d", i), healthy: draw.IntN(4), unhealthy: draw.IntN(4), starting: draw.IntN(2), orphan: draw.IntN(2)}
		switch draw.IntN(7) {
		case 0, 1:
			f.trigger.UnhealthyLessThanOrEqualTo = ptr.To(intstr.FromInt32(draw.Int32N(4)))
		case 2, 3:
			f.trigger.UnhealthyLessThanOrEqualTo = ptr.To(intstr.FromString(fmt.Sprintf("%d%%", 10*draw.IntN(12))))
		case 4, 5:
			least := draw.IntN(4)
			f.trigger.UnhealthyInRange = fmt.Sprintf("[%d-%d]", least, least+draw.IntN(3))
		}
		all[i] = f
	}
	return all
}

// create creates the Machines of a fleet. Those without an owner are unhealthy.
func (f *fleet) create(a *environment) []string {
	a.t.Helper()
	var names []string
	ofPool := func(m *clusterv1.Machine) { m.Labels[poolLabel] = f.pool }
	for i, n := range []int{f.healthy, f.unhealthy, f.starting, f.orphan} {
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
			}
		}
	}
	return names
}

func (f *fleet) spec(spec *clusterv1.MachineHealthCheckSpec) {
	spec.Selector.MatchLabels[poolLabel] = f.pool
	spec.Remediation.TriggerIf = f.trigger
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
		for _, name := range machines {
			m := &clusterv1.Machine{}
			a.Expect(a.api.Get(a.ctx, client.ObjectKey{Namespace: a.namespace, Name: name}, m)).To(Succeed())
			all[name] = conditionsOf(m, clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition,
				clusterv1.MachineExternallyRemediatedCondition)
		}
		return all
	}
}

// An adopted check and its Machines have the conditions of Cluster API, word for word, below, within and above every kind of limit.
func TestConditions_AdoptedCheck_EqualTheInTreeOnes(t *testing.T) {
	t.Parallel()
	inTreeEnv, remedyEnv := newEnvironments(t)
	remedyEnv.takesOver = intree.AdoptionPolicy{Replace: true}
	fleets := drawFleets(16)
	allowed := map[bool]int{}
	want := make([]map[string][]string, len(fleets))
	machines := make([][]string, len(fleets))
	for i := range fleets {
		f := &fleets[i]
		machines[i] = f.create(inTreeEnv)
		f.create(remedyEnv)
		check := inTreeEnv.inTreeCheck(f.pool, f.spec)
		check.looks()
		want[i] = f.conditions(inTreeEnv, machines[i])()
		allowed[slices.ContainsFunc(want[i][""], func(c string) bool { return c == `RemediationAllowed True RemediationAllowed: ""` })]++
		remedyEnv.create(remedyEnv.coreCheck(f.pool, f.spec))
	}
	inTreeEnv.Expect(allowed[true]).To(BeNumerically(">", 3))
	inTreeEnv.Expect(allowed[false]).To(BeNumerically(">", 3))
	remedyEnv.goes()
	for i := range fleets {
		remedyEnv.Eventually(fleets[i].conditions(remedyEnv, machines[i])).Should(Equal(want[i]), "%+v", fleets[i])
	}
}
