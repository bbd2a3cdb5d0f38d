// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// wire lets the in-tree reconciler watch Nodes as usual, and the test change them.
type wire struct {
	clustercache.ClusterCache
	nodes informertest.FakeInformers
}

func (w *wire) Watch(_ context.Context, _ client.ObjectKey, watcher clustercache.Watcher) error {
	return watcher.Watch(&w.nodes)
}

// listener is a controller that never works off what it has to.
type listener struct {
	controller.Controller
	ctx   context.Context
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func (l *listener) Watch(watched source.Source) error {
	if err := watched.Start(l.ctx, l.queue); err != nil {
		return err
	}
	return watched.(source.SyncingSource).WaitForSync(l.ctx)
}

// wakesInTree returns the checks that the in-tree reconciler reconciles when the Node of the first Machine changes. There is one Machine in each of
// so many Clusters, and all their Nodes have the same name.
func wakesInTree(t *testing.T, clusters int) int {
	t.Helper()
	g := NewWithT(t)
	now := time.Now().UTC().Truncate(time.Second)
	f := &facts{now: now, controlPlane: condition{"ControlPlaneInitialized", "True", "Because", now}, infrastructure: condition{"InfrastructureReady", "True", "Because", now}}
	check := f.healthCheck()
	check.Labels[clusterv1.ClusterNameLabel] = clusterName
	objects := append(make([]client.Object, 0, 2+clusters), f.cluster(), check)
	m := machine{name: "m-1", createdAt: now, hasNodeRef: true}
	for i := range clusters {
		o := m.object(now)
		if i > 0 {
			o.Namespace, o.Spec.ClusterName = "another", "another"
			o.Labels[clusterv1.ClusterNameLabel] = "another"
		}
		objects = append(objects, o)
	}
	nodes := &wire{ClusterCache: clustercache.NewFakeClusterCache(nil, clusterKey)}
	world := newInTreeOf(objects, nodes)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	setUnexported(world.reconciler, "controller", controller.Controller(&listener{ctx: t.Context(), queue: queue}))
	// That it finds no Nodes plays no role here: it watches them before it reads any.
	_ = world.reconcile(t.Context())
	informer, err := nodes.nodes.FakeInformerFor(t.Context(), &corev1.Node{})
	g.Expect(err).ToNot(HaveOccurred())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.nodeName(), ResourceVersion: "1"}}
	sick := node.DeepCopy()
	sick.ResourceVersion = "2"
	sick.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	informer.Update(node, sick)
	return queue.Len()
}

// TestEqualNodeNames_TwoClusters_AreNotMixedUp: the in-tree reconciler finds the Machine of a Node by the name of the Node in all Clusters
// of all namespaces. Where it finds two, it drops the news.
func TestEqualNodeNames_TwoClusters_AreNotMixedUp(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(wakesInTree(t, 1)).To(Equal(1))
	g.Expect(wakesInTree(t, 2)).To(BeZero())

	// One API server is both workload clusters of Remedy, so both have the Node.
	remedyEnv := newEnvironment(t)
	one := remedyEnv.machine("m-1")
	another := &clusterv1.Cluster{ObjectMeta: remedyEnv.meta("another"), Spec: remedyEnv.cluster.Spec}
	remedyEnv.create(another)
	remedyEnv.create(&corev1.Secret{ObjectMeta: remedyEnv.meta("another-kubeconfig"), Data: map[string][]byte{"value": remedyEnv.kubeconfig()}})
	remedyEnv.changeStatus(another, func() { another.Status = remedyEnv.cluster.Status })
	two := remedyEnv.nodeless("m-2", func(m *clusterv1.Machine) {
		m.Labels[clusterv1.ClusterNameLabel], m.Spec.ClusterName, m.Spec.ProviderID = another.Name, another.Name, one.Spec.ProviderID
	})
	remedyEnv.changeStatus(two, func() { two.Status.NodeRef.Name = remedyEnv.node(one) })
	remedyEnv.remedyCheck("one")
	remedyEnv.remedyCheck("two", func(spec *remedyv1.MachineHealthCheckSpec) { spec.ClusterName = another.Name })
	remedyEnv.goes()
	for _, m := range []*clusterv1.Machine{one, two} {
		remedyEnv.Eventually(remedyEnv.health(m)).Should(Equal(isWell))
	}
	remedyEnv.falls(one)
	for _, m := range []*clusterv1.Machine{one, two} {
		remedyEnv.Eventually(remedyEnv.health(m)).Should(Equal(isSick))
	}
}
