// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

func TestRelease_OneCheck_LeavesOthersUnchanged(t *testing.T) {
	p := newFixture(t)
	one, other := p.inTreeCheck("one", remedyv1.AdoptAnnotation, "true"), p.inTreeCheck("other", remedyv1.AdoptAnnotation, "true")
	machine, otherMachine := p.machine("m-1", "InTreeMachineHealthCheck/one"), p.machine("m-2", "InTreeMachineHealthCheck/other")
	request := p.request("m-3", "InTreeMachineHealthCheck/"+p.namespace+"/one")
	untouched := []client.Object{p.get(other), p.get(otherMachine)}

	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.Release(p.ctx, p.namespace, "one")).To(Succeed(), said.String())
	p.Expect(p.get(one).GetAnnotations()).To(Equal(map[string]string{"example.com/other": "stays"}))
	p.Expect(p.get(one).GetFinalizers()).To(Equal([]string{"example.com/other"}))
	p.Expect(p.get(machine).GetAnnotations()).To(Equal(map[string]string{"example.com/other": "stays"}))
	p.Expect(p.get(machine).(*clusterv1.Machine).Status.Conditions).To(HaveLen(2), "the in-tree controller uses the same conditions")
	p.Expect(p.get(request).GetAnnotations()).To(Equal(map[string]string{"example.com/other": "stays"}))
	p.Expect([]client.Object{p.get(other), p.get(otherMachine)}).To(Equal(untouched))

	p.Expect(uninstaller.Release(p.ctx, p.namespace, "missing")).To(MatchError(
		ContainSubstring("MachineHealthCheck " + p.namespace + "/missing of Cluster API not found")))
}

// A pause that a user has set is no trace of Remedy.
func TestRelease_PauseOfAUser_IsKept(t *testing.T) {
	p := newFixture(t)
	check := p.inTreeCheck("core", clusterv1.PausedAnnotation, "")
	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.Release(p.ctx, p.namespace, "core")).To(Succeed(), said.String())
	p.Expect(p.get(check).GetAnnotations()).To(Equal(map[string]string{"example.com/other": "stays", clusterv1.PausedAnnotation: ""}))
	p.Expect(p.get(check).GetFinalizers()).To(Equal([]string{"example.com/other"}))
}

// A Cluster that adopts the checks of its topology would adopt a released one again, and no other check.
func TestRelease_AdoptingCluster_AnnotatesTheCheck(t *testing.T) {
	p := newFixture(t)
	p.cluster("prod", nil, remedyv1.AdoptAnnotation, "true")
	one, written := p.inTreeCheck("one"), p.inTreeCheck("written")
	before := one.DeepCopy()
	one.Labels = map[string]string{clusterv1.ClusterTopologyOwnedLabel: ""}
	p.Expect(p.api.Patch(p.ctx, one, client.MergeFrom(before))).To(Succeed())
	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.Release(p.ctx, p.namespace, "")).To(Succeed(), said.String())
	p.Expect(p.get(written).GetAnnotations()).To(Equal(map[string]string{"example.com/other": "stays"}))
	p.Expect(p.get(one).GetAnnotations()).To(Equal(map[string]string{"example.com/other": "stays", remedyv1.AdoptAnnotation: "false"}))
	p.Expect(p.get(one).GetFinalizers()).To(Equal([]string{"example.com/other"}))
}

