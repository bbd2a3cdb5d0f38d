// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"context"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// runs starts the in-tree controller in a manager of its own, with a cache that can be held back. It looks at all checks whenever anything
// happens: the fifteen seconds that it takes its time between two looks are not what is tested.
func (a *environment) runs(user *rest.Config) *life {
	a.t.Helper()
	// As the manager of Cluster API reads.
	reads := client.Options{Cache: &client.CacheOptions{Unstructured: true}}
	return a.run(user, ctrl.Options{Client: reads}, func(_ context.Context, mgr manager.Manager) func() {
		a.setUpInTree(mgr)
		return func() {}
	})
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
