// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package noderemedy

import (
	"context"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// policiesWork waits until the API server evaluates the policies.
func policiesWork(f *fixture) {
	f.t.Helper()
	broken := &fencingv1.FenceProfile{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "broken"}}
	unknown := fencingv1.Parameters{"a": "$(b)"}
	broken.Spec.Methods = []fencingv1.FenceMethod{{Name: "a", Agent: "fence_a", Image: "a", Parameters: unknown}}
	f.Eventually(func() error { return f.api.Create(f.t.Context(), broken.DeepCopy(), client.DryRunAll) }).
		Should(MatchError(ContainSubstring("unknown variable")))
}

func (f *fixture) profileOf(r *fencingv1.NodeRemedy) *fencingv1.FenceProfile {
	found := &fencingv1.FenceProfile{}
	f.Expect(f.api.Get(f.t.Context(), client.ObjectKey{Namespace: f.namespace, Name: r.Name}, found)).To(Succeed())
	return found
}

// fence creates a NodeFence in progress with a FenceProfile.
func (f *fixture) fence(name, profile string, methods ...fencingv1.MethodName) *fencingv1.NodeFence {
	fence := &fencingv1.NodeFence{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name, Finalizers: []string{"example.com/fence"}}}
	fence.Spec.ProfileName, fence.Spec.Run = profile, &methods
	f.Expect(f.api.Create(f.t.Context(), fence)).To(Succeed())
	f.t.Cleanup(func() { f.Expect(client.IgnoreNotFound(f.end(fence))).To(Succeed()) })
	return fence
}

// end removes the finalizer of an object that is being deleted, or deletes it.
func (f *fixture) end(o client.Object) error {
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := f.api.Patch(context.Background(), o, patch); err != nil {
		return err
	}
	return client.IgnoreNotFound(f.api.Delete(context.Background(), o))
}

func withoutPods(r *fencingv1.NodeRemedy) {
	r.Spec.ThresholdConfigs, r.Spec.RemedyConfigs = r.Spec.ThresholdConfigs[1:], r.Spec.RemedyConfigs[3:]
}

func TestNodeRemedy_Created_AppliesAndMirrors(t *testing.T) {
	f := newFixture(t)
	r := f.create()
	f.Expect(f.reconcile(r).RequeueAfter).To(BeZero())
	f.Expect(f.generated(r)).To(HaveLen(5))
	f.Expect(valid(r)).To(Equal("True Valid: "))
	f.Expect(condition(r, "Ready")).To(HavePrefix("Unknown NotReconciled: The manager of checks has not reconciled"))
	f.Expect(r.Status.ObservedGeneration).To(Equal(r.Generation))

	check := &remedyv1.NodeHealthCheck{}
	f.Expect(f.api.Get(t.Context(), client.ObjectKey{Name: r.Name}, check)).To(Succeed())
	f.Expect(metav1.IsControlledBy(check, r)).To(BeTrue())
	check.Status.ObservedNodes, check.Status.Blocked = ptr.To[int32](3), ptr.To[int32](1)
	check.Status.Conditions = []metav1.Condition{{
		Type: "Ready", Status: "False", Reason: "RequestFailed", Message: "Why", LastTransitionTime: metav1.Now(),
	}}
	f.Expect(f.api.Status().Update(t.Context(), check)).To(Succeed())
	f.reconcile(r)
	f.Expect(condition(r, "Ready")).To(Equal("False RequestFailed: Why"))
	f.Expect(r.Status.ObservedNodes).To(HaveValue(BeEquivalentTo(3)))
	f.Expect(r.Status.Blocked).To(HaveValue(BeEquivalentTo(1)))

	// Changes by others are undone, and a reconcile without a change writes nothing.
	check.Spec.Selector.MatchLabels["type"] = "other"
	f.Expect(f.api.Update(t.Context(), check)).To(Succeed())
	f.reconcile(r)
	f.Expect(f.api.Get(t.Context(), client.ObjectKey{Name: r.Name}, check)).To(Succeed())
	f.Expect(check.Spec.Selector).To(Equal(r.Spec.NodeSelector))
	version, own := check.ResourceVersion, r.ResourceVersion
	f.reconcile(r)
	f.Expect(f.api.Get(t.Context(), client.ObjectKey{Name: r.Name}, check)).To(Succeed())
	f.Expect([]string{check.ResourceVersion, r.ResourceVersion}).To(Equal([]string{version, own}))
	f.Expect(f.api.Delete(t.Context(), f.profileOf(r))).To(Succeed())
	f.reconcile(r)
	f.reconcile(r)
	f.Expect(f.profileOf(r).DeletionTimestamp).To(BeNil())
}

