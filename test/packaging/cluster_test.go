// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

func TestComponents_InstalledAndDeleted_LeaveNoTraces(t *testing.T) {
	g := NewWithT(t)
	cp := testenv.Start(t)
	admin := cp.API
	made := components(t, infrastructure, repository.ComponentsOptions{})
	clusterctl, err := config.New(t.Context(), "", config.InjectReader(config.NewMemoryReader()))
	g.Expect(err).ToNot(HaveOccurred())
	inCluster := cluster.New(cluster.Kubeconfig{Path: cp.Kubeconfig(t)}, clusterctl).ProviderComponents()
	g.Expect(inCluster.Create(t.Context(), made.Objs())).To(Succeed())

	t.Run("everything is there", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(labelled(t, cp)).To(HaveLen(len(made.Objs())))
	})
	t.Run("the pod is as restricted as its namespace demands", func(t *testing.T) {
		g := NewWithT(t)
		template := deployment(g, made.Objs()).Spec.Template
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "remedy-system", Name: "manager"}, Spec: template.Spec}
		g.Expect(admin.Create(t.Context(), pod.DeepCopy(), client.DryRunAll)).To(Succeed())
		g.Expect(*pod.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem).To(BeTrue())
		g.Expect(pod.Spec.Volumes).To(BeEmpty(), "it needs no certificate and no disk")
		lax := pod.DeepCopy()
		lax.Spec.SecurityContext.SeccompProfile = nil
		g.Expect(admin.Create(t.Context(), lax, client.DryRunAll)).To(MatchError(ContainSubstring("violates PodSecurity")), "or nothing was checked")
	})
	t.Run("and nothing is left when it is removed", func(t *testing.T) {
		g := NewWithT(t)
		provider := clusterctlv1.Provider{
			ObjectMeta:   metav1.ObjectMeta{Namespace: "remedy-system", Name: infrastructure.label},
			ProviderName: "remedy", Type: string(clusterctlv1.InfrastructureProviderType), Version: version,
		}
		g.Expect(inCluster.Delete(t.Context(), cluster.DeleteOptions{Provider: provider, IncludeNamespace: true, IncludeCRDs: true, SkipInventory: true})).To(Succeed())
		// The policies stay until their finalizer is removed: see TestUpgrade_TenantWritesCheck_IsDenied.
		g.Eventually(func() []string { return outside(labelled(t, cp), "remedy-system") }, time.Minute).
			Should(And(Not(BeEmpty()), HaveEach(HavePrefix("ValidatingAdmissionPolicy"))))
		for _, policy := range slices.Concat(ofKind(made.Objs(), "ValidatingAdmissionPolicy"), ofKind(made.Objs(), "ValidatingAdmissionPolicyBinding")) {
			policy.SetNamespace("")
			free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			g.Expect(admin.Patch(t.Context(), &policy, free)).To(Succeed())
		}
		// No namespace controller runs here, so the namespace stays terminating.
		g.Eventually(func() []string { return outside(labelled(t, cp), "remedy-system") }, time.Minute).Should(BeEmpty())
		namespace := &corev1.Namespace{}
		g.Expect(admin.Get(t.Context(), client.ObjectKey{Name: "remedy-system"}, namespace)).To(Succeed())
		g.Expect(namespace.DeletionTimestamp).ToNot(BeNil())
	})
}

// labelled lists every object of every kind that carries the provider label.
func labelled(t *testing.T, cp *testenv.Environment) map[string]string {
	t.Helper()
	g := NewWithT(t)
	api, err := discovery.NewDiscoveryClientForConfig(cp.Admin)
	g.Expect(err).ToNot(HaveOccurred())
	kinds, err := api.ServerPreferredResources()
	g.Expect(err).ToNot(HaveOccurred())
	found := map[string]string{}
	for _, list := range kinds {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		g.Expect(err).ToNot(HaveOccurred())
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") {
				continue
			}
			objects := &metav1.PartialObjectMetadataList{}
			objects.SetGroupVersionKind(gv.WithKind(resource.Kind + "List"))
			if err := cp.API.List(t.Context(), objects, client.MatchingLabels{"cluster.x-k8s.io/provider": infrastructure.label}); err != nil {
				continue
			}
			for _, object := range objects.Items {
				found[resource.Kind+" "+object.Name] = object.Namespace
			}
		}
	}
	return found
}

func outside(found map[string]string, namespace string) []string {
	var left []string
	for name, in := range found {
		if in != namespace && name != "Namespace "+namespace {
			left = append(left, name)
		}
	}
	return left
}
