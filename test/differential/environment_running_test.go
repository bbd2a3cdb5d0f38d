// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

// runs starts the in-tree controller in a manager of its own, with a cache that can be held back. It looks at all checks whenever anything
// happens: the fifteen seconds that it takes its time between two looks are not what is tested.
func (a *environment) runs(user *rest.Config) *life {
	a.t.Helper()
	process := faults.Start(a.ctx)
	ctx, cancel := context.WithCancel(process.Context())
	mgr, err := ctrl.NewManager(process.Config(user), ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
		Controller:              config.Controller{SkipNameValidation: ptr.To(true), UsePriorityQueue: ptr.To(false)},
		GracefulShutdownTimeout: ptr.To(time.Minute),
		// As the manager of Cluster API reads.
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Cache:  ctrlcache.Options{DefaultNamespaces: map[string]ctrlcache.Config{a.namespace: {}}},
	})
	a.Expect(err).ToNot(HaveOccurred())
	a.setUpInTree(mgr)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	a.Expect(mgr.GetCache().WaitForCacheSync(ctx)).To(BeTrue())
	l := &life{process, sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !process.Crashed() {
			a.Expect(err).ToNot(HaveOccurred())
		}
	})}
	a.t.Cleanup(l.stop)
	return l
}

func (a *environment) setUpInTree(mgr manager.Manager) {
	a.t.Helper()
	nodes := clustercache.NewFakeClusterCache(mgr.GetClient(), client.ObjectKeyFromObject(a.cluster), nodeWatch)
	everything := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		list := &clusterv1.MachineHealthCheckList{}
		if err := mgr.GetClient().List(ctx, list); err != nil {
			return nil
		}
		all := make([]reconcile.Request, 0, len(list.Items))
		for i := range list.Items {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
		return all
	})
	a.Expect(ctrl.NewControllerManagedBy(mgr).Named("in-tree").
		For(&clusterv1.MachineHealthCheck{}).
		Watches(&clusterv1.Machine{}, everything).Watches(&clusterv1.Cluster{}, everything).Watches(&corev1.Node{}, everything).
		Complete(newInTreeWith(mgr.GetClient(), nodes).reconciler)).To(Succeed())
}
