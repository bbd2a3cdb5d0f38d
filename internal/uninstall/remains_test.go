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

// sign lets a check have signed a Machine.
func (p *place) sign(m *clusterv1.Machine, by string) {
	p.t.Helper()
	before := m.DeepCopy()
	m.Annotations[remedyv1.MarkedByAnnotation] = by
	p.Expect(p.api.Patch(p.ctx, m, client.MergeFrom(before))).To(Succeed())
}

// selecting lets a check look after a pool.
func (p *place) selecting(o client.Object, pool string) {
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

// left are the annotations of ours on an object.
func (p *place) left(o client.Object) []string {
	p.t.Helper()
	var keys []string
	for key := range p.get(o).GetAnnotations() {
		if key != "example.com/theirs" {
			keys = append(keys, key)
		}
	}
	return keys
}

// TestWhatIsRememberedOfAMachineGoesWithItsCheck: also of one that has recovered, so that nobody's signature is on it any more.
func TestWhatIsRememberedOfAMachineGoesWithItsCheck(t *testing.T) {
	p := newPlace(t)
	p.core("one")
	selected := p.remembered("selected", "prod", "a")
	elsewhere, otherPool := p.remembered("elsewhere", "test", "a"), p.remembered("other-pool", "prod", "b")
	moved := p.remembered("moved", "prod", "b")
	p.sign(moved, "CoreMachineHealthCheck/one")
	foreign := p.remembered("foreign", "prod", "a")
	p.sign(foreign, "CoreMachineHealthCheck/other")

	dry, said := p.leaver(true)
	p.Expect(dry.Checks(p.ctx, p.namespace, "one")).To(Succeed())
	p.Expect(said.String()).To(ContainSubstring("Machine %s/selected: without %s, %s, %s, %s (dry run)", p.namespace,
		remedyv1.AttemptsAnnotation, remedyv1.NodeGoneSinceAnnotation, remedyv1.NotBeforeAnnotation, remedyv1.TriedAnnotation))
	p.Expect(p.left(selected)).To(ConsistOf(ledger))

	leaver, said := p.leaver(false)
	p.Expect(leaver.Checks(p.ctx, p.namespace, "one")).To(Succeed(), said.String())
	p.Expect(p.left(selected)).To(BeEmpty())
	p.Expect(p.left(moved)).To(BeEmpty(), "who has signed it has looked after it")
	p.Expect(p.left(foreign)).To(ConsistOf(remedyv1.MarkedByAnnotation), "the mark belongs to that other check")
	p.Expect(p.left(elsewhere)).To(ConsistOf(ledger), "a Machine of another Cluster")
	p.Expect(p.left(otherPool)).To(ConsistOf(ledger), "a Machine that it has never looked after")
	p.Expect(p.get(selected).(*clusterv1.Machine).Status.Conditions).To(HaveLen(2))
}

// TestWhatIsRememberedStaysWithWhoGoesOn: another check of ours looks after the same Machines.
func TestWhatIsRememberedStaysWithWhoGoesOn(t *testing.T) {
	for name, test := range map[string]struct {
		other func(p *place) client.Object
		stays bool
	}{
		"one of our own kind":    {func(p *place) client.Object { return p.ours("other") }, true},
		"one that is taken over": {func(p *place) client.Object { return p.core("other") }, true},
		"one that is taken over without a pause": {func(p *place) client.Object {
			other := p.core("other")
			before := other.DeepCopy()
			delete(other.Annotations, clusterv1.PausedAnnotation)
			p.Expect(p.api.Patch(p.ctx, other, client.MergeFrom(before))).To(Succeed())
			return other
		}, true},
		"one that is not ours": {func(p *place) client.Object {
			other := p.core("other")
			before := other.DeepCopy()
			other.Annotations, other.Finalizers = nil, nil
			p.Expect(p.api.Patch(p.ctx, other, client.MergeFrom(before))).To(Succeed())
			p.status(other, clusterv1.PausedCondition)
			return other
		}, false},
		"one of another pool": {func(p *place) client.Object {
			other := p.core("other")
			p.selecting(other, "b")
			return other
		}, false},
		"one of our own kind, and of another pool": {func(p *place) client.Object {
			other := p.ours("other")
			p.selecting(other, "b")
			return other
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.core("one")
			test.other(p)
			remembered, signed := p.remembered("m-1", "prod", "a"), p.remembered("m-2", "prod", "a")
			p.sign(signed, "CoreMachineHealthCheck/one")
			leaver, said := p.leaver(false)
			p.Expect(leaver.Checks(p.ctx, p.namespace, "one")).To(Succeed(), said.String())
			want := []string{}
			if test.stays {
				want = ledger
			}
			p.Expect(p.left(remembered)).To(ConsistOf(want))
			p.Expect(p.left(signed)).To(ConsistOf(want), "the signature goes in any case")
		})
	}
}

// TestAWholeNamespaceRemembersNothing: those that go back together do not keep it for each other.
func TestAWholeNamespaceRemembersNothing(t *testing.T) {
	p := newPlace(t)
	p.core("one")
	p.core("other")
	m := p.remembered("m-1", "prod", "a")
	dry, said := p.leaver(true)
	p.Expect(dry.Checks(p.ctx, p.namespace, "")).To(Succeed())
	p.Expect(said.String()).To(ContainSubstring("Machine %s/m-1: without", p.namespace), "also while they are still ours")
	leaver, said := p.leaver(false)
	p.Expect(leaver.Checks(p.ctx, p.namespace, "")).To(Succeed(), said.String())
	p.Expect(p.left(m)).To(BeEmpty())
}

// TestWhoCannotSeeTheOtherChecksLeavesWhatIsRemembered: another check may go on with it.
func TestWhoCannotSeeTheOtherChecksLeavesWhatIsRemembered(t *testing.T) {
	p := newPlace(t)
	one, signed := p.core("one"), p.remembered("m-1", "prod", "a")
	p.sign(signed, "CoreMachineHealthCheck/one")
	leaver, said := p.as("blind", rbacv1.PolicyRule{APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"get", "list", "patch"}})
	p.Expect(leaver.Checks(p.ctx, p.namespace, "one")).To(MatchError(ContainSubstring("not everything could be cleaned up or seen")))
	p.Expect(said.String()).To(ContainSubstring("left: what is remembered of Machines stays on them, as nobody knows whether another check of ours looks after them: failed to read the other checks"))
	p.Expect(p.left(signed)).To(ConsistOf(ledger))
	p.Expect(p.get(one).GetFinalizers()).To(Equal([]string{"example.com/theirs"}))
}
