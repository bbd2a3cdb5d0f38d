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
	inTreeEnv, remedyEnv := newEnvironments(t)
	names := []string{"m-1", "m-2", "m-3", "m-4"}
	makeUnhealthy := func(a *environment, names ...string) {
		for _, name := range names {
			a.falls(&clusterv1.Machine{ObjectMeta: a.meta(name)})
		}
	}
	last := map[*environment]*clusterv1.Machine{}
	for _, a := range []*environment{inTreeEnv, remedyEnv} {
		a.template()
		for _, name := range names {
			last[a] = a.machine(name)
		}
		makeUnhealthy(a, "m-1")
	}
	check := inTreeEnv.inTreeCheck("workers", byTheirTemplate)
	check.looks()
	inTreeEnv.Expect(inTreeEnv.requests()).To(ConsistOf("m-1"))
	makeUnhealthy(inTreeEnv, "m-2", "m-3", "m-4")
	for range 3 {
		check.looks()
	}
	inTreeEnv.Expect(inTreeEnv.requests()).To(ConsistOf("m-1"), "the other Machines are never reached")
	inTreeEnv.Expect(inTreeEnv.health(last[inTreeEnv])()).To(BeEmpty(), "and their health is not reported")

	remedyEnv.remedyCheck("workers", byOurTemplate)
	first := remedyEnv.goes()
	remedyEnv.Eventually(remedyEnv.requests).Should(ConsistOf("m-1"))
	// What is under way when it is stopped may land behind the back of the next one.
	for _, name := range names[1:] {
		remedyEnv.Eventually(remedyEnv.health(&clusterv1.Machine{ObjectMeta: remedyEnv.meta(name)})).Should(Equal(isWell))
	}
	remedyEnv.Eventually(remedyEnv.health(&clusterv1.Machine{ObjectMeta: remedyEnv.meta("m-1")})).Should(Equal(isSick))
	first.stop()
	makeUnhealthy(remedyEnv, "m-2", "m-3", "m-4")
	second := remedyEnv.goes()
	remedyEnv.Eventually(remedyEnv.requests).Should(ConsistOf(names))
	remedyEnv.Eventually(remedyEnv.health(last[remedyEnv])).Should(Equal(isSick))
	remedyEnv.Expect(passes(second)).To(Equal(1))
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

// madeNone is the report of the in-tree reconciler about requests that it could not create; empty if there is none.
func (c *inTreeCheck) madeNone() string {
	c.t.Helper()
	c.Expect(c.api.Get(c.ctx, client.ObjectKeyFromObject(c.check), c.check)).To(Succeed())
	return deprecated.GetReason(c.check, clusterv1.ExternalRemediationRequestAvailableV1Beta1Condition)
}

