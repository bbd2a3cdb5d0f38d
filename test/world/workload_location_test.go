// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// remediators is a namespace of the workload cluster.
const remediators = "remediators"

// whatAHealthCheckNeedsThere is everything that a check with templates and requests in the workload cluster relies on, and that the
// in-memory API server does not have. It is asked for as a manager would ask: with the kubeconfig of the Secret, through the link.
func whatAHealthCheckNeedsThere(t *testing.T, c *world.Workload, node string) {
	g := NewWithT(t)
	g.Expect(c.InstallRemediations(t.Context())).To(Succeed())
	kubeconfig, err := c.Kubeconfig(t.Context(), true)
	g.Expect(err).ToNot(HaveOccurred())
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	g.Expect(err).ToNot(HaveOccurred())
	link, err := c.Link(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	before := link.Carried()
	manager, err := client.New(config, client.Options{})
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(manager.Create(t.Context(), &corev1.Namespace{ObjectMeta: named(remediators)})).To(Succeed())
	g.Expect(link.Carried()).To(BeNumerically(">", before), "or it goes past the link")

	t.Run("a request is made from its template, once, and belongs to its Node", func(t *testing.T) { requestsAreMade(t, manager, node) })
	t.Run("a remediator may write the status of a request and nothing else", func(t *testing.T) { statusIsASubresource(t, c, manager, node) })
	t.Run("one of two gets the Lease of a Node", func(t *testing.T) { leasesAreHeldByOne(t, manager, node) })
	t.Run("server-side apply keeps the fields of two apart", func(t *testing.T) { fieldsHaveManagers(t, manager, node) })
}

func requestsAreMade(t *testing.T, manager client.Client, node string) {
	g := NewWithT(t)
	template := world.NewRemediation(world.RemediationTemplate, remediators, "reboot")
	template.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"strategy": "reboot"}}}
	g.Expect(manager.Create(t.Context(), template)).To(Succeed())
	sick := &corev1.Node{}
	g.Expect(manager.Get(t.Context(), client.ObjectKey{Name: node}, sick)).To(Succeed())

	request := world.NewRemediation(world.Remediation, remediators, node)
	spec, _, err := unstructured.NestedMap(template.Object, "spec", "template", "spec")
	g.Expect(err).ToNot(HaveOccurred())
	request.Object["spec"] = spec
	request.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: sick.UID}})
	again := request.DeepCopy()
	g.Expect(manager.Create(t.Context(), request)).To(Succeed())
	g.Expect(apierrors.IsAlreadyExists(manager.Create(t.Context(), again))).To(BeTrue())

	got := world.NewRemediation(world.Remediation, remediators, node)
	g.Expect(manager.Get(t.Context(), client.ObjectKeyFromObject(got), got)).To(Succeed())
	g.Expect(got.Object).To(HaveKeyWithValue("spec", HaveKeyWithValue("strategy", "reboot")))
	g.Expect(got.GetOwnerReferences()).To(ConsistOf(HaveField("UID", sick.UID)))
	// A withdrawal must not hit what came after it under the same name.
	err = manager.Delete(t.Context(), got, client.Preconditions{UID: ptr.To(types.UID("another-uid"))})
	g.Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
}

func statusIsASubresource(t *testing.T, c *world.Workload, manager client.Client, node string) {
	g := NewWithT(t)
	role := &rbacv1.ClusterRole{ObjectMeta: named("remediator"), Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{world.Remediation.Group}, Resources: []string{"puppetremediations"}, Verbs: []string{"get"}},
		{APIGroups: []string{world.Remediation.Group}, Resources: []string{"puppetremediations/status"}, Verbs: []string{"patch"}},
	}}
	g.Expect(manager.Create(t.Context(), role)).To(Succeed())
	g.Expect(manager.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: named("remediator"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "remediator"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: remediators, Name: "remediator"}},
	})).To(Succeed())
	config, err := c.Plane.Config(controlplane.ServiceAccount(remediators, "remediator"))
	g.Expect(err).ToNot(HaveOccurred())
	remediator, err := client.New(config, client.Options{})
	g.Expect(err).ToNot(HaveOccurred())

	request := world.NewRemediation(world.Remediation, remediators, node)
	// The API server learns of a new role a moment later.
	g.Eventually(func() error { return remediator.Get(t.Context(), client.ObjectKeyFromObject(request), request) }, soon).Should(Succeed())
	both := `{"spec":{"strategy":"shoot"},"status":{"conditions":[{"type":"Succeeded","status":"%s"}]}}`
	succeeded := client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(both, "True")))
	g.Expect(apierrors.IsForbidden(remediator.Patch(t.Context(), request.DeepCopy(), succeeded))).To(BeTrue())
	g.Expect(remediator.Status().Patch(t.Context(), request, succeeded)).To(Succeed())
	g.Expect(request.Object).To(And(
		HaveKeyWithValue("spec", HaveKeyWithValue("strategy", "reboot")),
		HaveKeyWithValue("status", HaveKeyWithValue("conditions", ConsistOf(HaveKeyWithValue("status", "True")))),
	))
	// The other way round: who may change the request does not change its status by it.
	g.Expect(manager.Patch(t.Context(), request, client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(both, "False"))))).To(Succeed())
	g.Expect(request.Object).To(And(
		HaveKeyWithValue("spec", HaveKeyWithValue("strategy", "shoot")),
		HaveKeyWithValue("status", HaveKeyWithValue("conditions", ConsistOf(HaveKeyWithValue("status", "True")))),
	))
}

