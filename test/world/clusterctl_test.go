// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"maps"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// The program clusterctl, with local repositories and as a user types it: from the first installation to the last object. After each step,
// a search over all objects finds what the docs name.
func TestClusterctl_InitToDelete_LeavesNoTraces(t *testing.T) {
	t.Parallel()
	e := newClusterctlInstallation(t)
	t.Run("init", func(t *testing.T) { e.in(t).initialized() })
	e.addWorkload()
	e.install(true)
	marked, requested := e.remediate()
	t.Run("describe", func(t *testing.T) { e.in(t).described(marked) })
	t.Run("upgrade and rollback", func(t *testing.T) { e.in(t).upgradedAndRolledBack(marked, requested) })
	t.Run("delete is refused while checks exist", func(t *testing.T) { e.in(t).deleteRefused() })
	t.Run("move", func(t *testing.T) { e.in(t).movedByProgram(requested) })
	t.Run("delete", func(t *testing.T) { e.in(t).deleted() })
}

// newClusterctlInstallation has only what clusterctl installs.
func newClusterctlInstallation(t *testing.T) *installation {
	t.Helper()
	w := startWorld(t, world.Options{
		ClusterctlProgram: true, WithoutInfrastructure: true, Variables: map[string]string{world.RateLimiting: "false"},
		Flags: map[string][]string{world.Remedy: aTenaciousLead},
	})
	return &installation{WithT: NewWithT(t), t: t, w: w}
}

// addWorkload adds a workload cluster with a check of Cluster API that can be adopted.
func (e *installation) addWorkload() {
	e.t.Helper()
	ctx := e.t.Context()
	e.Expect(e.w.InstallRemediations(ctx)).To(Succeed())
	var err error
	e.c, err = e.w.Workload(ctx, world.Shape{Namespace: "clusterctl", Name: "prod", Pools: []world.Pool{
		{Name: "a", Replicas: 1},
		{Name: "b", Replicas: 1},
	}})
	e.Expect(err).ToNot(HaveOccurred())
	replaceIncomplete(ctx, e.w, &e.c.Cluster)
	e.Eventually(func() []string { return nodesOf(e.t, &e.c.Cluster) }, soon).Should(HaveLen(3))
	e.core = inTreeCheck(&e.c.Cluster)
	e.core.Name = "core"
	e.core.Spec.Selector.MatchLabels = map[string]string{world.PoolLabel: "a"}
	e.Expect(e.w.Client.Create(ctx, e.core)).To(Succeed())
}

// clusterctl runs the program for this management cluster.
func (e *installation) clusterctl(words ...string) (string, error) {
	e.t.Helper()
	out, err := e.w.RunClusterctl(e.t.Context(), append(words, "--kubeconfig="+e.w.Kubeconfig)...)
	e.t.Logf("clusterctl %v\n%s", words, out)
	return out, err
}

func (e *installation) initialized() {
	e.Expect(e.providers()).To(HaveKeyWithValue("remedy-system/infrastructure-remedy", world.Version))
	e.traces(installed).Should(BeEmpty(), "all that is installed has the label by which clusterctl deletes it")
	e.Expect(traces(e.t.Context(), e, e.w.Admin, none)).ToNot(BeEmpty(), "the search finds traces")
}

// providers are the versions of clusterctl's inventory.
func (e *installation) providers() map[string]string {
	e.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("clusterctl.cluster.x-k8s.io/v1alpha3")
	list.SetKind("ProviderList")
	e.Expect(e.w.Client.List(e.t.Context(), list)).To(Succeed())
	found := map[string]string{}
	for i := range list.Items {
		version, _, _ := unstructured.NestedString(list.Items[i].Object, "version")
		found[list.Items[i].GetNamespace()+"/"+list.Items[i].GetName()] = version
	}
	return found
}

func (e *installation) described(marked *clusterv1.Machine) {
	said, err := e.clusterctl("describe", "cluster", e.c.Name, "--namespace="+e.c.Namespace,
		"--show-conditions=Machine", "--grouping=false", "--color=false")
	e.Expect(err).ToNot(HaveOccurred())
	e.Expect(said).To(And(ContainSubstring("Machine "+e.c.Namespace+"/"+marked.Name),
		MatchRegexp(clusterv1.MachineOwnerRemediatedCondition+` +False`)))
}

