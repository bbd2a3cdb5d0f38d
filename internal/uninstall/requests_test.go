// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/uninstall"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// setSucceeded sets the condition Succeeded of a request, as a remediator does.
func (p *fixture) setSucceeded(request *unstructured.Unstructured, succeeded string) {
	p.t.Helper()
	before := request.DeepCopy()
	conditions := []any{map[string]any{
		"type": "Succeeded", "status": succeeded, "reason": "Test", "message": "",
		"lastTransitionTime": "2026-03-14T12:00:00Z",
	}}
	p.Expect(unstructured.SetNestedSlice(request.Object, conditions, "status", "conditions")).To(Succeed())
	p.Expect(p.api.Status().Patch(p.ctx, request, client.MergeFrom(before))).To(Succeed())
	p.Expect(p.get(request).(*unstructured.Unstructured).Object).To(HaveKey("status"))
}

// A remediator can take the annotation for a failure, and escalate.
func TestWithdraw_SucceededRequest_IsNotTimedOut(t *testing.T) {
	p := newFixture(t)
	check := "MachineHealthCheck/" + p.namespace + "/own"
	done, failed, silent, told := p.request("done", check), p.request("failed", check), p.request("silent", check), p.request("stopped", check)
	p.setSucceeded(done, "True")
	p.setSucceeded(failed, "False")
	p.setSucceeded(silent, "Unknown")
	const earlier = "2026-03-14T11:00:00Z"
	p.annotate(p.api, told, remedyv1.TimedOutAnnotation, earlier)

	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.All(p.ctx)).To(Succeed(), said.String())
	for _, request := range []*unstructured.Unstructured{done, failed, silent, told} {
		p.Expect(p.get(request).GetDeletionTimestamp()).ToNot(BeNil(), request.GetName())
		p.Expect(p.get(request).GetAnnotations()).ToNot(HaveKey(remedyv1.CheckAnnotation), request.GetName())
	}
	stop := func(o client.Object) string { return p.get(o).GetAnnotations()[remedyv1.TimedOutAnnotation] }
	p.Expect(stop(done)).To(BeEmpty())
	p.Expect(stop(failed)).To(Equal("2026-03-14T12:00:00Z"))
	p.Expect(stop(silent)).To(Equal("2026-03-14T12:00:00Z"))
	p.Expect(stop(told)).To(Equal(earlier), "it is set once")
}

// Without the in-tree controller, nothing would continue the requests of its checks.
func TestWithdraw_ExclusiveManager_IncludesInTreeRequests(t *testing.T) {
	for flag, withdrawn := range map[string]bool{"Replace": true, "All": false, "OptIn": false} {
		t.Run(flag, func(t *testing.T) {
			p := newFixture(t)
			p.manager("--in-tree-machinehealthchecks", flag)
			p.inTreeCheck("core")
			request := p.request("m-1", "InTreeMachineHealthCheck/"+p.namespace+"/core")
			verdict := ContainSubstring("Metal3Remediation %s/m-1: withdrawn", p.namespace)
			dry, said := p.uninstaller(true)
			p.Expect(dry.All(p.ctx)).To(Succeed())
			p.Expect(verdict.Match(said.String())).To(Equal(withdrawn), said.String())
			p.Expect(p.get(request).GetDeletionTimestamp()).To(BeNil())

			uninstaller, said := p.uninstaller(false)
			p.Expect(uninstaller.All(p.ctx)).To(Succeed(), said.String())
			p.Expect(verdict.Match(said.String())).To(Equal(withdrawn), said.String())
			p.Expect(p.get(request).GetDeletionTimestamp() != nil).To(Equal(withdrawn))
			_, told := p.get(request).GetAnnotations()[remedyv1.TimedOutAnnotation]
			p.Expect(told).To(Equal(withdrawn))
			p.Expect(traces(t, management)).To(BeEmpty())
		})
	}
}

// The remediator has stopped, and the in-tree controller would wait for it forever.
func TestWithdraw_TimedOutRequest_IsDeleted(t *testing.T) {
	for how, release := range map[string]func(*uninstall.Uninstaller, *fixture) error{
		"all":       func(l *uninstall.Uninstaller, p *fixture) error { return l.All(p.ctx) },
		"one check": func(l *uninstall.Uninstaller, p *fixture) error { return l.Release(p.ctx, p.namespace, "core") },
	} {
		t.Run(how, func(t *testing.T) {
			p := newFixture(t)
			p.inTreeCheck("core")
			check := "InTreeMachineHealthCheck/" + p.namespace + "/core"
			told, goesOn := p.request("stopped", check), p.request("goes-on", check)
			p.annotate(p.api, told, remedyv1.TimedOutAnnotation, "2026-03-14T11:00:00Z")
			uninstaller, said := p.uninstaller(false)
			p.Expect(release(uninstaller, p)).To(Succeed(), said.String())
			p.Expect(said.String()).To(ContainSubstring("Metal3Remediation %s/stopped: withdrawn", p.namespace))
			p.Expect(p.get(told).GetDeletionTimestamp()).ToNot(BeNil())
			p.Expect(p.get(told).GetAnnotations()).ToNot(HaveKey(remedyv1.CheckAnnotation))
			p.Expect(p.get(goesOn).GetDeletionTimestamp()).To(BeNil())
		})
	}
}

