// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"context"
	"maps"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// notes puts annotations on an object that somebody else has made.
func (p *place) notes(api client.Client, o client.Object, annotations ...string) {
	p.t.Helper()
	before := o.DeepCopyObject().(client.Object)
	all := map[string]string{}
	maps.Copy(all, o.GetAnnotations())
	for i := 0; i < len(annotations); i += 2 {
		all[annotations[i]] = annotations[i+1]
	}
	o.SetAnnotations(all)
	p.Expect(api.Patch(p.ctx, o, client.MergeFrom(before))).To(Succeed())
}

// owned is an object of a kind with the owners that are given, and no other word on who made it.
func (p *place) owned(kind remediator.Kind, name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	p.t.Helper()
	o := kind.NewRequest(p.namespace, name)
	o.SetAnnotations(p.meta(name).Annotations)
	o.SetOwnerReferences(owners)
	return o
}

func machineOwner(name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: "a-machine"}
}

// bystanders are objects in the management cluster that no check of ours can have made, each by its name.
func (p *place) bystanders() map[string]client.Object {
	p.t.Helper()
	lone := remediator.NewKind("lone.example.com", "v1", "LoneRemediation")
	core := remediator.NewKind(clusterv1.GroupVersion.Group, "v1", "Shaped")
	p.Expect(management.InstallCRDObjects(append(core.CRDs(), lone.RequestCRD())...)).To(Succeed())
	controlled := machineOwner("controlled")
	controlled.Controller = ptr.To(true)
	foreign := machineOwner("foreign")
	foreign.APIVersion = "example.com/v1"
	all := map[string]client.Object{
		"a Secret":                              &corev1.Secret{ObjectMeta: p.meta("any")},
		"a Secret with such an owner":           &corev1.Secret{ObjectMeta: p.meta("owned")},
		"what nobody owns":                      p.owned(remediator.Metal3, "nobodys"),
		"what a Machine of another name owns":   p.owned(remediator.Metal3, "another", machineOwner("m-1")),
		"what a Machine controls":               p.owned(remediator.Metal3, "controlled", controlled),
		"what another kind of Machine owns":     p.owned(remediator.Metal3, "foreign", foreign),
		"a kind of Cluster API's core":          p.owned(core, "core", machineOwner("core")),
		"a kind for which no template is there": p.owned(lone, "lone", machineOwner("lone")),
	}
	all["a Secret with such an owner"].SetOwnerReferences([]metav1.OwnerReference{machineOwner("owned")})
	pod := p.pod("pod")
	pod.OwnerReferences = []metav1.OwnerReference{machineOwner("pod")}
	p.Expect(p.api.Update(p.ctx, pod)).To(Succeed())
	for _, o := range all {
		p.create(o)
	}
	all["a Pod with such an owner, for which there are templates"] = pod
	all["a Machine"] = p.machine("m-1", "")
	owner := p.machine("m-2", "")
	all["a Machine that a Machine owns"] = owner
	before := owner.DeepCopy()
	owner.OwnerReferences = []metav1.OwnerReference{machineOwner("m-2")}
	p.Expect(p.api.Patch(p.ctx, owner, client.MergeFrom(before))).To(Succeed())
	return all
}