// A running manager may be acting, so it releases the check itself before the rest is removed.
func TestRelease_RunningManager_WaitsForIt(t *testing.T) {
	p := newFixture(t)
	p.manager("--in-tree-machinehealthchecks=OptIn")
	core := p.inTreeCheck("core", remedyv1.AdoptAnnotation, "true")
	uninstaller, said := p.uninstaller(false)
	uninstaller.Timeouts = longTimeouts
	done := make(chan error)
	go func() { done <- uninstaller.Release(p.ctx, p.namespace, "core") }()
	told := func(g Gomega) map[string]string {
		now := &clusterv1.MachineHealthCheck{}
		g.Expect(p.api.Get(p.ctx, client.ObjectKeyFromObject(core), now)).To(Succeed())
		return now.Annotations
	}
	p.Eventually(told, "10m").Should(HaveKeyWithValue(remedyv1.AdoptAnnotation, "false"))
	p.Consistently(done, "200ms").ShouldNot(Receive())
	p.Expect(told(p)).To(HaveKeyWithValue(clusterv1.PausedAnnotation, remedyv1.Pause), "the manager may be acting")

	let := p.get(core).(*clusterv1.MachineHealthCheck)
	let.Finalizers = []string{"example.com/other"}
	delete(let.Annotations, clusterv1.PausedAnnotation)
	delete(let.Annotations, remedyv1.AdoptionIDAnnotation)
	p.Expect(p.api.Update(p.ctx, let)).To(Succeed())
	let.Status.Conditions = let.Status.Conditions[2:]
	p.Expect(p.api.Status().Update(p.ctx, let)).To(Succeed())
	p.Eventually(done, "10m").Should(Receive(Succeed()))
	p.Expect(said.String()).To(ContainSubstring("MachineHealthCheck %s/core: released by the manager", p.namespace))
	p.Expect(told(p)).To(Equal(map[string]string{"example.com/other": "stays"}))
}

// A manager that hangs, or that does not act for the check, does not block the release.
func TestRelease_HangingManager_ReleasesAfterTimeout(t *testing.T) {
	p := newFixture(t)
	p.manager("--in-tree-machinehealthchecks=All")
	core, other := p.inTreeCheck("core"), p.inTreeCheck("other")
	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.Release(p.ctx, p.namespace, "")).To(Succeed(), said.String())
	for _, check := range []client.Object{core, other} {
		p.Expect(p.get(check).GetAnnotations()).To(Equal(map[string]string{"example.com/other": "stays", remedyv1.AdoptAnnotation: "false"}),
			"the manager would adopt it again")
		p.Expect(p.get(check).GetFinalizers()).To(Equal([]string{"example.com/other"}))
	}
}

// A status can become empty. Other controllers can set conditions of the same types.
func TestRelease_Status_RemovesOnlyOwnConditions(t *testing.T) {
	p := newFixture(t)
	ours, theirs := p.inTreeCheck("own"), p.inTreeCheck("other")
	p.setConditions(ours, remedyv1.AdoptedCondition, remedyv1.ReadyCondition)
	p.setConditions(theirs, remedyv1.ReadyCondition)
	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.Release(p.ctx, p.namespace, "")).To(Succeed(), said.String())
	p.Expect(p.get(ours).(*clusterv1.MachineHealthCheck).Status.Conditions).To(BeEmpty())
	p.Expect(p.get(theirs).(*clusterv1.MachineHealthCheck).Status.Conditions).To(ConsistOf(HaveField("Type", remedyv1.ReadyCondition)))
}

// namespacePermissions are the permissions that SECURITY.md lists for the release of one check or of a namespace, and no more.
func namespacePermissions() []rbacv1.PolicyRule {
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	core := clusterv1.GroupVersion.Group
	return []rbacv1.PolicyRule{
		rule(core, []string{"machinehealthchecks"}, "get", "list", "patch"), rule(core, []string{"machinehealthchecks/status"}, "patch"),
		rule(core, []string{"clusters"}, "get"), rule(core, []string{"machines"}, "get", "list", "patch"),
		rule(remedyv1.GroupVersion.Group, []string{"machinehealthchecks", nodeFence.Plural}, "list"),
		rule(remediator.Metal3.Group, []string{remediator.Metal3.Plural}, "get", "list", "patch", "delete"),
	}
}