// owned returns an object with some owners and no annotation of a check.
func (p *fixture) owned(kind remediator.Kind, name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	p.t.Helper()
	o := kind.NewRequest(p.namespace, name)
	o.SetAnnotations(p.meta(name).Annotations)
	o.SetOwnerReferences(owners)
	return o
}

func machineOwner(name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: "a-machine"}
}

// nonRequests creates objects in the management cluster that no check can have created.
func (p *fixture) nonRequests() map[string]client.Object {
	p.t.Helper()
	lone := remediator.NewKind("lone.example.com", "v1", "LoneRemediation")
	core := remediator.NewKind(clusterv1.GroupVersion.Group, "v1", "Shaped")
	p.Expect(management.InstallCRDObjects(append(core.CRDs(), lone.RequestCRD())...)).To(Succeed())
	controlled := machineOwner("controlled")
	controlled.Controller = ptr.To(true)
	foreign := machineOwner("foreign")
	foreign.APIVersion = "example.com/v1"
	all := map[string]client.Object{
		"Secret":                     &corev1.Secret{ObjectMeta: p.meta("any")},
		"Secret owned by a Machine":  &corev1.Secret{ObjectMeta: p.meta("owned")},
		"no owner":                   p.owned(remediator.Metal3, "nobodys"),
		"owned by another Machine":   p.owned(remediator.Metal3, "another", machineOwner("m-1")),
		"controlled by a Machine":    p.owned(remediator.Metal3, "controlled", controlled),
		"owned by another kind":      p.owned(remediator.Metal3, "foreign", foreign),
		"kind of Cluster API's core": p.owned(core, "core", machineOwner("core")),
		"kind without templates":     p.owned(lone, "lone", machineOwner("lone")),
	}
	all["Secret owned by a Machine"].SetOwnerReferences([]metav1.OwnerReference{machineOwner("owned")})
	pod := p.pod("pod")
	pod.OwnerReferences = []metav1.OwnerReference{machineOwner("pod")}
	p.Expect(p.api.Update(p.ctx, pod)).To(Succeed())
	for _, o := range all {
		p.create(o)
	}
	all["Pod owned by a Machine"] = pod
	all["Machine"] = p.machine("m-1", "")
	owner := p.machine("m-2", "")
	all["Machine owned by a Machine"] = owner
	before := owner.DeepCopy()
	owner.OwnerReferences = []metav1.OwnerReference{machineOwner("m-2")}
	p.Expect(p.api.Patch(p.ctx, owner, client.MergeFrom(before))).To(Succeed())
	return all
}

// A user who may annotate an object must not be able to have an administrator delete it.
func TestAll_AnnotatedNonRequest_IsNotDeleted(t *testing.T) {
	p := newFixture(t)
	p.cluster("prod", p.kubeconfig())
	forged := []string{remedyv1.CheckAnnotation, "MachineHealthCheck/" + p.namespace + "/own"}
	all := p.nonRequests()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	p.Expect(p.api.Get(p.ctx, client.ObjectKeyFromObject(namespace), namespace)).To(Succeed())
	all["Namespace"] = namespace
	for _, o := range all {
		p.annotate(p.api, o, forged...)
	}
	far := p.far()
	node := p.node(far)
	p.annotate(far, node, forged...)

	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.All(p.ctx)).To(Succeed(), said.String())
	for what, o := range all {
		p.Expect(p.get(o).GetDeletionTimestamp()).To(BeNil(), what)
		p.Expect(p.get(o).GetAnnotations()).ToNot(Or(HaveKey(remedyv1.CheckAnnotation), HaveKey(remedyv1.TimedOutAnnotation)), what)
	}
	p.Expect(far.Get(p.ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
	p.Expect(node.Annotations).To(Equal(map[string]string{"example.com/other": "stays"}))
	p.Expect(said.String()).To(And(
		ContainSubstring("Secret %s/any: removed %s; not deleted because it does not have the form of a remediation request", p.namespace,
			remedyv1.CheckAnnotation),
		ContainSubstring("LoneRemediation %s/lone: removed %s; not deleted", p.namespace, remedyv1.CheckAnnotation)))
	p.Expect(said.String()).ToNot(ContainSubstring("withdrawn"))
}

// The same holds for an object with the annotation that stops a remediator.
func TestRelease_AnnotatedNonRequest_IsNotDeleted(t *testing.T) {
	p := newFixture(t)
	p.inTreeCheck("core")
	all := p.nonRequests()
	for _, o := range all {
		p.annotate(p.api, o, remedyv1.CheckAnnotation, "InTreeMachineHealthCheck/"+p.namespace+"/core", remedyv1.TimedOutAnnotation,
			"2026-03-14T11:00:00Z")
	}
	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.Release(p.ctx, p.namespace, "core")).To(Succeed(), said.String())
	for what, o := range all {
		p.Expect(p.get(o).GetDeletionTimestamp()).To(BeNil(), what)
		p.Expect(p.get(o).GetAnnotations()).ToNot(HaveKey(remedyv1.CheckAnnotation), what)
	}
	p.Expect(said.String()).To(ContainSubstring("Secret %s/any: removed %s; not deleted", p.namespace, remedyv1.CheckAnnotation))
	p.Expect(said.String()).ToNot(ContainSubstring("withdrawn"))
}
