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
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// lookEvery is how often everything is searched through.
const lookEvery = 2 * time.Second

// estate is a management cluster of its own, as it is uninstalled here, with a workload cluster that has a real API server. A check of Cluster API looks after
// pool a, one of ours after pool b.
type estate struct {
	*WithT
	t       *testing.T
	w       *world.World
	c       *world.Workload
	core    *clusterv1.MachineHealthCheck
	ours    *remedyv1.MachineHealthCheck
	kubelet context.CancelFunc
}

// newEstate has nobody sick.
func newEstate(t *testing.T) *estate {
	t.Helper()
	g := NewWithT(t)
	w := startWorld(t, world.Options{
		WithoutInfrastructure: true, Variables: map[string]string{world.RateLimiting: "false"}, Flags: map[string][]string{world.Remedy: aTenaciousLead},
	})
	g.Expect(w.InstallRemediations(t.Context())).To(Succeed())
	c, err := w.Workload(t.Context(), world.Shape{Namespace: "leaving", Name: "prod", Pools: []world.Pool{{Name: "a", Replicas: 1}, {Name: "b", Replicas: 1}}})
	g.Expect(err).ToNot(HaveOccurred())
	replaceIncomplete(t.Context(), w, &c.Cluster)
	e := &estate{WithT: g, t: t, w: w, c: c}
	e.Eventually(func() []string { return nodesOf(t, &c.Cluster) }, soon).Should(HaveLen(3))
	e.core = inTreeCheck(&c.Cluster)
	e.core.Name = "core"
	e.core.Annotations = map[string]string{remedyv1.TakeOverAnnotation: "true"}
	e.core.Spec.Selector.MatchLabels = map[string]string{world.PoolLabel: "a"}
	e.Expect(w.Client.Create(t.Context(), e.core)).To(Succeed())
	return e
}

// serve installs what an uninstall has taken, and waits until the check of Cluster API is ours.
func (e *estate) serve(installed bool) {
	e.t.Helper()
	ctx := e.t.Context()
	if !installed {
		e.Expect(e.w.InstallRemedy(ctx)).To(Succeed())
	}
	running, stop := context.WithCancel(ctx)
	e.kubelet = stop
	e.w.StopWithDeployment(running)
	e.Expect(e.w.InstallRemediations(ctx)).To(Succeed())
	e.ask(remedyv1.TakeOverAnnotation, "true")
	role := &rbacv1.ClusterRole{ObjectMeta: named("puppetremediations")}
	e.Expect(e.w.Client.Get(ctx, client.ObjectKeyFromObject(role), role)).To(Succeed())
	before := client.MergeFrom(role.DeepCopy())
	role.Labels[remedyv1.AggregateToManagerLabel] = "true"
	e.Expect(e.w.Client.Patch(ctx, role, before)).To(Succeed())
	e.Eventually(e.says(remedyv1.TakenOverCondition), soon).Should(Equal("True " + remedyv1.TakenOverReason))
}

func (e *estate) ask(key, value string) {
	e.t.Helper()
	check := e.now()
	before := client.MergeFrom(check.DeepCopy())
	if check.Annotations == nil {
		check.Annotations = map[string]string{}
	}
	check.Annotations[key] = value
	e.Expect(e.w.Client.Patch(e.t.Context(), check, before)).To(Succeed())
}

// now reads the check of Cluster API.
func (e *estate) now() *clusterv1.MachineHealthCheck {
	e.t.Helper()
	check := &clusterv1.MachineHealthCheck{}
	e.Expect(e.w.Client.Get(e.t.Context(), client.ObjectKeyFromObject(e.core), check)).To(Succeed())
	return check
}

func (e *estate) says(kind string) func() string {
	return func() string {
		if c := meta.FindStatusCondition(e.now().Status.Conditions, kind); c != nil {
			return string(c.Status) + " " + c.Reason
		}
		return "none"
	}
}