// A user with permissions in one namespace cannot list managers, so a manager that adopts all checks is assumed. The user need not be
// allowed to list kinds on which no check leaves traces.
func TestRelease_NamespacePermissions_AreSufficient(t *testing.T) {
	p := newFixture(t)
	core, machine, request := p.inTreeCheck("core", remedyv1.AdoptAnnotation, "true"), p.machine("m-1", "InTreeMachineHealthCheck/core"),
		p.request("m-2", "InTreeMachineHealthCheck/"+p.namespace+"/core")
	stopped := p.request("m-3", "InTreeMachineHealthCheck/"+p.namespace+"/core")
	p.annotate(p.api, stopped, remedyv1.TimedOutAnnotation, "2026-03-14T11:00:00Z")
	uninstaller, said := p.user("tenant", namespacePermissions()...)
	p.Expect(uninstaller.Release(p.ctx, p.namespace, "core")).To(Succeed(), said.String())
	p.Expect(said.String()).To(MatchRegexp(
		"(?m)^skipped, because you are not allowed to list them and checks write nothing to them: .*configmaps, .*secrets, "))
	p.Expect(strings.Count(said.String(), "skipped")).To(Equal(1))
	p.Expect(said.String()).ToNot(Or(ContainSubstring("left:"), ContainSubstring("forbidden")))
	p.Expect(p.get(core).GetAnnotations()).To(Equal(map[string]string{"example.com/other": "stays", remedyv1.AdoptAnnotation: "false"}))
	p.Expect(p.ownAnnotations(machine)).To(BeEmpty())
	p.Expect(p.ownAnnotations(request)).To(BeEmpty())
	p.Expect(p.get(request).GetDeletionTimestamp()).To(BeNil())
	p.Expect(p.get(stopped).GetDeletionTimestamp()).ToNot(BeNil())
	p.Expect(p.ownAnnotations(stopped)).To(ConsistOf(remedyv1.TimedOutAnnotation))
}

// Traces may be left on objects that cannot be listed.
func TestRelease_UnlistableRequestsOrMachines_Fails(t *testing.T) {
	p := newFixture(t)
	p.inTreeCheck("core")
	p.request("m-1", "InTreeMachineHealthCheck/"+p.namespace+"/core")
	few := ofGroups(clusterv1.GroupVersion.Group)
	few.Resources = []string{"clusters", "machinehealthchecks", "machinehealthchecks/status"}
	for name, test := range map[string]struct {
		rule   rbacv1.PolicyRule
		misses string
	}{
		"requests": {ofGroups(clusterv1.GroupVersion.Group, remedyv1.GroupVersion.Group), "metal3remediations." + remediator.Metal3.Group},
		"machines": {few, "machines." + clusterv1.GroupVersion.Group},
	} {
		uninstaller, said := p.user(name, test.rule)
		p.Expect(uninstaller.Release(p.ctx, p.namespace, "core")).To(MatchError(ContainSubstring("incomplete")), name)
		p.Expect(said.String()).To(MatchRegexp("(?m)^left: %s: .*forbidden", test.misses))
	}
}

// A user may wonder why a check was never adopted.
func TestRelease_InvalidTakeOverValue_IsReportedOnce(t *testing.T) {
	p := newFixture(t)
	cluster := p.cluster("prod", nil, remedyv1.AdoptAnnotation, "True")
	p.inTreeCheck("yes", remedyv1.AdoptAnnotation, "yes")
	p.inTreeCheck("true", remedyv1.AdoptAnnotation, "true")
	p.inTreeCheck("false", remedyv1.AdoptAnnotation, "false")
	p.inTreeCheck("none")
	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.Release(p.ctx, p.namespace, "")).To(Succeed(), said.String())
	odd := "%s %s/%s: annotation " + remedyv1.AdoptAnnotation + `=%q has no effect: set "true" or "false"`
	p.Expect(said.String()).To(And(ContainSubstring(odd, "MachineHealthCheck", p.namespace, "yes", "yes"), ContainSubstring(odd, "Cluster",
		p.namespace, "prod", "True")))
	p.Expect(strings.Count(said.String(), "has no effect")).To(Equal(2), "once per object")
	p.Expect(p.get(cluster).GetAnnotations()).To(HaveKeyWithValue(remedyv1.AdoptAnnotation, "True"),
		"the annotation of the Cluster is not changed")

	again, said := p.uninstaller(false)
	p.Expect(again.Release(p.ctx, p.namespace, "none")).To(Succeed(), said.String())
	p.Expect(said.String()).To(ContainSubstring("nothing to remove"), "a warning is no change")
}
