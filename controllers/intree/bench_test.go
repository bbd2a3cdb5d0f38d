// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree_test

import (
	"testing"

	. "github.com/onsi/gomega"
	fakecache "k8s.io/client-go/tools/cache/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// BenchmarkReconcileCheckNotAdopted measures a reconcile of an in-tree check that is not to be adopted: a fleet can have thousands of them.
func BenchmarkReconcileCheckNotAdopted(b *testing.B) {
	s := stage.New(b)
	m := &stage.MachinesInMemory{Source: fakecache.NewFakeControllerSource()}
	check := s.CreateInTreeCheck("not-adopted")
	r := s.StartInMemory(m, 1, intree.AdoptionPolicy{OptIn: true})
	s.Eventually(func() error {
		return r.Cache.Get(s.Ctx, client.ObjectKeyFromObject(check), &clusterv1.MachineHealthCheck{})
	}).Should(Succeed())
	b.ReportAllocs()
	for b.Loop() {
		_, err := r.Reconcile(s.Ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(check)})
		s.Expect(err).ToNot(HaveOccurred())
	}
}
