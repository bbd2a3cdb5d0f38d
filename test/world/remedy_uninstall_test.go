// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// searchInterval is the interval between two searches for traces in the whole cluster.
const searchInterval = 2 * time.Second

// installation is a management cluster for this test alone, because Remedy is uninstalled, and a workload cluster with a real API server. A
// check of Cluster API monitors pool a, a check of Remedy pool b.
type installation struct {
	*WithT
	t       *testing.T
	w       *world.World
	c       *world.Workload
	core    *clusterv1.MachineHealthCheck
	check   *remedyv1.MachineHealthCheck
	kubelet context.CancelFunc
}

// newInstallation has no unhealthy Machine.
func newInstallation(t *testing.T) *installation {
	t.Helper()
	g := NewWithT(t)
	w := startWorld(t, world.Options{
		ClusterctlProgram: true, WithoutInfrastructure: true, Variables: map[string]string{world.RateLimiting: "false"},
		Flags: map[string][]string{world.Remedy: aTenaciousLead},
	})
	g.Expect(w.InstallRemediations(t.Context())).To(Succeed())
	c, err := w.Workload(t.Context(), world.Shape{Namespace: "uninstall", Name: "prod", Pools: []world.Pool{
		{Name: "a", Replicas: 1},
		{Name: "b", Replicas: 1},
	}})
	g.Expect(err).ToNot(HaveOccurred())
	replaceIncomplete(t.Context(), w, &c.Cluster)
	e := &installation{WithT: g, t: t, w: w, c: c}
	e.Eventually(func() []string { return nodesOf(t, &c.Cluster) }, soon).Should(HaveLen(3))
	e.core = inTreeCheck(&c.Cluster)
	e.core.Name = "core"
	e.core.Annotations = map[string]string{remedyv1.AdoptAnnotation: "true"}
	e.core.Spec.Selector.MatchLabels = map[string]string{world.PoolLabel: "a"}
	e.Expect(w.Client.Create(t.Context(), e.core)).To(Succeed())
	return e
}

// install installs Remedy again if it was uninstalled, and waits until the check of Cluster API is adopted.
func (e *installation) install(installed bool) {
	e.t.Helper()
	ctx := e.t.Context()
	if !installed {
		e.Expect(e.w.InstallRemedy(ctx)).To(Succeed())
	}
	running, stop := context.WithCancel(ctx)
	e.kubelet = stop
	e.w.StopWithDeployment(running)
	e.Expect(e.w.InstallRemediations(ctx)).To(Succeed())
	e.annotate(remedyv1.AdoptAnnotation, "true")
	role := &rbacv1.ClusterRole{ObjectMeta: named("puppetremediations")}
	e.Expect(e.w.Client.Get(ctx, client.ObjectKeyFromObject(role), role)).To(Succeed())
	before := client.MergeFrom(role.DeepCopy())
	role.Labels[remedyv1.AggregateToManagerLabel] = "true"
	e.Expect(e.w.Client.Patch(ctx, role, before)).To(Succeed())
	e.Eventually(e.condition(remedyv1.AdoptedCondition), soon).Should(Equal("True " + remedyv1.AdoptedReason))
}

func (e *installation) annotate(key, value string) {
	e.t.Helper()
	check := e.inTreeCheck()
	before := client.MergeFrom(check.DeepCopy())
	if check.Annotations == nil {
		check.Annotations = map[string]string{}
	}
	check.Annotations[key] = value
	e.Expect(e.w.Client.Patch(e.t.Context(), check, before)).To(Succeed())
}

// inTreeCheck reads the check of Cluster API.
func (e *installation) inTreeCheck() *clusterv1.MachineHealthCheck {
	e.t.Helper()
	check := &clusterv1.MachineHealthCheck{}
	e.Expect(e.w.Client.Get(e.t.Context(), client.ObjectKeyFromObject(e.core), check)).To(Succeed())
	return check
}

func (e *installation) condition(kind string) func() string {
	return func() string {
		if c := meta.FindStatusCondition(e.inTreeCheck().Status.Conditions, kind); c != nil {
			return string(c.Status) + " " + c.Reason
		}
		return "none"
	}
}