func TestNodeRemedy_OtherWatchLabel_IsIgnored(t *testing.T) {
	f := newFixture(t)
	f.r.WatchFilter = "mine"
	r := f.create()
	f.reconcile(r)
	f.Expect(f.generated(r)).To(BeEmpty())
	f.Expect(r.Finalizers).To(BeEmpty())
	f.edit(r, func(r *fencingv1.NodeRemedy) { r.Labels = map[string]string{clusterv1.WatchLabel: "mine"} })
	f.reconcile(r)
	f.Expect(f.generated(r)).To(HaveLen(5))
}

func TestNodeRemedy_ForeignObject_IsNotChanged(t *testing.T) {
	f := newFixture(t)
	r := f.create()
	check := &remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: r.Name}}
	check.Spec.RemediationTemplate = &remedyv1.NodeTemplateReference{Namespace: f.namespace, TemplateKind: remedyv1.TemplateKind{
		APIVersion: "a.b/v1", Kind: "FooTemplate", Name: "foo",
	}}
	f.Expect(f.api.Create(t.Context(), check)).To(Succeed())
	version := check.ResourceVersion
	f.Expect(f.reconcile(r).RequeueAfter).ToNot(BeZero())
	f.Expect(valid(r)).To(Equal("False NameConflict: NodeHealthCheck " + r.Name + " exists, and NodeRemedy " + r.Name +
		" does not own it: delete it, or use another name for the NodeRemedy"))
	f.Expect(condition(r, "Ready")).To(Equal("False NameConflict: No Node is monitored: see the condition Valid"))
	f.Expect(f.generated(r)).To(BeEmpty(), "nothing is half-done")
	f.Expect(f.api.Get(t.Context(), client.ObjectKeyFromObject(check), check)).To(Succeed())
	f.Expect(check.ResourceVersion).To(Equal(version))

	f.Expect(f.api.Delete(t.Context(), r)).To(Succeed())
	f.reconcile(r)
	f.Expect(apierrors.IsNotFound(f.api.Get(t.Context(), client.ObjectKeyFromObject(r), r))).To(BeTrue())
	f.Expect(f.api.Get(t.Context(), client.ObjectKeyFromObject(check), check)).To(Succeed())
	f.Expect(check.DeletionTimestamp).To(BeNil())
}

// Objects that exist are applied by force, and the new one between them is not.
func TestNodeRemedy_ForeignObjectMeanwhile_IsNotChanged(t *testing.T) {
	f := newFixture(t)
	r := f.create()
	f.reconcile(r)
	f.edit(r, func(r *fencingv1.NodeRemedy) {
		r.Spec.ThresholdConfigs[1].Remedies = append(r.Spec.ThresholdConfigs[1].Remedies, fencingv1.RemedyUse{Name: "repair"})
	})
	foreign := &fencingv1.NodeFenceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: r.Name + "-diskpressure-true-repair"}}
	foreign.Spec.Template.Spec.ProfileName = "foreign"
	f.meanwhile = func() { f.Expect(f.api.Create(t.Context(), foreign)).To(Succeed()) }
	f.reconcile(r)
	f.Expect(f.meanwhile).To(BeNil())
	f.Expect(f.api.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign)).To(Succeed())
	f.Expect(foreign.Spec.Template.Spec.ProfileName).To(Equal("foreign"))
	f.Expect(foreign.OwnerReferences).To(BeEmpty())
	f.reconcile(r)
	f.Expect(valid(r)).To(HavePrefix("False NameConflict: NodeFenceTemplate " + f.namespace + "/" + foreign.Name))
}