// machine is the one of a pool that has a Node.
func (e *estate) machine(pool string) *clusterv1.Machine {
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

// hold keeps the owner of a pool's Machines from acting, or lets it go on, and waits until it has heard of that.
func (e *estate) hold(pool string, held bool) {
	e.t.Helper()
	sets := &clusterv1.MachineSetList{}
	e.Expect(e.w.Client.List(e.t.Context(), sets, client.InNamespace(e.c.Namespace), client.MatchingLabels{world.PoolLabel: pool})).To(Succeed())
	for i := range sets.Items {
		set := &sets.Items[i]
		before := client.MergeFrom(set.DeepCopy())
		if set.Annotations == nil {
			set.Annotations = map[string]string{}
		}
		if set.Annotations[clusterv1.PausedAnnotation] = "test"; !held {
			delete(set.Annotations, clusterv1.PausedAnnotation)
		}
		e.Expect(e.w.Client.Patch(e.t.Context(), set, before)).To(Succeed())
		e.Eventually(func() bool {
			e.Expect(client.IgnoreNotFound(e.w.Client.Get(e.t.Context(), client.ObjectKeyFromObject(set), set))).To(Succeed())
			return conditions.IsTrue(set, clusterv1.PausedCondition)
		}, soon).Should(Equal(held))
	}
}

// work lets our manager do something of each kind, and stay in the midst of it: a mark that nobody acts upon, and a request.
func (e *estate) work() (marked, asked *clusterv1.Machine) {
	e.t.Helper()
	ctx := e.t.Context()
	marked, asked = e.machine("a"), e.machine("b")
	e.hold("a", true)
	template := world.NewRemediation(world.RemediationTemplate, e.c.Namespace, "reboot")
	template.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{}}}
	e.Expect(client.IgnoreAlreadyExists(e.w.Client.Create(ctx, template))).To(Succeed())
	e.ours = &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: e.c.Namespace, Name: "ours"}}
	e.ours.Spec.ClusterName, e.ours.Spec.Selector = e.c.Name, inPool("b")
	e.ours.Spec.UnhealthyConditions = []remedyv1.UnhealthyNodeCondition{{Type: "Ready", Status: "Unknown", Timeout: *lasting(unhealthyTimeout)}}
	e.ours.Spec.RemediationTemplate = &remedyv1.MachineTemplateReference{}
	e.ours.Spec.RemediationTemplate.APIVersion, e.ours.Spec.RemediationTemplate.Kind, e.ours.Spec.RemediationTemplate.Name = template.GetAPIVersion(), template.GetKind(), template.GetName()
	// After an uninstall that has kept it, it is there.
	e.Expect(client.IgnoreAlreadyExists(e.w.Client.Create(ctx, e.ours))).To(Succeed())
	for _, m := range []*clusterv1.Machine{marked, asked} {
		e.Expect(e.c.SetNodeCondition(ctx, m.Status.NodeRef.Name, corev1.NodeReady, corev1.ConditionUnknown, "Test")).To(Succeed())
	}
	e.Eventually(func(g Gomega) {
		m := &clusterv1.Machine{}
		g.Expect(e.w.Client.Get(ctx, client.ObjectKeyFromObject(marked), m)).To(Succeed())
		g.Expect(isMarked(m)).To(BeTrue())
		g.Expect(m.Annotations).To(HaveKeyWithValue(remedyv1.MarkedByAnnotation, "CoreMachineHealthCheck/core"), "it was not the in-tree controller")
		request := world.NewRemediation(world.Remediation, asked.Namespace, asked.Name)
		g.Expect(e.w.Client.Get(ctx, client.ObjectKeyFromObject(request), request)).To(Succeed())
	}, soon).Should(Succeed())
	e.remember(asked.Status.NodeRef.Name)
	return marked, asked
}

// remember puts into the workload cluster what stands there of a check whose requests live there, or whose Machines are a control plane's.
func (e *estate) remember(node string) {
	e.t.Helper()
	far, err := e.c.Client(e.t.Context())
	e.Expect(err).ToNot(HaveOccurred())
	system := &corev1.Namespace{ObjectMeta: named("kube-system")}
	e.Expect(client.IgnoreAlreadyExists(far.Create(e.t.Context(), system))).To(Succeed())
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system.Name, Name: "remedy-control-plane"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("MachineHealthCheck/leaving/ours")}}
	e.Expect(client.IgnoreAlreadyExists(far.Create(e.t.Context(), lease))).To(Succeed())
	n := &corev1.Node{ObjectMeta: named(node)}
	e.Expect(far.Get(e.t.Context(), client.ObjectKeyFromObject(n), n)).To(Succeed())
	before := client.MergeFrom(n.DeepCopy())
	n.Annotations = map[string]string{remedyv1.AttemptsAnnotation: "2"}
	e.Expect(far.Patch(e.t.Context(), n, before)).To(Succeed())
}

