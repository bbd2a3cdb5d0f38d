// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/settings"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/uninstall"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// nodeFence is the kind of requests of the fencing manager.
var nodeFence = remediator.NewKind("remedy.cluster.x-k8s.io", "v1alpha1", "NodeFence")

// nodeRemedy is the kind of what checks and templates of fences are generated from.
var nodeRemedy = remediator.Kind{GroupVersionKind: nodeFence.GroupVersion().WithKind("NodeRemedy"), Plural: "noderemedies", Cluster: true}

const (
	fenceFinalizer = "remedy.cluster.x-k8s.io/fence"
	fencingTaint   = "remedy.cluster.x-k8s.io/fencing"
	cancel         = "remedy.cluster.x-k8s.io/cancel"
)

// fence creates a NodeFence that has switched a machine off, and its Node in a cluster.
// added is whether it has added the taint out-of-service.
func (p *fixture) fence(api client.Client, added bool) (*unstructured.Unstructured, *corev1.Node) {
	p.t.Helper()
	fence := nodeFence.NewRequest(p.namespace, "worker-1")
	fence.SetFinalizers([]string{fenceFinalizer})
	p.create(fence)
	p.Expect(unstructured.SetNestedField(fence.Object, map[string]any{
		"phase": "Running", "step": "PowerManagement", "node": map[string]any{"name": p.namespace, "uid": "a-node"},
		"methods": []any{
			map[string]any{"name": "ipmi", "step": "PowerManagement", "offRequested": "2026-03-14T12:00:00Z"},
			map[string]any{"name": "fc", "step": "Isolation", "offRequested": "2026-03-14T12:00:00Z", "onSucceeded": "2026-03-14T12:01:00Z"},
		},
		"release": map[string]any{"scope": "Node", "startedAt": "2026-03-14T12:00:00Z", "outOfServiceTaint": added},
	}, "status")).To(Succeed())
	p.Expect(p.api.Status().Update(p.ctx, fence)).To(Succeed())

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: p.namespace, Annotations: map[string]string{"remedy.cluster.x-k8s.io/remediation-podname": p.namespace + "/worker-1"},
	}}
	node.Spec.Taints = []corev1.Taint{
		{Key: fencingTaint, Value: string(fence.GetUID()), Effect: corev1.TaintEffectNoSchedule},
		{Key: fencingTaint, Value: string(fence.GetUID()), Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute},
		{Key: "example.com/other", Effect: corev1.TaintEffectNoSchedule},
	}
	p.Expect(api.Create(p.ctx, node)).To(Succeed())
	p.t.Cleanup(func() {
		p.Expect(api.Delete(context.Background(), node)).To(Succeed())
		p.Expect(client.IgnoreNotFound(p.api.Patch(context.Background(), fence, client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())
		p.Expect(client.IgnoreNotFound(p.api.Delete(context.Background(), fence))).To(Succeed())
	})
	return fence, node
}

// fencingManager creates the Deployment of a fencing manager.
func (p *fixture) fencingManager(replicas int32) *appsv1.Deployment {
	p.t.Helper()
	d := &appsv1.Deployment{ObjectMeta: p.meta("fencing")}
	d.Labels = map[string]string{"control-plane": "remedy-fencing-controller-manager"}
	d.Spec.Replicas, d.Spec.Selector = ptr.To(replicas), &metav1.LabelSelector{MatchLabels: d.Labels}
	d.Spec.Template.Labels = d.Labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Image: "example.com/manager"}}
	p.create(d)
	lease := &coordinationv1.Lease{ObjectMeta: p.meta(settings.FencingLeaseName)}
	p.create(lease)
	p.t.Cleanup(func() {
		for _, o := range []client.Object{d, lease} {
			p.Expect(client.IgnoreNotFound(p.api.Delete(context.Background(), o))).To(Succeed())
		}
	})
	return d
}