// deleteRefused: the documented command with all its flags, while there are checks of Remedy's kinds. Nothing is deleted.
func (e *installation) deleteRefused() {
	before := traces(e.t.Context(), e, e.w.Admin, none)
	_, err := e.clusterctl("delete", "--infrastructure=remedy", "--include-crd", "--include-namespace")
	e.Expect(err).To(MatchError(ContainSubstring("found existing objects")))
	e.Expect(traces(e.t.Context(), e, e.w.Admin, none)).To(ContainElements(before))
	e.Expect(e.w.Process(world.Remedy).Ready(e.t.Context())).To(Succeed())
}

func (e *installation) movedByProgram(requested *clusterv1.Machine) {
	there := startWorld(e.t, world.Options{
		WithoutInfrastructure: true, Variables: map[string]string{world.RateLimiting: "false"},
		Flags: map[string][]string{world.Remedy: aTenaciousLead},
	})
	e.Expect(there.InstallRemediations(e.t.Context())).To(Succeed())
	e.Expect(e.w.MoveTo(e.t.Context(), there, e.c.Namespace)).To(Succeed())
	e.traces(installed).Should(ConsistOf("ClusterRole /puppetremediations"), "the permission that the user has granted is not moved")
	for _, object := range []client.Object{
		world.NewRemediation(world.Remediation, requested.Namespace, requested.Name),
		&clusterv1.MachineHealthCheck{ObjectMeta: e.core.ObjectMeta}, &remedyv1.MachineHealthCheck{ObjectMeta: e.check.ObjectMeta},
	} {
		e.Expect(there.Client.Get(e.t.Context(), client.ObjectKeyFromObject(object), object)).To(Succeed())
	}
}

// deleted: the uninstall of docs/install.md. First, clusterctl leaves the CRDs and the namespace, and Remedy is installed again. Then
// clusterctl deletes them, too.
func (e *installation) deleted() {
	ctx := e.t.Context()
	e.w.StopWithDeployment(ctx)
	_, err := remedy(e.t, e.w, "uninstall")
	e.Expect(err).ToNot(HaveOccurred())
	namespace := func() error { return e.w.Client.Get(ctx, client.ObjectKey{Name: "remedy-system"}, &corev1.Namespace{}) }

	_, err = e.clusterctl("delete", "--infrastructure=remedy")
	e.Expect(err).ToNot(HaveOccurred())
	e.traces(none).Should(BeEmpty())
	e.Expect(e.crds()).To(ConsistOf("MachineHealthCheck", "NodeHealthCheck"))
	e.Expect(namespace()).To(Succeed())
	e.Expect(e.providers()).ToNot(HaveKey("remedy-system/infrastructure-remedy"))

	e.Expect(e.policies()).To(BeEmpty())
	e.Expect(e.w.InstallRemedy(ctx)).To(Succeed())
	policies := e.policies()
	e.Expect(policies).ToNot(BeEmpty())
	e.Expect(e.providers()).To(HaveKey("remedy-system/infrastructure-remedy"))
	_, err = e.clusterctl("delete", "--infrastructure=remedy", "--include-crd", "--include-namespace")
	e.Expect(err).ToNot(HaveOccurred())
	// In the reverse order, the policies stay until the plugin removes their finalizer.
	e.Expect(slices.Sorted(maps.Keys(e.policies()))).To(Equal(slices.Sorted(maps.Keys(policies))))
	_, err = remedy(e.t, e.w, "uninstall")
	e.Expect(err).ToNot(HaveOccurred())
	e.traces(none).Should(BeEmpty())
	e.Eventually(e.crds, soon).Should(BeEmpty())
	e.Eventually(namespace, soon).Should(MatchError(ContainSubstring("not found")))
	e.Expect(e.providers()).ToNot(HaveKey("remedy-system/infrastructure-remedy"))
}
