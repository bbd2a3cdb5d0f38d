// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"maps"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// remediators is a namespace of the workload cluster.
const remediators = "remediators"

// hardware is the label by which a NodeHealthCheck selects a Node.
const hardware = "hardware"

// Nodes without a Machine, as those of a MachinePool: a NodeHealthCheck with a clusterRef requests their remediation in the management
// cluster, and another one in the workload cluster. A MachineHealthCheck ignores them.
func TestOrphanNodes_NodeHealthChecks_RequestAndWithdraw(t *testing.T) {
	t.Parallel()
	keepsItsMemory(t)
	g := NewWithT(t)
	w := theWorld(t)
	namespace := uniqueName("orphans")
	c, err := w.Workload(t.Context(), world.Shape{Namespace: namespace, Name: "orphans"})
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(w.InstallRemediations(t.Context())).To(Succeed())
	g.Expect(c.InstallRemediations(t.Context())).To(Succeed())
	there, err := client.NewWithWatch(c.Plane.Admin, client.Options{Scheme: w.Client.Scheme()})
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(there.Create(t.Context(), &corev1.Namespace{ObjectMeta: named(remediators)})).To(Succeed())
	g.Eventually(func() []string { return nodesOf(t, &c.Cluster) }, soon).Should(HaveLen(1))
	machines := aCheck(t, &c.Cluster, "machines", ofControlPlane)
	looksAfter(t, machines, 1)
	seen := follow(t, &c.Cluster, controlPlanePool)

	for _, place := range []struct {
		location  remedyv1.TemplateLocation
		namespace string
		client    client.WithWatch
	}{
		{remedyv1.ManagementLocation, namespace, w.Client},
		{remedyv1.WorkloadLocation, remediators, there},
	} {
		t.Run(string(place.location), func(t *testing.T) {
			g := NewWithT(t)
			node := uniqueName("orphan")
			// Cluster API annotates the Nodes of a MachinePool, and those have no Machine where its provider creates none.
			joined := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{hardware: node}, Annotations: map[string]string{
				clusterv1.ClusterNameAnnotation: c.Name, clusterv1.ClusterNamespaceAnnotation: c.Namespace,
				clusterv1.OwnerKindAnnotation: "MachinePool", clusterv1.OwnerNameAnnotation: "pool",
			}}}
			g.Expect(c.Join(t.Context(), joined)).To(Succeed())
			template := newTemplate(&world.Cluster{Shape: world.Shape{Namespace: place.namespace}})
			g.Expect(place.client.Create(t.Context(), template)).To(Succeed())
			made := followRequests(t, place.client, place.namespace)
			check := nodeCheck(&c.Cluster, node, template, place.location)
			g.Expect(w.Client.Create(t.Context(), check)).To(Succeed())
			t.Cleanup(func() { expectToGo(t, w, check) })
			read := func() remedyv1.NodeHealthCheckStatus {
				g.Expect(w.Client.Get(t.Context(), client.ObjectKeyFromObject(check), check)).To(Succeed())
				return check.Status
			}
			healthy := And(HaveField("ObservedNodes", HaveValue(BeEquivalentTo(1))), HaveField("HealthyNodes", HaveValue(BeEquivalentTo(1))))
			g.Eventually(read, soon).Should(healthy)

			g.Expect(c.SetNodeCondition(t.Context(), node, corev1.NodeReady, corev1.ConditionUnknown, "NodeStatusUnknown")).To(Succeed())
			request := world.NewRemediation(world.Remediation, place.namespace, node)
			get := func() error { return place.client.Get(t.Context(), client.ObjectKeyFromObject(request), request) }
			g.Eventually(get, soon).Should(Succeed())
			g.Expect(request.GetAnnotations()).To(HaveKeyWithValue(remedyv1.NodeNameAnnotation, node))
			g.Eventually(read, soon).Should(HaveField("InFlightRemediations", HaveKey(node)))
			g.Expect(c.SetNodeCondition(t.Context(), node, corev1.NodeReady, corev1.ConditionTrue, "KubeletReady")).To(Succeed())
			g.Eventually(get, soon).Should(MatchError(ContainSubstring("not found")))
			g.Eventually(read, soon).Should(And(healthy, HaveField("UnhealthyTargets", BeEmpty()),
				HaveField("RecentRemediations", ConsistOf(HaveField("Outcome", remedyv1.RecoveredOutcome)))))
			g.Expect(made()).To(Equal(map[string]int{node: 1}))
		})
	}
	g.Expect(counts(now(t, machines))).To(Equal("1 expected, 1 healthy, 0 unhealthy, 0 suspect, 0 undetermined, 0 remediating, 0 held"))
	g.Expect(seen.those(t, func(m *clusterv1.Machine) bool {
		return conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition)
	})).To(BeEmpty())
}

// nodeCheck is a check for Remedy of the Nodes with a label.
func nodeCheck(c *world.Cluster, label string, template *unstructured.Unstructured, location remedyv1.TemplateLocation) *remedyv1.NodeHealthCheck {
	ref := &remedyv1.NodeTemplateReference{Namespace: template.GetNamespace()}
	ref.APIVersion, ref.Kind, ref.Name = template.GetAPIVersion(), template.GetKind(), template.GetName()
	check := &remedyv1.NodeHealthCheck{ObjectMeta: named(label)}
	check.Spec.ClusterRef = &remedyv1.ClusterReference{Namespace: c.Namespace, Name: c.Name}
	check.Spec.Selector = &remedyv1.Selector{MatchLabels: map[string]remedyv1.LabelValue{hardware: remedyv1.LabelValue(label)}}
	check.Spec.UnhealthyConditions = []remedyv1.LastingNodeCondition{{Type: "Ready", Status: "Unknown", Duration: *lasting(unhealthyTimeout)}}
	check.Spec.MaxUnhealthy = ptr.To(intstr.FromInt32(1))
	check.Spec.RemediationTemplate, check.Spec.TemplateLocation = ref, location
	return check
}

// followRequests counts the requests that are created in a namespace, by their names, until the test ends.
func followRequests(t *testing.T, c client.WithWatch, namespace string) func() map[string]int {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(world.Remediation.GroupVersion().WithKind(world.Remediation.Kind + "List"))
	watching, err := c.Watch(t.Context(), list, client.InNamespace(namespace))
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	var lock sync.Mutex
	created := map[string]int{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watching.ResultChan() {
			if request, is := event.Object.(*unstructured.Unstructured); is && event.Type == watch.Added {
				lock.Lock()
				created[request.GetName()]++
				lock.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		watching.Stop()
		<-done
	})
	return func() map[string]int {
		lock.Lock()
		defer lock.Unlock()
		return maps.Clone(created)
	}
}
