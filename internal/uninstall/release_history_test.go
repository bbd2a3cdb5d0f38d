// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// setPool lets a check select the Machines of a pool.
func (p *fixture) setPool(o client.Object, pool string) {
	p.t.Helper()
	before := o.DeepCopyObject().(client.Object)
	switch check := o.(type) {
	case *clusterv1.MachineHealthCheck:
		check.Spec.Selector.MatchLabels = map[string]string{"pool": pool}
	case *remedyv1.MachineHealthCheck:
		check.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": remedyv1.LabelValue(pool)}
	}
	p.Expect(p.api.Patch(p.ctx, o, client.MergeFrom(before))).To(Succeed())
}

// This includes a Machine that has recovered, which no longer names a responsible check.
func TestReleaseHistory_SelectedMachine_IsRemoved(t *testing.T) {
	p := newFixture(t)
	p.inTreeCheck("one")
	selected := p.machineWithHistory("selected", "prod", "a")
	elsewhere, otherPool := p.machineWithHistory("elsewhere", "test", "a"), p.machineWithHistory("other-pool", "prod", "b")
	moved := p.machineWithHistory("moved", "prod", "b")
	p.annotate(p.api, moved, remedyv1.MarkedByAnnotation, "InTreeMachineHealthCheck/one")
	foreign := p.machineWithHistory("foreign", "prod", "a")
	p.annotate(p.api, foreign, remedyv1.MarkedByAnnotation, "InTreeMachineHealthCheck/other")

	dry, said := p.uninstaller(true)
	p.Expect(dry.Release(p.ctx, p.namespace, "one")).To(Succeed())
	p.Expect(said.String()).To(ContainSubstring("Machine %s/selected: removed %s, %s, %s, %s (dry run)", p.namespace,
		remedyv1.AttemptsAnnotation, remedyv1.NodeGoneSinceAnnotation, remedyv1.NotBeforeAnnotation, remedyv1.TriedAnnotation))
	p.Expect(p.ownAnnotations(selected)).To(ConsistOf(historyKeys))

	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.Release(p.ctx, p.namespace, "one")).To(Succeed(), said.String())
	p.Expect(p.ownAnnotations(selected)).To(BeEmpty())
	p.Expect(p.ownAnnotations(moved)).To(BeEmpty(), "the released check was responsible for it")
	p.Expect(p.ownAnnotations(foreign)).To(ConsistOf(remedyv1.MarkedByAnnotation), "the other check is responsible for it")
	p.Expect(p.ownAnnotations(elsewhere)).To(ConsistOf(historyKeys), "a Machine of another Cluster")
	p.Expect(p.ownAnnotations(otherPool)).To(ConsistOf(historyKeys), "a Machine that it does not select")
	p.Expect(p.get(selected).(*clusterv1.Machine).Status.Conditions).To(HaveLen(2))
}

// Another check of Remedy monitors the same Machines.
func TestReleaseHistory_OtherCheck_KeepsIt(t *testing.T) {
	for name, test := range map[string]struct {
		other func(p *fixture) client.Object
		stays bool
	}{
		"own kind": {func(p *fixture) client.Object { return p.ownCheck("other") }, true},
		"adopted":  {func(p *fixture) client.Object { return p.inTreeCheck("other") }, true},
		"adopted without a pause": {func(p *fixture) client.Object {
			other := p.inTreeCheck("other")
			before := other.DeepCopy()
			delete(other.Annotations, clusterv1.PausedAnnotation)
			p.Expect(p.api.Patch(p.ctx, other, client.MergeFrom(before))).To(Succeed())
			return other
		}, true},
		"not adopted": {func(p *fixture) client.Object {
			other := p.inTreeCheck("other")
			before := other.DeepCopy()
			other.Annotations, other.Finalizers = nil, nil
			p.Expect(p.api.Patch(p.ctx, other, client.MergeFrom(before))).To(Succeed())
			p.setConditions(other, clusterv1.PausedCondition)
			return other
		}, false},
		"adopted, other pool": {func(p *fixture) client.Object {
			other := p.inTreeCheck("other")
			p.setPool(other, "b")
			return other
		}, false},
		"own kind, other pool": {func(p *fixture) client.Object {
			other := p.ownCheck("other")
			p.setPool(other, "b")
			return other
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFixture(t)
			p.inTreeCheck("one")
			test.other(p)
			remembered, signed := p.machineWithHistory("m-1", "prod", "a"), p.machineWithHistory("m-2", "prod", "a")
			p.annotate(p.api, signed, remedyv1.MarkedByAnnotation, "InTreeMachineHealthCheck/one")
			foreign := p.machineWithHistory("m-3", "prod", "a")
			p.annotate(p.api, foreign, remedyv1.MarkedByAnnotation, "InTreeMachineHealthCheck/other")
			uninstaller, said := p.uninstaller(false)
			p.Expect(uninstaller.Release(p.ctx, p.namespace, "one")).To(Succeed(), said.String())
			want := []string{}
			if test.stays {
				want = historyKeys
			}
			p.Expect(p.ownAnnotations(remembered)).To(ConsistOf(want))
			p.Expect(p.ownAnnotations(signed)).To(ConsistOf(want), "the responsible check is removed in any case")
			p.Expect(p.ownAnnotations(foreign)).To(ConsistOf(append([]string{remedyv1.MarkedByAnnotation}, want...)),
				"the other check is responsible for it")
		})
	}
}

// Checks that are released together do not keep the history for each other.
func TestReleaseHistory_WholeNamespace_IsRemoved(t *testing.T) {
	p := newFixture(t)
	p.inTreeCheck("one")
	p.inTreeCheck("other")
	m := p.machineWithHistory("m-1", "prod", "a")
	dry, said := p.uninstaller(true)
	p.Expect(dry.Release(p.ctx, p.namespace, "")).To(Succeed())
	p.Expect(said.String()).To(ContainSubstring("Machine %s/m-1: removed", p.namespace), "also while the checks are still adopted")
	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.Release(p.ctx, p.namespace, "")).To(Succeed(), said.String())
	p.Expect(p.ownAnnotations(m)).To(BeEmpty())
}

// An unknown check may need the history.
func TestReleaseHistory_UnlistableChecks_IsKept(t *testing.T) {
	p := newFixture(t)
	one, signed := p.inTreeCheck("one"), p.machineWithHistory("m-1", "prod", "a")
	p.annotate(p.api, signed, remedyv1.MarkedByAnnotation, "InTreeMachineHealthCheck/one")
	uninstaller, said := p.user("blind", rbacv1.PolicyRule{
		APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{"*"},
		Verbs: []string{"get", "list", "patch"},
	})
	p.Expect(uninstaller.Release(p.ctx, p.namespace, "one")).To(MatchError(ContainSubstring("incomplete")))
	p.Expect(said.String()).To(ContainSubstring(
		"left: the remediation history stays on Machines because another check may need it: failed to list the other checks"))
	p.Expect(p.ownAnnotations(signed)).To(ConsistOf(historyKeys))
	p.Expect(p.get(one).GetFinalizers()).To(Equal([]string{"example.com/other"}))
}
