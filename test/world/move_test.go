// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/manifests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// annotation stands for what Remedy remembers on objects.
const annotation = "remedy.cluster.x-k8s.io/test-history"

// checks select nothing: only their move is tested. The owner reference of the first is what its reconciler would write.
// %[1]s is the namespace, and the name of the check that is cluster-scoped.
const checks = `
apiVersion: remedy.cluster.x-k8s.io/v1alpha1
kind: MachineHealthCheck
metadata:
  name: owned
  namespace: %[1]s
  annotations: {remedy.cluster.x-k8s.io/test-history: "attempts: 2"}
spec:
  clusterName: in-memory
  selector: {matchLabels: {no-machine: has-this-label}}
  unhealthyConditions: [{type: Ready, status: Unknown, timeout: 300s}]
---
apiVersion: remedy.cluster.x-k8s.io/v1alpha1
kind: MachineHealthCheck
metadata: {name: without-an-owner, namespace: %[1]s}
spec:
  clusterName: in-memory
  selector: {matchLabels: {no-machine: has-this-label}}
  unhealthyConditions: [{type: Ready, status: Unknown, timeout: 300s}]
---
apiVersion: remedy.cluster.x-k8s.io/v1alpha1
kind: NodeHealthCheck
metadata:
  name: %[1]s
  labels: {clusterctl.cluster.x-k8s.io/move: ""}
  annotations: {remedy.cluster.x-k8s.io/test-history: "attempts: 3"}
spec:
  clusterRef: {namespace: %[1]s, name: genuine}
  selector: {matchLabels: {no-machine: has-this-label}}
  mode: Observe
  remediationTemplate: {apiVersion: remediation.example.com/v1, kind: PuppetRemediationTemplate, namespace: %[1]s, name: reboot}
`

// A namespace with an in-memory cluster and one with a real API server goes to another management cluster, and back. Meanwhile the
// in-memory infrastructure stops here and starts there, so that no other test can use it.
func TestMove_Clusters_KeepTheirState(t *testing.T) {
	if runsInOwnProcess(t) {
		return
	}
	g := NewWithT(t)
	here := theWorld(t)
	there, err := world.Start(t.Context(), world.Options{
		WithoutInfrastructure: true, Variables: map[string]string{world.RateLimiting: "false"},
		Flags: map[string][]string{world.Remedy: aTenaciousLead},
	})
	g.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(func() {
		there.Stop()
		if !here.Process(world.Infrastructure).Running() {
			NewWithT(t).Expect(here.Restart(context.Background(), world.Infrastructure)).To(Succeed())
		}
	})
	moving := uniqueName("moving")
	genuine, err := here.Workload(t.Context(), world.Shape{Namespace: moving, Name: "genuine", Workers: 1})
	g.Expect(err).ToNot(HaveOccurred())
	replaceIncomplete(t.Context(), here, &genuine.Cluster)
	memory := aCluster(t, world.Shape{Namespace: moving, Name: "in-memory", Workers: 1})
	g.Eventually(func() []string { return nodesOf(t, &genuine.Cluster) }, soon).Should(HaveLen(2))
	for _, w := range []*world.World{here, there} {
		g.Expect(w.InstallRemediations(t.Context())).To(Succeed())
	}
	node := remember(t, here, memory, genuine)
	before := shot(t, here, moving)

	begin := time.Now()
	g.Expect(here.MoveTo(t.Context(), there, moving)).To(Succeed())
	t.Logf("two clusters have moved after %s", time.Since(begin).Round(100*time.Millisecond))
	t.Run("everything is there, and nothing here", func(t *testing.T) { arrivedWhole(t, here, there, moving, before) })
	t.Run("Nodes of a real API server do not notice", func(t *testing.T) { nodesDidNotNotice(t, genuine, there, node) })
	t.Run("Cluster API goes on with them", func(t *testing.T) { goesOn(t, there, memory.In(there), genuine) })
	t.Run("what is remembered on objects came along, and no status did", func(t *testing.T) { remembered(t, here, there, memory) })

	before = shot(t, there, moving)
	g.Expect(there.MoveTo(t.Context(), here, moving)).To(Succeed())
	t.Run("and back", func(t *testing.T) { arrivedWhole(t, there, here, moving, before) })
	t.Run("a request continues at its step", func(t *testing.T) { requestMoves(t, here, there) })
	t.Run("a replacement joins before the move", func(t *testing.T) { replacementMoves(t, here, there) })
}