// searched is what is found of us in the management cluster, again and again.
func (e *estate) searched(but func(*unstructured.Unstructured) bool) AsyncAssertion {
	e.t.Helper()
	return e.Eventually(func(g Gomega) []string { return traces(e.t.Context(), g, e.w.Admin, but) }, soon, lookEvery)
}

// isFree waits until nothing of ours is left in both clusters.
func (e *estate) isFree() {
	e.t.Helper()
	e.searched(installed).Should(BeEmpty())
	e.Expect(traces(e.t.Context(), e, e.c.Plane.Admin, none)).To(BeEmpty())
	far, err := e.c.Client(e.t.Context())
	e.Expect(err).ToNot(HaveOccurred())
	lease := &coordinationv1.Lease{}
	e.Expect(far.Get(e.t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "remedy-control-plane"}, lease)).To(MatchError(ContainSubstring("not found")))
}

// isTheirs waits until Cluster API's own controller takes care of its check: the sick Machine is replaced, and it was not us.
func (e *estate) isTheirs(sick *clusterv1.Machine) {
	e.t.Helper()
	e.Eventually(e.says(clusterv1.PausedCondition), soon).Should(HavePrefix("False"))
	e.hold("a", false)
	e.Eventually(func() error { return e.w.Client.Get(e.t.Context(), client.ObjectKeyFromObject(sick), sick) }, soon).Should(MatchError(ContainSubstring("not found")))
	e.Expect(e.machine("a").Annotations).ToNot(HaveKey(remedyv1.MarkedByAnnotation))
}