func TestNodeRemedy_Rejected_IsReported(t *testing.T) {
	f := newFixture(t)
	policiesWork(f)
	r := f.create(func(r *fencingv1.NodeRemedy) {
		r.Spec.RemedyConfigs[0].PodTemplate = &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[]}}`)}
	})
	f.Expect(f.reconcile(r).RequeueAfter).ToNot(BeZero())
	f.Expect(valid(r)).To(And(HavePrefix("False NotApplied: failed to apply FenceProfile "+r.Name),
		ContainSubstring("podTemplate of method repair needs spec.containers")))
	f.Expect(f.generated(r)).To(BeEmpty(), "nothing is half-done")

	f.forbidden = "NodeHealthCheck"
	f.edit(r, func(r *fencingv1.NodeRemedy) {
		r.Spec.RemedyConfigs[0].PodTemplate.Raw = r.Spec.RemedyConfigs[1].PodTemplate.Raw
	})
	f.reconcile(r)
	f.Expect(valid(r)).To(HavePrefix("False NotApplied: failed to apply NodeHealthCheck " + r.Name))
	f.Expect(f.generated(r)).To(BeEmpty(), "the check comes last")

	f.forbidden, f.r.OwnNodesNamespace = "", "elsewhere"
	f.reconcile(r)
	f.Expect(valid(r)).To(HavePrefix("False WrongNamespace: NodeFences in namespace " + f.namespace + " cannot fence Nodes of this cluster"))
	f.r.OwnNodesNamespace = f.namespace
	f.reconcile(r)
	f.Expect(valid(r)).To(HavePrefix("True"))

	// An invalid edit leaves the last valid generation as it is.
	f.edit(r, func(r *fencingv1.NodeRemedy) { r.Spec.ThresholdConfigs[0].Remedies[0].Name = "x" })
	f.reconcile(r)
	f.Expect(valid(r)).To(HavePrefix("False RemedyNotFound"))
	f.Expect(f.generated(r)).To(HaveLen(5))
}

func TestNodeRemedy_NamespaceMissing_IsReported(t *testing.T) {
	f := newFixture(t)
	f.r.OwnNodesNamespace = "missing"
	r := f.create(func(r *fencingv1.NodeRemedy) { r.Spec.Namespace = "missing" })
	f.reconcile(r)
	f.Expect(valid(r)).To(And(HavePrefix("False NotApplied: "), HaveSuffix(`namespaces "missing" not found`)))
}

// An object with the label of another owner is not deleted.
func TestNodeRemedy_ForeignLabel_IsKept(t *testing.T) {
	f := newFixture(t)
	r := f.create()
	template := &fencingv1.NodeFenceTemplate{ObjectMeta: metav1.ObjectMeta{
		Namespace: f.namespace, Name: "mine", Labels: map[string]string{fencingv1.NodeRemedyLabel: r.Name},
	}}
	f.Expect(f.api.Create(t.Context(), template)).To(Succeed())
	f.reconcile(r)
	f.Expect(f.generated(r)).To(HaveLen(6))
	f.Expect(f.api.Delete(t.Context(), r)).To(Succeed())
	f.reconcile(r)
	f.Expect(f.generated(r)).To(Equal([]string{nameOf(template)}))
}

// A machine could stay off if its method or its profile no longer existed.
func TestNodeRemedy_EditedWhileFencing_KeepsMethods(t *testing.T) {
	f := newFixture(t)
	r := f.create()
	f.reconcile(r)
	fence, before := f.fence("worker-1", r.Name, "repair"), f.profileOf(r).Spec
	f.edit(r, func(r *fencingv1.NodeRemedy) {
		for i := range 2 {
			r.Spec.RemedyConfigs[i].PodTemplate.Raw = []byte(`{"spec":{"containers":[{"name":"a","image":"b"}]}}`)
		}
	})
	f.Expect(f.reconcile(r).RequeueAfter).ToNot(BeZero())
	f.Expect(valid(r)).To(Equal("True Valid: FenceProfile " + f.namespace + "/" + r.Name + " keeps method repair until NodeFence " +
		f.namespace + "/worker-1 has ended"))
	f.Expect(f.profileOf(r).Spec.Methods[0]).To(Equal(before.Methods[0]))
	f.Expect(f.profileOf(r).Spec.Methods[1]).ToNot(Equal(before.Methods[1]))

	f.edit(r, func(r *fencingv1.NodeRemedy) {
		r.Spec.RemedyConfigs = r.Spec.RemedyConfigs[1:]
		r.Spec.ThresholdConfigs[0].Remedies = r.Spec.ThresholdConfigs[0].Remedies[1:]
	})
	f.reconcile(r)
	f.Expect(f.profileOf(r).Spec.Methods).To(ContainElement(HaveField("Name", BeEquivalentTo("repair"))))

	f.edit(r, withoutLastPods)
	f.reconcile(r)
	f.Expect(valid(r)).To(Equal("True Valid: FenceProfile " + f.namespace + "/" + r.Name + " is deleted when NodeFence " + f.namespace +
		"/worker-1 has ended: without it, a machine could stay off"))
	f.Expect(f.profileOf(r).Spec.Methods).To(ContainElement(HaveField("Name", BeEquivalentTo("repair"))))
	f.Expect(f.generated(r)).To(HaveLen(3), "templates that are not needed are deleted")
	f.Expect(f.end(fence)).To(Succeed())
	f.Expect(f.reconcile(r).RequeueAfter).To(BeZero())
	f.Expect(valid(r)).To(Equal("True Valid: "))
	f.Expect(f.generated(r)).To(HaveLen(2))
}

func withoutLastPods(r *fencingv1.NodeRemedy) {
	r.Spec.ThresholdConfigs, r.Spec.RemedyConfigs = r.Spec.ThresholdConfigs[1:], r.Spec.RemedyConfigs[2:]
}

func TestNodeRemedy_Deleted_WaitsForFences(t *testing.T) {
	f := newFixture(t)
	r := f.create()
	f.reconcile(r)
	check := &remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: r.Name}}
	cleanup := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["remedy.cluster.x-k8s.io/cleanup"]}}`))
	f.Expect(f.api.Patch(t.Context(), check, cleanup)).To(Succeed())
	fence := f.fence("worker-1", r.Name, "repair")
	// Garbage collection in the foreground deletes the profile at once.
	f.Expect(f.api.Delete(t.Context(), f.profileOf(r))).To(Succeed())
	f.reconcile(r)
	f.Expect(f.profileOf(r).DeletionTimestamp).ToNot(BeNil(), "a fence needs it")

	f.Expect(f.api.Delete(t.Context(), r)).To(Succeed())
	f.Expect(f.reconcile(r).RequeueAfter).ToNot(BeZero())
	f.Expect(condition(r, "Ready")).To(Equal("Unknown CleaningUp: NodeHealthCheck " + r.Name +
		" is being deleted, and ends its remediation requests first"))
	f.Expect(f.generated(r)).To(HaveLen(5))
	f.Expect(f.end(check)).To(Succeed())
	f.reconcile(r)
	f.Expect(condition(r, "Ready")).To(HavePrefix("Unknown CleaningUp: FenceProfile " + f.namespace + "/" + r.Name +
		" is deleted when NodeFence"))
	f.Expect(f.generated(r)).To(HaveLen(1))

	// A fence that has ended needs no device.
	f.Expect(f.end(fence)).To(Succeed())
	f.reconcile(r)
	f.Expect(f.generated(r)).To(BeEmpty())
	f.Expect(apierrors.IsNotFound(f.api.Get(t.Context(), client.ObjectKeyFromObject(r), r))).To(BeTrue())
}