func (p *fixture) untainted(api client.Client, node *corev1.Node) {
	p.t.Helper()
	p.Expect(api.Get(p.ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
	p.Expect(node.Spec.Taints).To(And(
		ContainElement(HaveField("Key", "example.com/other")), Not(ContainElement(HaveField("Key", fencingTaint))),
		Not(ContainElement(HaveField("Key", corev1.TaintNodeOutOfService)))))
	p.Expect(node.Annotations).To(BeEmpty())
}

func (p *fixture) gone(o client.Object) {
	p.t.Helper()
	p.Expect(client.IgnoreNotFound(p.api.Get(p.ctx, client.ObjectKeyFromObject(o), o))).To(Succeed())
	p.Expect(p.api.Get(p.ctx, client.ObjectKeyFromObject(o), o)).ToNot(Succeed())
}

// Without a fencing manager, the user has to switch the machine on.
func TestFences_NoFencingManager_MachineIsNamed(t *testing.T) {
	p := newFixture(t)
	fence, node := p.fence(p.api, true)
	dry, said := p.uninstaller(true)
	p.Expect(dry.All(p.ctx)).To(MatchError(ContainSubstring("incomplete")))
	p.Expect(said.String()).To(And(
		ContainSubstring("NodeFence %s/worker-1 (Node %s, Running/PowerManagement) has not ended\n", p.namespace, p.namespace),
		ContainSubstring("NodeFence %s/worker-1: deleted (dry run)\n", p.namespace),
		ContainSubstring("Node %s: removed the taint %s (dry run)\n", p.namespace, fencingTaint)))
	p.Expect(p.get(fence).GetDeletionTimestamp()).To(BeNil())
	p.Expect(p.get(fence).GetAnnotations()).ToNot(HaveKey(cancel))
	p.Expect(p.get(node).(*corev1.Node).Spec.Taints).To(ContainElement(HaveField("Key", fencingTaint)))

	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.All(p.ctx)).To(MatchError(ContainSubstring("incomplete")))
	p.Expect(said.String()).To(ContainSubstring("left: the machine of NodeFence %s/worker-1 (Node %s, Running/PowerManagement) may be off: "+
		"method ipmi was used to switch it off, and not to switch it on again. Switch it on\n", p.namespace, p.namespace))
	p.Expect(said.String()).ToNot(ContainSubstring("method fc"))
	p.gone(fence)
	p.untainted(p.api, node)
	again, said := p.uninstaller(false)
	p.Expect(again.All(p.ctx)).To(Succeed(), said.String())
}

func TestFences_FencingManagerRuns_EndsThem(t *testing.T) {
	p := newFixture(t)
	fence, node := p.fence(p.api, true)
	manager := p.fencingManager(2)
	uninstaller, said := p.uninstaller(false)
	uninstaller.Timeouts = longTimeouts
	ended := make(chan error, 1)
	go func() { ended <- p.end(fence) }()
	p.Expect(uninstaller.All(p.ctx)).To(Succeed(), said.String())
	p.Expect(<-ended).To(Succeed())
	p.Expect(said.String()).To(And(
		ContainSubstring("NodeFence %s/worker-1: canceled\n", p.namespace), ContainSubstring("Deployment %s/fencing: scaled to 0\n", p.namespace),
		ContainSubstring("NodeFence %s/worker-1: deleted\n", p.namespace)))
	p.Expect(bytes.Index(said.Bytes(), []byte("canceled"))).To(BeNumerically("<", bytes.Index(said.Bytes(), []byte("scaled to 0"))))
	p.gone(fence)
	p.gone(&coordinationv1.Lease{ObjectMeta: p.meta(settings.FencingLeaseName)})
	p.untainted(p.api, node)
	p.Expect(p.get(manager).(*appsv1.Deployment).Spec.Replicas).To(HaveValue(BeZero()))
}

// end plays the fencing manager: a canceled fence switches the machine on, and ends.
func (p *fixture) end(fence *unstructured.Unstructured) error {
	return wait.PollUntilContextTimeout(p.ctx, 20*time.Millisecond, 10*time.Minute, true, func(ctx context.Context) (bool, error) {
		now := fence.DeepCopy()
		if err := p.api.Get(ctx, client.ObjectKeyFromObject(fence), now); err != nil || now.GetAnnotations()[cancel] == "" {
			return false, err
		}
		if err := unstructured.SetNestedField(now.Object, "Final", "status", "phase"); err != nil {
			return false, err
		}
		unstructured.RemoveNestedField(now.Object, "status", "methods")
		if err := p.api.Status().Update(ctx, now); err != nil {
			return false, err
		}
		now.SetFinalizers(nil)
		return true, p.api.Update(ctx, now)
	})
}

func TestFences_FenceDoesNotEnd_NothingIsRemoved(t *testing.T) {
	p := newFixture(t)
	fence, node := p.fence(p.api, true)
	manager, core := p.fencingManager(1), p.inTreeCheck("core")
	uninstaller, said := p.uninstaller(false)
	uninstaller.Timeouts = uninstall.Timeouts{Stop: time.Second, Release: time.Second, Poll: 50 * time.Millisecond}
	p.Expect(uninstaller.All(p.ctx)).To(MatchError(And(HavePrefix("nothing was removed"), ContainSubstring("run the command again"),
		ContainSubstring("scale Deployment remedy-fencing-controller-manager to 0"))), said.String())
	p.Expect(p.get(fence).GetAnnotations()).To(HaveKey(cancel))
	p.Expect(p.get(fence).GetFinalizers()).To(ConsistOf(fenceFinalizer))
	p.Expect(p.get(node).(*corev1.Node).Spec.Taints).To(ContainElement(HaveField("Key", fencingTaint)))
	p.Expect(p.get(manager).(*appsv1.Deployment).Spec.Replicas).To(HaveValue(BeEquivalentTo(1)))
	p.Expect(p.get(core).GetFinalizers()).To(HaveLen(2))
}

// The taint may be of a person, or of a storage operator.
func TestFences_ForeignOutOfService_IsLeft(t *testing.T) {
	p := newFixture(t)
	_, node := p.fence(p.api, false)
	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.All(p.ctx)).To(MatchError(ContainSubstring("incomplete")))
	p.Expect(said.String()).To(ContainSubstring("Node %s has the taint node.kubernetes.io/out-of-service, and no NodeFence has added it: "+
		"remove it if the Node runs\n", p.namespace))
	taints := p.get(node).(*corev1.Node).Spec.Taints
	p.Expect(taints).To(ContainElement(HaveField("Key", corev1.TaintNodeOutOfService)))
	p.Expect(taints).ToNot(ContainElement(HaveField("Key", fencingTaint)))
}

