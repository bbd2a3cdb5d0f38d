// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

func ofGroups(groups ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: groups, Resources: []string{"*"}, Verbs: []string{"get", "list", "patch"}}
}

// tenant is what SECURITY.md says that one needs to release a check, or those of a namespace, and nothing more.
func tenant() []rbacv1.PolicyRule {
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	core := clusterv1.GroupVersion.Group
	return []rbacv1.PolicyRule{
		rule(core, []string{"machinehealthchecks"}, "get", "list", "patch"), rule(core, []string{"machinehealthchecks/status"}, "patch"),
		rule(core, []string{"clusters"}, "get"), rule(core, []string{"machines"}, "get", "list", "patch"),
		rule(remedyv1.GroupVersion.Group, []string{"machinehealthchecks"}, "list"),
		rule(remediator.Metal3.Group, []string{remediator.Metal3.Plural}, "get", "list", "patch", "delete"),
	}
}

// Somebody with rights in a namespace only sees no manager: it may be there, and be told to take all. He need not be allowed to see what no check leaves
// anything on.
func TestATenantGivesBackHisOwnChecks(t *testing.T) {
	p := newPlace(t)
	core, machine, request := p.core("core", remedyv1.TakeOverAnnotation, "true"), p.machine("m-1", "CoreMachineHealthCheck/core"), p.request("m-2", "CoreMachineHealthCheck/"+p.namespace+"/core")
	stopped := p.request("m-3", "CoreMachineHealthCheck/"+p.namespace+"/core")
	p.notes(p.api, stopped, remedyv1.TimedOutAnnotation, "2026-03-14T11:00:00Z")
	leaver, said := p.as("tenant", tenant()...)
	p.Expect(leaver.Checks(p.ctx, p.namespace, "core")).To(Succeed(), said.String())
	p.Expect(said.String()).To(MatchRegexp("(?m)^not looked at, as you may not list them, and as no check of Cluster API leaves anything of ours there: .*configmaps, .*secrets, "))
	p.Expect(strings.Count(said.String(), "not looked at")).To(Equal(1))
	p.Expect(said.String()).ToNot(Or(ContainSubstring("left:"), ContainSubstring("forbidden")))
	p.Expect(p.get(core).GetAnnotations()).To(Equal(map[string]string{"example.com/theirs": "stays", remedyv1.TakeOverAnnotation: "false"}))
	p.Expect(p.left(machine)).To(BeEmpty())
	p.Expect(p.left(request)).To(BeEmpty())
	p.Expect(p.get(request).GetDeletionTimestamp()).To(BeNil())
	p.Expect(p.get(stopped).GetDeletionTimestamp()).ToNot(BeNil())
	p.Expect(p.left(stopped)).To(ConsistOf(remedyv1.TimedOutAnnotation))
}

// TestWhatATenantCannotSeeIsNamedWhereSomethingCanBe: nobody knows then whether anything is left.
func TestWhatATenantCannotSeeIsNamedWhereSomethingCanBe(t *testing.T) {
	p := newPlace(t)
	p.core("core")
	p.request("m-1", "CoreMachineHealthCheck/"+p.namespace+"/core")
	few := ofGroups(clusterv1.GroupVersion.Group)
	few.Resources = []string{"clusters", "machinehealthchecks", "machinehealthchecks/status"}
	for name, test := range map[string]struct {
		rule   rbacv1.PolicyRule
		misses string
	}{
		"requests": {ofGroups(clusterv1.GroupVersion.Group, remedyv1.GroupVersion.Group), "metal3remediations." + remediator.Metal3.Group},
		"machines": {few, "machines." + clusterv1.GroupVersion.Group},
	} {
		leaver, said := p.as(name, test.rule)
		p.Expect(leaver.Checks(p.ctx, p.namespace, "core")).To(MatchError(ContainSubstring("not everything could be cleaned up or seen")), name)
		p.Expect(said.String()).To(MatchRegexp("(?m)^left: %s: .*forbidden", test.misses))
	}
}

// TestEverythingIsEverything: whoever may not see all of a cluster cannot say that nothing is left in it.
func TestEverythingIsEverything(t *testing.T) {
	p := newPlace(t)
	p.core("core")
	most := ofGroups(clusterv1.GroupVersion.Group, remedyv1.GroupVersion.Group, remediator.Metal3.Group, "apps", "coordination.k8s.io")
	most.Verbs = append(most.Verbs, "delete")
	leaver, said := p.as("most", most)
	p.Expect(leaver.All(p.ctx)).To(MatchError(ContainSubstring("not everything could be cleaned up or seen")))
	p.Expect(said.String()).To(MatchRegexp("(?m)^left: the management cluster: secrets: .*forbidden"))
}

// TestAnAnnotationThatNobodyUnderstandsIsTold: somebody wonders why nothing was ever taken over.
func TestAnAnnotationThatNobodyUnderstandsIsTold(t *testing.T) {
	p := newPlace(t)
	cluster := &clusterv1.Cluster{ObjectMeta: p.meta("prod", remedyv1.TakeOverAnnotation, "True")}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "AnyCluster", Name: "prod"}
	p.create(cluster)
	p.core("yes", remedyv1.TakeOverAnnotation, "yes")
	p.core("true", remedyv1.TakeOverAnnotation, "true")
	p.core("false", remedyv1.TakeOverAnnotation, "false")
	p.core("none")
	leaver, said := p.leaver(false)
	p.Expect(leaver.Checks(p.ctx, p.namespace, "")).To(Succeed(), said.String())
	odd := "%s %s/%s: the annotation " + remedyv1.TakeOverAnnotation + ` says %q, which nobody understands: it is "true" or "false", in lower case`
	p.Expect(said.String()).To(And(ContainSubstring(odd, "MachineHealthCheck", p.namespace, "yes", "yes"), ContainSubstring(odd, "Cluster", p.namespace, "prod", "True")))
	p.Expect(strings.Count(said.String(), "nobody understands")).To(Equal(2), "and each once")
	p.Expect(p.get(cluster).GetAnnotations()).To(HaveKeyWithValue(remedyv1.TakeOverAnnotation, "True"), "it is not told of the Cluster that checks of its own are to be given back")

	again, said := p.leaver(false)
	p.Expect(again.Checks(p.ctx, p.namespace, "none")).To(Succeed(), said.String())
	p.Expect(said.String()).To(ContainSubstring("there was nothing of ours to take off"), "it is no change")
}