// machine returns the Machine of a pool, which has a Node.
func (e *installation) machine(pool string) *clusterv1.Machine {
	e.t.Helper()
	var found *clusterv1.Machine
	e.Eventually(func(g Gomega) {
		machines, err := e.c.PoolMachines(e.t.Context(), pool)
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(machines).To(HaveLen(1))
		g.Expect(machines[0].Status.NodeRef.Name).ToNot(BeEmpty())
		g.Expect(machines[0].DeletionTimestamp).To(BeNil())
		found = &machines[0]
	}, soon).Should(Succeed())
	return found
}

// pause pauses or unpauses the owner of a pool's Machines, and waits until the owner has seen it.
func (e *installation) pause(pool string, paused bool) {
	e.t.Helper()
	sets := &clusterv1.MachineSetList{}
	e.Expect(e.w.Client.List(e.t.Context(), sets, client.InNamespace(e.c.Namespace), client.MatchingLabels{world.PoolLabel: pool})).
		To(Succeed())
	for i := range sets.Items {
		pause(e.t, e.w, &sets.Items[i], paused)
	}
}

// remediate has the manager begin an owner remediation that does not end, and a request.
func (e *installation) remediate() (marked, asked *clusterv1.Machine) {
	e.t.Helper()
	ctx := e.t.Context()
	marked, asked = e.machine("a"), e.machine("b")
	e.pause("a", true)
	template := world.NewRemediation(world.RemediationTemplate, e.c.Namespace, "reboot")
	template.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{}}}
	e.Expect(client.IgnoreAlreadyExists(e.w.Client.Create(ctx, template))).To(Succeed())
	e.check = remedyCheck(&e.c.Cluster, "b")
	e.check.Name = "check"
	e.check.Spec.RemediationTemplate = referenceTo(template)
	// An earlier uninstall has kept it.
	e.Expect(client.IgnoreAlreadyExists(e.w.Client.Create(ctx, e.check))).To(Succeed())
	for _, m := range []*clusterv1.Machine{marked, asked} {
		e.Expect(e.c.SetNodeCondition(ctx, m.Status.NodeRef.Name, corev1.NodeReady, corev1.ConditionUnknown, "Test")).To(Succeed())
	}
	e.Eventually(func(g Gomega) {
		m := &clusterv1.Machine{}
		g.Expect(e.w.Client.Get(ctx, client.ObjectKeyFromObject(marked), m)).To(Succeed())
		g.Expect(isMarked(m)).To(BeTrue())
		g.Expect(m.Annotations).To(HaveKeyWithValue(remedyv1.MarkedByAnnotation, "InTreeMachineHealthCheck/core"),
			"the in-tree controller has not marked it")
		request := world.NewRemediation(world.Remediation, asked.Namespace, asked.Name)
		g.Expect(e.w.Client.Get(ctx, client.ObjectKeyFromObject(request), request)).To(Succeed())
	}, soon).Should(Succeed())
	e.addTraces(asked.Status.NodeRef.Name)
	return marked, asked
}

// addTraces adds to the workload cluster the Lease of a control plane and the remediation history of a Node.
func (e *installation) addTraces(node string) {
	e.t.Helper()
	far, err := e.c.Client(e.t.Context())
	e.Expect(err).ToNot(HaveOccurred())
	system := &corev1.Namespace{ObjectMeta: named("kube-system")}
	e.Expect(client.IgnoreAlreadyExists(far.Create(e.t.Context(), system))).To(Succeed())
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: system.Name, Name: "remedy-control-plane"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("MachineHealthCheck/uninstall/check")},
	}
	e.Expect(client.IgnoreAlreadyExists(far.Create(e.t.Context(), lease))).To(Succeed())
	n := &corev1.Node{ObjectMeta: named(node)}
	e.Expect(far.Get(e.t.Context(), client.ObjectKeyFromObject(n), n)).To(Succeed())
	before := client.MergeFrom(n.DeepCopy())
	n.Annotations = map[string]string{remedyv1.AttemptsAnnotation: "2"}
	e.Expect(far.Patch(e.t.Context(), n, before)).To(Succeed())
}

// traces searches the management cluster repeatedly for traces of Remedy.
func (e *installation) traces(but func(*unstructured.Unstructured) bool) AsyncAssertion {
	e.t.Helper()
	return e.Eventually(func(g Gomega) []string { return traces(e.t.Context(), g, e.w.Admin, but) }, soon, searchInterval)
}