func TestFences_NodeOfWorkloadCluster_IsUntainted(t *testing.T) {
	p := newFixture(t)
	api, err := client.New(workloads.Admin, client.Options{})
	p.Expect(err).ToNot(HaveOccurred())
	p.cluster("prod", p.kubeconfig())
	_, node := p.fence(api, true)
	p.fencingManager(0)
	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.All(p.ctx)).To(MatchError(ContainSubstring("incomplete")))
	p.Expect(said.String()).To(ContainSubstring("Node %s in Cluster %s/prod: removed the taint", p.namespace, p.namespace))
	p.untainted(api, node)
}

// Users have written it, so it stays. Without a manager, its finalizer would stay for ever.
func TestFences_NodeRemedy_LosesItsFinalizer(t *testing.T) {
	p := newFixture(t)
	remedy := nodeRemedy.NewRequest("", p.namespace)
	remedy.SetFinalizers([]string{"remedy.cluster.x-k8s.io/node-remedy"})
	p.create(remedy)
	check := &remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{
		Name: p.namespace, Labels: map[string]string{"remedy.cluster.x-k8s.io/node-remedy": p.namespace, "mine": ""},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(remedy, remedy.GroupVersionKind())},
	}}
	check.Spec.RemediationTemplate = &remedyv1.NodeTemplateReference{Namespace: p.namespace, TemplateKind: remedyv1.TemplateKind{
		APIVersion: "remedy.cluster.x-k8s.io/v1alpha1", Kind: "NodeFenceTemplate", Name: "a",
	}}
	p.create(check)
	uninstaller, said := p.uninstaller(false)
	p.Expect(uninstaller.All(p.ctx)).To(Succeed(), said.String())
	p.Expect(said.String()).To(ContainSubstring("NodeRemedy %s: removed finalizer remedy.cluster.x-k8s.io/node-remedy\n", p.namespace))
	p.Expect(p.get(remedy).GetFinalizers()).To(BeEmpty())
	p.Expect(p.get(remedy).GetDeletionTimestamp()).To(BeNil())
	p.Expect(p.get(check).GetLabels()).To(Equal(map[string]string{"mine": ""}))
	// Its owner has the API group of this project, and other tests count what is left of it.
	p.Expect(p.api.Delete(p.ctx, check)).To(Succeed())
}