func leasesAreHeldByOne(t *testing.T, manager client.Client, node string) {
	g := NewWithT(t)
	lease := func(holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: remediators, Name: "node-" + node},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](600), RenewTime: ptr.To(metav1.NowMicro())},
		}
	}
	first := lease("first")
	g.Expect(manager.Create(t.Context(), first)).To(Succeed())
	g.Expect(apierrors.IsAlreadyExists(manager.Create(t.Context(), lease("second")))).To(BeTrue())
	late := first.DeepCopy()
	first.Spec.RenewTime = ptr.To(metav1.NowMicro())
	g.Expect(manager.Update(t.Context(), first)).To(Succeed())
	late.Spec.HolderIdentity = ptr.To("second")
	g.Expect(apierrors.IsConflict(manager.Update(t.Context(), late))).To(BeTrue(), "it has seen an older one")
	g.Expect(manager.Delete(t.Context(), first)).To(Succeed())
	g.Expect(manager.Create(t.Context(), lease("second"))).To(Succeed())
}

func fieldsHaveManagers(t *testing.T, manager client.Client, node string) {
	g := NewWithT(t)
	apply := func(owner string, annotations map[string]any, options ...client.ApplyOption) error {
		said := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": node, "annotations": annotations},
		}}
		return manager.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(said), append(options, client.FieldOwner(owner))...)
	}
	annotations := func() map[string]string {
		got := &corev1.Node{}
		g.Expect(manager.Get(t.Context(), client.ObjectKey{Name: node}, got)).To(Succeed())
		return got.Annotations
	}
	g.Expect(apply("one", map[string]any{"both": "one", "mine": "one"})).To(Succeed())
	err := apply("two", map[string]any{"both": "two"})
	g.Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
	g.Expect(err).To(MatchError(ContainSubstring(`conflict with "one"`)))
	g.Expect(annotations()).To(And(HaveKeyWithValue("both", "one"), HaveKeyWithValue("mine", "one")))

	g.Expect(apply("two", map[string]any{"both": "two"}, client.ForceOwnership)).To(Succeed())
	g.Expect(annotations()).To(And(HaveKeyWithValue("both", "two"), HaveKeyWithValue("mine", "one")))
	// A field that is not applied any more is removed, unless another manager owns it.
	g.Expect(apply("one", map[string]any{})).To(Succeed())
	g.Expect(annotations()).To(And(HaveKeyWithValue("both", "two"), Not(HaveKey("mine"))))
}

// inMemoryIsTooThin is why there is a second API server; the day it fails, there need not be.
func inMemoryIsTooThin(t *testing.T, c *world.Cluster, node string) {
	g := NewWithT(t)
	there, err := c.Client(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	said := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": node}}}
	g.Expect(there.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(said), client.FieldOwner("one"))).ToNot(Succeed(), "server-side apply")
	got, err := c.Node(t.Context(), node)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(there.Status().Patch(t.Context(), got, client.RawPatch(types.MergePatchType, []byte(`{}`)))).ToNot(Succeed(), "the status of a Node")
	g.Expect(there.List(t.Context(), &coordinationv1.LeaseList{}, client.InNamespace(corev1.NamespaceNodeLease))).ToNot(Succeed(), "Leases")
	g.Expect(c.RenewLease(t.Context(), node)).To(MatchError(ContainSubstring("see World.Workload")))
}