// expectNoTraces waits until no cluster has traces of Remedy.
func (e *installation) expectNoTraces() {
	e.t.Helper()
	e.traces(installed).Should(BeEmpty())
	e.Expect(traces(e.t.Context(), e, e.c.Plane.Admin, none)).To(BeEmpty())
	far, err := e.c.Client(e.t.Context())
	e.Expect(err).ToNot(HaveOccurred())
	lease := &coordinationv1.Lease{}
	e.Expect(far.Get(e.t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "remedy-control-plane"}, lease)).To(MatchError(
		ContainSubstring("not found")))
}

// expectInTree waits until the in-tree controller has remediated an unhealthy Machine of its check.
func (e *installation) expectInTree(unhealthy *clusterv1.Machine) {
	e.t.Helper()
	e.Eventually(e.condition(clusterv1.PausedCondition), soon).Should(HavePrefix("False"))
	e.pause("a", false)
	e.Eventually(func() error { return e.w.Client.Get(e.t.Context(), client.ObjectKeyFromObject(unhealthy), unhealthy) }, soon).
		Should(MatchError(ContainSubstring("not found")))
	e.Expect(e.machine("a").Annotations).ToNot(HaveKey(remedyv1.MarkedByAnnotation))
}

// crds returns the kinds of Remedy's CRDs.
func (e *installation) crds() []string {
	e.t.Helper()
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	e.Expect(e.w.Client.List(e.t.Context(), list)).To(Succeed())
	var found []string
	for i := range list.Items {
		if list.Items[i].Spec.Group == remedyv1.GroupVersion.Group {
			found = append(found, list.Items[i].Spec.Names.Kind)
		}
	}
	return found
}

// deleteCRDs deletes the CRDs without waiting, as users do if clusterctl refuses it because of existing objects.
func (e *installation) deleteCRDs() {
	e.t.Helper()
	for _, name := range []string{"machinehealthchecks", "nodehealthchecks"} {
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: named(name + "." + remedyv1.GroupVersion.Group)}
		e.Expect(e.w.Client.Delete(e.t.Context(), definition)).To(Succeed())
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	e.Eventually(func(g Gomega) {
		g.Expect(e.w.Client.Get(e.t.Context(), client.ObjectKey{Name: "machinehealthchecks." + remedyv1.GroupVersion.Group}, definition)).
			To(Succeed())
		g.Expect(definition.Status.Conditions).To(ContainElement(And(HaveField("Type", apiextensionsv1.Terminating), HaveField("Status",
			apiextensionsv1.ConditionTrue))))
	}, soon).Should(Succeed())
}

// Both orders of an uninstall, and a move to a cluster without Remedy, end without traces. Then the in-tree controller remediates.
func TestUninstall_AnyOrder_LeavesNoTraces(t *testing.T) {
	t.Parallel()
	e := newInstallation(t)
	t.Run("released, then uninstalled", func(t *testing.T) { e.in(t).releasedFirst() })
	t.Run("uninstalled without the CRDs, then released", func(t *testing.T) { e.in(t).uninstalledFirst(false) })
	t.Run("uninstalled with the CRDs, then released", func(t *testing.T) { e.in(t).uninstalledFirst(true) })
	t.Run("uninstalled, moved to a cluster without Remedy, then released", func(t *testing.T) { e.in(t).moved() })
}

func (e *installation) in(t *testing.T) *installation {
	t.Helper()
	there := *e
	there.WithT, there.t = NewWithT(t), t
	return &there
}

func (e *installation) releasedFirst() {
	e.install(true)
	marked, asked := e.remediate()
	before := e.inTreeCheck()
	said, err := remedy(e.t, e.w, "uninstall", "--dry-run")
	e.Expect(err).ToNot(HaveOccurred())
	e.Expect(said).To(And(ContainSubstring("MachineHealthCheck uninstall/core: removed "+clusterv1.PausedAnnotation),
		ContainSubstring(" changes (dry run)"), ContainSubstring("in Cluster uninstall/prod")))
	e.Expect(e.inTreeCheck().Annotations).To(Equal(before.Annotations))
	e.Expect(e.w.Process(world.Remedy).Running()).To(BeTrue())
	e.Expect(traces(e.t.Context(), e, e.w.Admin, installed)).ToNot(BeEmpty(), "the search finds traces")
	e.Expect(traces(e.t.Context(), e, e.c.Plane.Admin, none)).ToNot(BeEmpty(), "the search finds traces")

	_, err = remedy(e.t, e.w, "uninstall")
	e.Expect(err).ToNot(HaveOccurred())
	e.Eventually(func() bool { return e.w.Process(world.Remedy).Running() }, soon).Should(BeFalse(),
		"the process ends after it has released the leader election")
	e.expectNoTraces()
	request := world.NewRemediation(world.Remediation, asked.Namespace, asked.Name)
	e.Expect(e.w.Client.Get(e.t.Context(), client.ObjectKeyFromObject(request), request)).To(MatchError(ContainSubstring("not found")),
		"no manager would withdraw it")
	said, err = remedy(e.t, e.w, "uninstall")
	e.Expect(err).ToNot(HaveOccurred())
	e.Expect(said).To(Equal("nothing to remove\n"))
	e.expectInTree(marked)

	e.Expect(e.w.UninstallRemedy(e.t.Context())).To(Succeed())
	e.traces(none).Should(BeEmpty(), "clusterctl has deleted the rest")
	e.Expect(e.crds()).To(ConsistOf("MachineHealthCheck", "NodeHealthCheck"), "clusterctl keeps CRDs by default")
	e.kubelet()
}

