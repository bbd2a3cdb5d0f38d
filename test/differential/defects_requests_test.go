// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// TestReconcile_ManyUnhealthyMachines_StartsAllAtOnce: the in-tree reconciler stops at the first Machine that has its request already.
func TestReconcile_ManyUnhealthyMachines_StartsAllAtOnce(t *testing.T) {
	t.Parallel()
	theirs, ours := newEnvironments(t)
	names := []string{"m-1", "m-2", "m-3", "m-4"}
	sicken := func(a *environment, names ...string) {
		for _, name := range names {
			a.falls(&clusterv1.Machine{ObjectMeta: a.meta(name)})
		}
	}
	last := map[*environment]*clusterv1.Machine{}
	for _, a := range []*environment{theirs, ours} {
		a.template()
		for _, name := range names {
			last[a] = a.machine(name)
		}
		sicken(a, "m-1")
	}
	check := theirs.theirs("workers", byTheirTemplate)
	check.looks()
	theirs.Expect(theirs.requests()).To(ConsistOf("m-1"))
	sicken(theirs, "m-2", "m-3", "m-4")
	for range 3 {
		check.looks()
	}
	theirs.Expect(theirs.requests()).To(ConsistOf("m-1"), "nobody gets to the others, however often it looks")
	theirs.Expect(theirs.health(last[theirs])()).To(BeEmpty(), "nor is anything said of them")

	ours.ours("workers", byOurTemplate)
	first := ours.goes()
	ours.Eventually(ours.requests).Should(ConsistOf("m-1"))
	// What is under way when it is stopped may land behind the back of the next one.
	for _, name := range names[1:] {
		ours.Eventually(ours.health(&clusterv1.Machine{ObjectMeta: ours.meta(name)})).Should(Equal(isWell))
	}
	ours.Eventually(ours.health(&clusterv1.Machine{ObjectMeta: ours.meta("m-1")})).Should(Equal(isSick))
	first.stop()
	sicken(ours, "m-2", "m-3", "m-4")
	second := ours.goes()
	ours.Eventually(ours.requests).Should(ConsistOf(names))
	ours.Eventually(ours.health(last[ours])).Should(Equal(isSick))
	ours.Expect(passes(second)).To(Equal(1))
}

// passes is in how many passes a controller has made its requests. Each that makes any ends with the status of the check.
func passes(l *life) int {
	n, making := 0, false
	for _, w := range l.Writes() {
		switch {
		case w.Verb == "create" && w.Resource == remediator.Metal3.Plural && !making:
			n, making = n+1, true
		case w.Resource == "machinehealthchecks" && w.Subresource == "status":
			making = false
		}
	}
	return n
}

// madeNone is what the in-tree reconciler says of requests that it could not make; empty if nothing.
func (c *theirs) madeNone() string {
	c.t.Helper()
	c.Expect(c.api.Get(c.ctx, client.ObjectKeyFromObject(c.check), c.check)).To(Succeed())
	return deprecated.GetReason(c.check, clusterv1.ExternalRemediationRequestAvailableV1Beta1Condition)
}

// TestOnlyNotFoundMeansThatThereIsNoRequest: the in-tree reconciler takes every failure to read a request for its absence, and makes
// another one. We say what keeps us from reading, and make none.
func TestOnlyNotFoundMeansThatThereIsNoRequest(t *testing.T) {
	t.Parallel()
	theirs, ours := newEnvironments(t)
	for _, a := range []*environment{theirs, ours} {
		a.template()
		a.falls(a.machine("m-1"))
	}
	kind := remediator.Metal3
	check := theirs.theirs("workers", byTheirTemplate)
	check.looks()
	check.unread = apierrors.NewForbidden(schema.GroupResource{Group: kind.Group, Resource: kind.Plural}, "m-1", nil)
	_, err := check.pass()
	theirs.Expect(err).To(MatchError(ContainSubstring("already exists")), "it may not look, and makes another one")

	// Ours may write requests, and not read them, by rights that are real.
	user := controlplane.User{Name: "blind", Groups: []string{"blind"}}
	role := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "events.k8s.io", "authorization.k8s.io", "cluster.x-k8s.io", remedyv1.GroupVersion.Group, "apiextensions.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{kind.Group}, Resources: []string{kind.TemplatePlural()}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{kind.Group}, Resources: []string{kind.Plural}, Verbs: []string{"create", "patch", "delete"}},
	}}
	role.Name = "blind-" + ours.namespace
	ours.create(role)
	binding := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "blind"}},
	}
	binding.Name = role.Name
	ours.create(binding)
	blind, err := server.Config(user)
	ours.Expect(err).ToNot(HaveOccurred())
	workers := ours.ours("workers", byOurTemplate)
	ours.start(blind, clock.RealClock{})
	ours.Eventually(ours.tells(workers, remedyv1.TemplatesResolvedCondition)).Should(Equal("False " + remedyv1.ForbiddenReason))
	ours.Eventually(ours.holds(workers, "m-1")).Should(Equal("Blocked " + string(remedyv1.BlockedTemplateNotResolved)))
	ours.Expect(ours.requests()).To(BeEmpty())
}

