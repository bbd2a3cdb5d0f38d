// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package fairqueue

import (
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func check(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// One tenant adds 2,000 checks at once, and then another tenant adds one: it comes after no more than the burst of the first.
func TestQueue_OneNamespaceAddsMany_OthersComeFirst(t *testing.T) {
	g := NewWithT(t)
	q := New(logr.Discard())("test", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(q.ShutDown)
	for i := range 2000 {
		q.Add(check("attacker", fmt.Sprintf("c-%d", i)))
	}
	q.Add(check("victim", "workers"))
	for before := 0; ; before++ {
		next, _ := q.Get()
		q.Done(next)
		if next.Namespace == "victim" {
			// The burst refills while the loop above runs.
			g.Expect(before).To(BeNumerically("<", 2*burst))
			return
		}
	}
}