// TestRequest_ReadFails_IsNotCreatedAgain: the in-tree reconciler takes every failure to read a request for its absence, and makes
// another one. Remedy reports why it cannot read, and creates none.
func TestRequest_ReadFails_IsNotCreatedAgain(t *testing.T) {
	t.Parallel()
	inTreeEnv, remedyEnv := newEnvironments(t)
	for _, a := range []*environment{inTreeEnv, remedyEnv} {
		a.template()
		a.falls(a.machine("m-1"))
	}
	kind := remediator.Metal3
	check := inTreeEnv.inTreeCheck("workers", byTheirTemplate)
	check.looks()
	check.unread = apierrors.NewForbidden(schema.GroupResource{Group: kind.Group, Resource: kind.Plural}, "m-1", nil)
	_, err := check.pass()
	inTreeEnv.Expect(err).To(MatchError(ContainSubstring("already exists")), "it may not look, and makes another one")

	// RBAC allows Remedy to write requests, and not to read them.
	user := controlplane.User{Name: "blind"}
	server.Grant(t, user, "",
		rbacv1.PolicyRule{APIGroups: []string{"", "events.k8s.io", "authorization.k8s.io", "cluster.x-k8s.io", remedyv1.GroupVersion.Group, "apiextensions.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{APIGroups: []string{kind.Group}, Resources: []string{kind.TemplatePlural()}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{kind.Group}, Resources: []string{kind.Plural}, Verbs: []string{"create", "patch", "delete"}})
	workers := remedyEnv.remedyCheck("workers", byOurTemplate)
	remedyEnv.start(server.ConfigOf(t, user), clock.RealClock{})
	remedyEnv.Eventually(remedyEnv.checkCondition(workers, remedyv1.TemplatesResolvedCondition)).Should(Equal("False " + remedyv1.ForbiddenReason))
	remedyEnv.Eventually(remedyEnv.holds(workers, "m-1")).Should(Equal("Blocked " + string(remedyv1.BlockedTemplateNotResolved)))
	remedyEnv.Expect(remedyEnv.requests()).To(BeEmpty())
}

// TestRequest_MissingInCache_IsNoFailure: where its cache is behind, the in-tree reconciler finds that the request it has just made could
// not be made, and never takes that back.
func TestRequest_MissingInCache_IsNoFailure(t *testing.T) {
	t.Parallel()
	inTreeEnv, remedyEnv := newEnvironments(t)
	machines := map[*environment][]*clusterv1.Machine{}
	for _, a := range []*environment{inTreeEnv, remedyEnv} {
		a.template()
		machines[a] = []*clusterv1.Machine{a.machine("m-1"), a.machine("m-2")}
	}
	kind := remediator.Metal3
	check := inTreeEnv.inTreeCheck("workers", byTheirTemplate)
	inTreeEnv.falls(machines[inTreeEnv][0])
	check.looks()
	inTreeEnv.Expect(check.madeNone()).To(BeEmpty())
	check.unread = apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Plural}, "m-1")
	_, err := check.pass()
	inTreeEnv.Expect(err).To(MatchError(ContainSubstring("already exists")))
	check.unread = nil
	check.looks()
	inTreeEnv.turn(machines[inTreeEnv][0], corev1.ConditionTrue, 0)
	check.looks()
	inTreeEnv.Expect(inTreeEnv.requests()).To(BeEmpty(), "it was there, and has done its work")
	inTreeEnv.Expect(check.madeNone()).To(Equal(clusterv1.ExternalRemediationRequestCreationFailedV1Beta1Reason), "and still the failure is reported")

	workers := remedyEnv.remedyCheck("workers", byOurTemplate)
	process := remedyEnv.goes()
	remedyEnv.Eventually(remedyEnv.health(machines[remedyEnv][0])).Should(Equal(isWell))
	process.Watches().Hold(kind.Plural + "." + kind.Group)
	remedyEnv.falls(machines[remedyEnv][0])
	remedyEnv.Eventually(remedyEnv.requests).Should(ConsistOf("m-1"))
	// It looks again for another Machine, and its cache does not have the first request.
	remedyEnv.falls(machines[remedyEnv][1])
	remedyEnv.Eventually(remedyEnv.requests).Should(ConsistOf("m-1", "m-2"))
	remedyEnv.Eventually(remedyEnv.holds(workers, "m-2")).Should(Equal("Remediating "))
	remedyEnv.Expect(remedyEnv.holds(workers, "m-1")()).To(Equal("Remediating "))
	for _, write := range process.Writes() {
		remedyEnv.Expect(write.Landed() || write.Verb != "create").To(BeTrue(), write.What())
	}
}

// TestRequest_MachineBeingDeleted_IsNotCreated: it goes anyway, and a remediator would get in the way of its end.
func TestRequest_MachineBeingDeleted_IsNotCreated(t *testing.T) {
	t.Parallel()
	inTreeEnv, remedyEnv := newEnvironments(t)
	for _, a := range []*environment{inTreeEnv, remedyEnv} {
		a.template()
		m := a.machine("m-1", func(m *clusterv1.Machine) { m.Finalizers = []string{"example.com/keeper"} })
		a.falls(m)
		a.Expect(a.api.Delete(a.ctx, m)).To(Succeed())
	}
	inTreeEnv.inTreeCheck("workers", byTheirTemplate).looks()
	inTreeEnv.Expect(inTreeEnv.requests()).To(ConsistOf("m-1"))

	workers := remedyEnv.remedyCheck("workers", byOurTemplate)
	remedyEnv.goes()
	remedyEnv.Eventually(remedyEnv.holds(workers, "m-1")).Should(Equal("Blocked " + string(remedyv1.BlockedTerminating)))
	remedyEnv.Expect(remedyEnv.requests()).To(BeEmpty())
}