// definitions are the names of our CRDs.
func (e *estate) definitions() []string {
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

// deleteDefinitions is what people do whom clusterctl refuses it, as there are objects of these kinds. It does not wait.
func (e *estate) deleteDefinitions() {
	e.t.Helper()
	for _, name := range []string{"machinehealthchecks", "nodehealthchecks"} {
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: named(name + "." + remedyv1.GroupVersion.Group)}
		e.Expect(e.w.Client.Delete(e.t.Context(), definition)).To(Succeed())
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	e.Eventually(func(g Gomega) {
		g.Expect(e.w.Client.Get(e.t.Context(), client.ObjectKey{Name: "machinehealthchecks." + remedyv1.GroupVersion.Group}, definition)).To(Succeed())
		g.Expect(definition.Status.Conditions).To(ContainElement(And(HaveField("Type", apiextensionsv1.Terminating), HaveField("Status", apiextensionsv1.ConditionTrue))))
	}, soon).Should(Succeed())
}

// Both orders of an uninstall, and a move without us: in the end nothing is left of us, and Cluster API's own controller has its check back.
func TestLeavingWithoutATrace(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	t.Run("released, then uninstalled", func(t *testing.T) { e.in(t).releasedFirst() })
	t.Run("uninstalled without the CRDs, then released", func(t *testing.T) { e.in(t).uninstalledFirst(false) })
	t.Run("uninstalled with the CRDs, then released", func(t *testing.T) { e.in(t).uninstalledFirst(true) })
	t.Run("uninstalled, moved to where we are not, then released", func(t *testing.T) { e.in(t).moved() })
}

func (e *estate) in(t *testing.T) *estate {
	t.Helper()
	there := *e
	there.WithT, there.t = NewWithT(t), t
	return &there
}

func (e *estate) releasedFirst() {
	e.serve(true)
	marked, asked := e.work()
	before := e.now()
	said, err := release(e.t, e.w, "--all", "--dry-run")
	e.Expect(err).ToNot(HaveOccurred())
	e.Expect(said).To(And(ContainSubstring("MachineHealthCheck leaving/core: without our pause"), ContainSubstring("changes to make"), ContainSubstring("in Cluster leaving/prod")))
	e.Expect(e.now().Annotations).To(Equal(before.Annotations))
	e.Expect(e.w.Process(world.Remedy).Running()).To(BeTrue())
	e.Expect(traces(e.t.Context(), e, e.w.Admin, installed)).ToNot(BeEmpty(), "or the search sees nothing")
	e.Expect(traces(e.t.Context(), e, e.c.Plane.Admin, none)).ToNot(BeEmpty(), "or the search sees nothing")

	_, err = release(e.t, e.w, "--all")
	e.Expect(err).ToNot(HaveOccurred())
	e.Eventually(func() bool { return e.w.Process(world.Remedy).Running() }, soon).Should(BeFalse(), "nobody leads any more when it goes on, and then the process ends")
	e.isFree()
	request := world.NewRemediation(world.Remediation, asked.Namespace, asked.Name)
	e.Expect(e.w.Client.Get(e.t.Context(), client.ObjectKeyFromObject(request), request)).To(MatchError(ContainSubstring("not found")), "nobody would withdraw it any more")
	said, err = release(e.t, e.w, "--all")
	e.Expect(err).ToNot(HaveOccurred())
	e.Expect(said).To(Equal("there was nothing of ours to take off\n"))
	e.isTheirs(marked)

	e.Expect(e.w.UninstallRemedy(e.t.Context())).To(Succeed())
	e.searched(none).Should(BeEmpty(), "clusterctl has taken the rest")
	e.Expect(e.definitions()).To(ConsistOf("MachineHealthCheck", "NodeHealthCheck"), "which clusterctl leaves unless it is told otherwise")
	e.kubelet()
}

func (e *estate) uninstalledFirst(withDefinitions bool) {
	e.serve(false)
	marked, _ := e.work()
	e.Eventually(func() []string { return e.now().Finalizers }, soon).ShouldNot(BeEmpty())
	e.Expect(e.w.UninstallRemedy(e.t.Context())).To(Succeed())
	e.Eventually(func() bool { return e.w.Process(world.Remedy).Running() }, soon).Should(BeFalse())
	e.Expect(e.now().Annotations).To(HaveKeyWithValue(clusterv1.PausedAnnotation, remedyv1.Pause), "nobody takes care of it now")
	e.Expect(e.says(clusterv1.PausedCondition)()).To(HavePrefix("True"))

	if withDefinitions {
		e.deleteDefinitions()
		e.Expect(e.definitions()).To(ContainElement("MachineHealthCheck"), "a finalizer of ours keeps it, and nobody is there to take it off")
	}

	_, err := release(e.t, e.w, "--all")
	e.Expect(err).ToNot(HaveOccurred())
	if withDefinitions {
		e.Eventually(e.definitions, soon).Should(BeEmpty())
	}
	e.isFree()
	e.searched(none).Should(BeEmpty())
	e.isTheirs(marked)
	e.kubelet()
}

// moved: clusterctl refuses to move to where a provider is missing. Who has uninstalled ours first, as it is not needed there, moves our pause along.
func (e *estate) moved() {
	there := startWorld(e.t, world.Options{WithoutInfrastructure: true, WithoutRemedy: true, Variables: map[string]string{world.RateLimiting: "false"}})
	e.Expect(there.InstallRemediations(e.t.Context())).To(Succeed())
	e.serve(false)
	marked, _ := e.work()
	e.Expect(e.w.MoveTo(e.t.Context(), there, e.c.Namespace)).To(MatchError(ContainSubstring("provider infrastructure-remedy not found in the target cluster")))
	e.Expect(e.w.UninstallRemedy(e.t.Context())).To(Succeed())
	e.Eventually(func() bool { return e.w.Process(world.Remedy).Running() }, soon).Should(BeFalse())
	// A check of our own kind cannot arrive where its kind is not known.
	e.Expect(e.w.Client.Delete(e.t.Context(), e.ours)).To(Succeed())
	e.Expect(e.w.Client.Patch(e.t.Context(), e.ours, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":[]}}`)))).To(Succeed())
	e.Expect(e.w.MoveTo(e.t.Context(), there, e.c.Namespace)).To(Succeed())

	e.w = there
	var err error
	e.c, err = e.c.In(there)
	e.Expect(err).ToNot(HaveOccurred())
	replaceIncomplete(e.t.Context(), there, &e.c.Cluster)
	e.Eventually(e.says(clusterv1.PausedCondition), soon).Should(HavePrefix("True"))
	e.Expect(e.now().Annotations).To(HaveKeyWithValue(clusterv1.PausedAnnotation, remedyv1.Pause), "our pause has come along, and nobody takes care of it")
	e.Expect(traces(e.t.Context(), e, e.w.Admin, none)).ToNot(BeEmpty())

	_, err = release(e.t, e.w, "--all")
	e.Expect(err).ToNot(HaveOccurred())
	e.isFree()
	e.isTheirs(marked)
}