// Each write is the last one of a manager, and the next manager continues.
func TestNodeRemedy_KilledAfterEachWrite_Continues(t *testing.T) {
	f := newFixture(t)
	f.mortal = true
	r := f.create()
	killed := func() {
		f.Expect(f.kills).To(BeNumerically(">=", 2))
		f.kills, f.writes = 0, 0
	}
	f.reconcile(r)
	f.Expect(f.generated(r)).To(HaveLen(5))
	f.Expect(valid(r)).To(HavePrefix("True"))
	killed()
	f.edit(r, withoutPods)
	f.reconcile(r)
	f.Expect(f.generated(r)).To(HaveLen(2))
	killed()
	f.Expect(f.api.Delete(t.Context(), r)).To(Succeed())
	f.reconcile(r)
	f.Expect(f.generated(r)).To(BeEmpty())
	f.Expect(apierrors.IsNotFound(f.api.Get(t.Context(), client.ObjectKeyFromObject(r), r))).To(BeTrue())
	killed()
}

func TestFencesOf_Ended_AreNotUsed(t *testing.T) {
	f := newFixture(t)
	r := f.create()
	fence := f.fence("worker-1", r.Name, "repair")
	f.Expect(f.r.fencesOf(t.Context(), r)).To(HaveLen(1))
	other := f.fence("worker-2", "")
	names := func() (names []string) {
		fences, err := f.r.fencesOf(t.Context(), r)
		f.Expect(err).ToNot(HaveOccurred())
		for i := range fences {
			names = append(names, fences[i].Name)
		}
		return slices.Sorted(slices.Values(names))
	}
	f.Expect(names()).To(Equal([]string{"worker-1"}))
	manager := f.r.Client
	other.Status = fencingv1.NodeFenceStatus{Phase: fencingv1.PhaseRunning, Step: "PowerManagement"}
	other.Status.Node = &fencingv1.FencedNode{Name: "b", UID: "b", ProfileName: r.Name}
	f.Expect(manager.Status().Update(t.Context(), other)).To(Succeed())
	f.Expect(names()).To(Equal([]string{"worker-1", "worker-2"}), "it was resolved to the profile")
	fence.Status = fencingv1.NodeFenceStatus{Phase: fencingv1.PhaseFinal, Step: "Recovery"}
	f.Expect(manager.Status().Update(t.Context(), fence)).To(Succeed())
	f.Expect(names()).To(Equal([]string{"worker-2"}))
}