func (e *installation) uninstalledFirst(withCRDs bool) {
	e.install(false)
	marked, _ := e.remediate()
	e.Eventually(func() []string { return e.inTreeCheck().Finalizers }, soon).ShouldNot(BeEmpty())
	e.Expect(e.w.UninstallRemedy(e.t.Context())).To(Succeed())
	e.Eventually(func() bool { return e.w.Process(world.Remedy).Running() }, soon).Should(BeFalse())
	e.Expect(e.inTreeCheck().Annotations).To(HaveKeyWithValue(clusterv1.PausedAnnotation, remedyv1.Pause), "no controller reconciles it")
	e.Expect(e.condition(clusterv1.PausedCondition)()).To(HavePrefix("True"))

	if withCRDs {
		e.deleteCRDs()
		e.Expect(e.crds()).To(ContainElement("MachineHealthCheck"), "a finalizer of Remedy blocks its deletion")
	}

	_, err := remedy(e.t, e.w, "uninstall")
	e.Expect(err).ToNot(HaveOccurred())
	if withCRDs {
		e.Eventually(e.crds, soon).Should(BeEmpty())
	}
	e.expectNoTraces()
	e.traces(none).Should(BeEmpty())
	e.expectInTree(marked)
	e.kubelet()
}

// moved: clusterctl refuses to move to a cluster without the provider. If Remedy is uninstalled first, its pause is moved, too.
func (e *installation) moved() {
	there := startWorld(e.t, world.Options{
		WithoutInfrastructure: true, WithoutRemedy: true,
		Variables: map[string]string{world.RateLimiting: "false"},
	})
	e.Expect(there.InstallRemediations(e.t.Context())).To(Succeed())
	e.install(false)
	marked, _ := e.remediate()
	e.Expect(e.w.MoveTo(e.t.Context(), there, e.c.Namespace)).To(MatchError(
		ContainSubstring("provider infrastructure-remedy not found in the target cluster")))
	e.Expect(e.w.UninstallRemedy(e.t.Context())).To(Succeed())
	e.Eventually(func() bool { return e.w.Process(world.Remedy).Running() }, soon).Should(BeFalse())
	// A check of Remedy's own kind cannot be moved to a cluster without its CRD.
	e.Expect(e.w.Client.Delete(e.t.Context(), e.check)).To(Succeed())
	e.Expect(e.w.Client.Patch(e.t.Context(), e.check, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"finalizers":[]}}`)))).To(Succeed())
	e.Expect(e.w.MoveTo(e.t.Context(), there, e.c.Namespace)).To(Succeed())

	e.w = there
	var err error
	e.c, err = e.c.In(there)
	e.Expect(err).ToNot(HaveOccurred())
	replaceIncomplete(e.t.Context(), there, &e.c.Cluster)
	e.Eventually(e.condition(clusterv1.PausedCondition), soon).Should(HavePrefix("True"))
	e.Expect(e.inTreeCheck().Annotations).To(HaveKeyWithValue(clusterv1.PausedAnnotation, remedyv1.Pause),
		"the pause was moved, and no controller reconciles it")
	e.Expect(traces(e.t.Context(), e, e.w.Admin, none)).ToNot(BeEmpty())

	_, err = remedy(e.t, e.w, "uninstall")
	e.Expect(err).ToNot(HaveOccurred())
	e.expectNoTraces()
	e.expectInTree(marked)
}