// TestARequestThatWasJustMadeIsNoFailure: where its cache is behind, the in-tree reconciler finds that the request it has just made could
// not be made, and never takes that back.
func TestARequestThatWasJustMadeIsNoFailure(t *testing.T) {
	t.Parallel()
	theirs, ours := newEnvironments(t)
	machines := map[*environment][]*clusterv1.Machine{}
	for _, a := range []*environment{theirs, ours} {
		a.template()
		machines[a] = []*clusterv1.Machine{a.machine("m-1"), a.machine("m-2")}
	}
	kind := remediator.Metal3
	check := theirs.theirs("workers", byTheirTemplate)
	theirs.falls(machines[theirs][0])
	check.looks()
	theirs.Expect(check.madeNone()).To(BeEmpty())
	check.unread = apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Plural}, "m-1")
	_, err := check.pass()
	theirs.Expect(err).To(MatchError(ContainSubstring("already exists")))
	check.unread = nil
	check.looks()
	theirs.turn(machines[theirs][0], corev1.ConditionTrue, 0)
	check.looks()
	theirs.Expect(theirs.requests()).To(BeEmpty(), "it was there, and has done its work")
	theirs.Expect(check.madeNone()).To(Equal(clusterv1.ExternalRemediationRequestCreationFailedV1Beta1Reason), "and still it is said to have failed")

	workers := ours.ours("workers", byOurTemplate)
	process := ours.goes()
	ours.Eventually(ours.health(machines[ours][0])).Should(Equal(isWell))
	process.Watches().Hold(kind.Plural + "." + kind.Group)
	ours.falls(machines[ours][0])
	ours.Eventually(ours.requests).Should(ConsistOf("m-1"))
	// It looks again for another Machine, and its cache has not heard of the first request.
	ours.falls(machines[ours][1])
	ours.Eventually(ours.requests).Should(ConsistOf("m-1", "m-2"))
	ours.Eventually(ours.holds(workers, "m-2")).Should(Equal("Remediating "))
	ours.Expect(ours.holds(workers, "m-1")()).To(Equal("Remediating "))
	for _, write := range process.Writes() {
		ours.Expect(write.Landed() || write.Verb != "create").To(BeTrue(), write.What())
	}
}

// TestRequest_MachineBeingDeleted_IsNotCreated: it goes anyway, and a remediator would get in the way of its end.
func TestRequest_MachineBeingDeleted_IsNotCreated(t *testing.T) {
	t.Parallel()
	theirs, ours := newEnvironments(t)
	for _, a := range []*environment{theirs, ours} {
		a.template()
		m := a.machine("m-1", func(m *clusterv1.Machine) { m.Finalizers = []string{"example.com/keeper"} })
		a.falls(m)
		a.Expect(a.api.Delete(a.ctx, m)).To(Succeed())
	}
	theirs.theirs("workers", byTheirTemplate).looks()
	theirs.Expect(theirs.requests()).To(ConsistOf("m-1"))

	workers := ours.ours("workers", byOurTemplate)
	ours.goes()
	ours.Eventually(ours.holds(workers, "m-1")).Should(Equal("Blocked " + string(remedyv1.BlockedTerminating)))
	ours.Expect(ours.requests()).To(BeEmpty())
}