// TestOnlyARequestIsWithdrawn: whoever may annotate an object must not have an administrator delete it.
func TestOnlyARequestIsWithdrawn(t *testing.T) {
	p := newPlace(t)
	p.cluster("prod", p.kubeconfig())
	forged := []string{remedyv1.CheckAnnotation, "MachineHealthCheck/" + p.namespace + "/ours"}
	all := p.bystanders()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	p.Expect(p.api.Get(p.ctx, client.ObjectKeyFromObject(namespace), namespace)).To(Succeed())
	all["a Namespace"] = namespace
	for _, o := range all {
		p.notes(p.api, o, forged...)
	}
	far, err := client.New(workloads.Admin, client.Options{Scheme: known()})
	p.Expect(err).ToNot(HaveOccurred())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "n-"}}
	p.Expect(far.Create(p.ctx, node)).To(Succeed())
	p.notes(far, node, forged...)

	leaver, said := p.leaver(false)
	p.Expect(leaver.All(p.ctx)).To(Succeed(), said.String())
	for what, o := range all {
		p.Expect(p.get(o).GetDeletionTimestamp()).To(BeNil(), what)
		p.Expect(p.get(o).GetAnnotations()).ToNot(Or(HaveKey(remedyv1.CheckAnnotation), HaveKey(remedyv1.TimedOutAnnotation)), what)
	}
	p.Expect(far.Get(p.ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
	p.Expect(node.Annotations).To(BeEmpty())
	p.Expect(said.String()).To(And(
		ContainSubstring("Secret %s/any: without %s: it stays, as nothing shows that it is a remediation request", p.namespace, remedyv1.CheckAnnotation),
		ContainSubstring("LoneRemediation %s/lone: without %s: it stays", p.namespace, remedyv1.CheckAnnotation)))
	p.Expect(said.String()).ToNot(ContainSubstring("withdrawn"))
}

// TestWithOneCheckOnlyARequestIsWithdrawn: the same goes for what says that it was told to stop.
func TestWithOneCheckOnlyARequestIsWithdrawn(t *testing.T) {
	p := newPlace(t)
	p.core("core")
	all := p.bystanders()
	for _, o := range all {
		p.notes(p.api, o, remedyv1.CheckAnnotation, "CoreMachineHealthCheck/"+p.namespace+"/core", remedyv1.TimedOutAnnotation, "2026-03-14T11:00:00Z")
	}
	leaver, said := p.leaver(false)
	p.Expect(leaver.Checks(p.ctx, p.namespace, "core")).To(Succeed(), said.String())
	for what, o := range all {
		p.Expect(p.get(o).GetDeletionTimestamp()).To(BeNil(), what)
		p.Expect(p.get(o).GetAnnotations()).ToNot(HaveKey(remedyv1.CheckAnnotation), what)
	}
	p.Expect(said.String()).To(ContainSubstring("Secret %s/any: without %s: it stays", p.namespace, remedyv1.CheckAnnotation))
	p.Expect(said.String()).ToNot(ContainSubstring("withdrawn"))
}

// TestRequestsForNodesAreWithdrawn: they belong to the check, or, in a workload cluster, to their Node.
func TestRequestsForNodesAreWithdrawn(t *testing.T) {
	p := newPlace(t)
	p.cluster("prod", p.kubeconfig())
	p.Expect(workloads.InstallCRDObjects(remediator.FenceAgents.CRDs()...)).To(Succeed())
	far, err := client.New(workloads.Admin, client.Options{Scheme: known()})
	p.Expect(err).ToNot(HaveOccurred())
	check := metav1.OwnerReference{APIVersion: remedyv1.GroupVersion.String(), Kind: "NodeHealthCheck", Name: "nodes", UID: "a-check"}
	beside := p.owned(remediator.Metal3, "n-1", check)
	p.create(beside)
	p.notes(p.api, beside, remedyv1.CheckAnnotation, "NodeHealthCheck//nodes")
	node := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n-1", UID: "a-node"}
	away := p.owned(remediator.FenceAgents, "n-1", node)
	away.SetNamespace("default")
	p.Expect(far.Create(p.ctx, away)).To(Succeed())
	p.notes(far, away, remedyv1.CheckAnnotation, "NodeHealthCheck//nodes")
	p.t.Cleanup(func() { p.Expect(client.IgnoreNotFound(far.Delete(context.Background(), away))).To(Succeed()) })

	leaver, said := p.leaver(false)
	p.Expect(leaver.All(p.ctx)).To(Succeed(), said.String())
	p.Expect(said.String()).To(And(
		ContainSubstring("Metal3Remediation %s/n-1: withdrawn", p.namespace),
		ContainSubstring("FenceAgentsRemediation default/n-1 in Cluster %s/prod: withdrawn", p.namespace)))
	for api, o := range map[client.Client]client.Object{p.api: beside, far: away} {
		p.Expect(api.Get(p.ctx, client.ObjectKeyFromObject(o), o)).To(MatchError(ContainSubstring("not found")))
	}
}