// remember makes what a move must not lose, and the status that it does lose. It returns the Node with the annotation.
func remember(t *testing.T, w *world.World, memory *world.Cluster, genuine *world.Workload) *corev1.Node {
	t.Helper()
	g := NewWithT(t)
	cluster := &clusterv1.Cluster{}
	g.Expect(w.Client.Get(t.Context(), memory.Key(), cluster)).To(Succeed())
	objects, err := manifests.Parse([]byte(fmt.Sprintf(checks, memory.Namespace)))
	g.Expect(err).ToNot(HaveOccurred())
	for _, object := range objects {
		if object.GetName() == "owned" {
			object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID}})
		}
		g.Expect(w.Client.Create(t.Context(), object)).To(Succeed())
	}
	machine, _ := workerOf(t, memory)
	annotate := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+annotation+`":"attempts: 1"}}}`))
	g.Expect(w.Client.Patch(t.Context(), &machine, annotate)).To(Succeed())
	marked := client.MergeFrom(machine.DeepCopy())
	meta.SetStatusCondition(&machine.Status.Conditions, metav1.Condition{
		Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse, Reason: "Test",
	})
	g.Expect(w.Client.Status().Patch(t.Context(), &machine, marked)).To(Succeed())

	request := world.NewRemediation(world.Remediation, machine.Namespace, machine.Name)
	request.SetAnnotations(map[string]string{annotation: "step: 1"})
	request.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: machine.Name, UID: machine.UID}})
	g.Expect(w.Client.Create(t.Context(), request)).To(Succeed())
	said := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`))
	g.Expect(w.Client.Status().Patch(t.Context(), request, said)).To(Succeed())

	_, name := workerOf(t, &genuine.Cluster)
	workload, err := genuine.Client(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	node := &corev1.Node{ObjectMeta: named(name)}
	g.Expect(workload.Patch(t.Context(), node, annotate)).To(Succeed())
	return node
}

// shot is every object of a namespace that clusterctl carries, by kind and name.
func shot(t *testing.T, w *world.World, namespace string) map[string]client.Object {
	t.Helper()
	taken := map[string]client.Object{}
	for _, kind := range []string{
		"cluster.x-k8s.io/v1beta2 Cluster", "cluster.x-k8s.io/v1beta2 MachineDeployment", "cluster.x-k8s.io/v1beta2 MachineSet", "cluster.x-k8s.io/v1beta2 Machine",
		"controlplane.cluster.x-k8s.io/v1beta2 KubeadmControlPlane", "bootstrap.cluster.x-k8s.io/v1beta2 KubeadmConfig", "bootstrap.cluster.x-k8s.io/v1beta2 KubeadmConfigTemplate",
		"infrastructure.cluster.x-k8s.io/v1beta2 DevCluster", "infrastructure.cluster.x-k8s.io/v1beta2 DevMachine", "infrastructure.cluster.x-k8s.io/v1beta2 DevMachineTemplate",
		"infrastructure.cluster.x-k8s.io/v1 PuppetCluster", "infrastructure.cluster.x-k8s.io/v1 PuppetMachine", "infrastructure.cluster.x-k8s.io/v1 PuppetMachineTemplate",
		"controlplane.cluster.x-k8s.io/v1 PuppetControlPlane", "remediation.example.com/v1 PuppetRemediation",
		"remedy.cluster.x-k8s.io/v1alpha1 MachineHealthCheck",
	} {
		version, name, _ := strings.Cut(kind, " ")
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(version)
		list.SetKind(name + "List")
		NewWithT(t).Expect(w.Client.List(t.Context(), list, client.InNamespace(namespace))).To(Succeed())
		for i := range list.Items {
			taken[name+" "+list.Items[i].GetName()] = &list.Items[i]
		}
	}
	return taken
}

// arrivedWhole: the same objects under the same names, and each has a new UID, and owners with new UIDs.
func arrivedWhole(t *testing.T, from, to *world.World, namespace string, before map[string]client.Object) {
	g := NewWithT(t)
	after := shot(t, to, namespace)
	stays := "MachineHealthCheck without-an-owner"
	expected := slices.DeleteFunc(slices.Sorted(maps.Keys(before)), func(name string) bool { return name == stays })
	g.Expect(slices.Sorted(maps.Keys(after))).To(ContainElements(expected), "a lost one")
	g.Expect(slices.Collect(maps.Keys(shot(t, from, namespace)))).To(Or(BeEmpty(), ConsistOf(stays)), "a check without a Cluster is not moved")
	for _, name := range expected {
		was, is := before[name], after[name]
		g.Expect(is.GetUID()).ToNot(Equal(was.GetUID()), name)
		g.Expect(is.GetDeletionTimestamp()).To(BeNil(), name)
		for _, owner := range was.GetOwnerReferences() {
			now := after[owner.Kind+" "+owner.Name]
			g.Expect(is.GetOwnerReferences()).To(ContainElement(And(HaveField("Name", owner.Name), HaveField("UID", now.GetUID()))), name+" and its owner "+owner.Name)
		}
	}
	for _, name := range []string{"in-memory", "genuine"} {
		cluster := &clusterv1.Cluster{}
		g.Expect(to.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, cluster)).To(Succeed())
		g.Expect(ptr.Deref(cluster.Spec.Paused, false)).To(BeFalse(), "it was paused for the move, and is not any more")
	}
}
