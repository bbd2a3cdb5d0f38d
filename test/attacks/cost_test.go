//go:build benchguard

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/onsi/gomega"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// A tenant creates 20 checks and then 2,000. An event of an uninvolved check costs at most twice as much then, and so does an event of a check
// of the tenant itself. The uninvolved check is in the same namespace, so the fair queue does not prefer it. The cost is counted in reconciles
// and allocated objects, which do not depend on how fast the machine is.
func TestGuard_CostOfEvent_DoesNotGrowWithChecks(t *testing.T) {
	s := stage.New(t)
	s.NewBulk().Create(1)
	uninvolved := s.CreateCheck("uninvolved")
	unlimited := s.UnlimitedClient(stage.Management)
	c := s.Start()
	// The check at the end that nothing is left to do gathers all metrics once for each check.
	c.NeverIdle = true
	create := func(from, to int) {
		s.Expect(stage.Parallel(to-from, func(i int) error {
			check := &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: fmt.Sprintf("check-%d", from+i)}}
			uninvolved.Spec.DeepCopyInto(&check.Spec)
			check.Spec.ClusterName = "none"
			return unlimited.Create(s.Ctx, check)
		})).To(Succeed())
		s.Eventually(func() (evaluated int) {
			for _, check := range s.Checks() {
				if check.Status.ObservedGeneration == check.Generation {
					evaluated++
				}
			}
			return evaluated
		}, "10m", "2s").Should(Equal(to + 1))
	}
	create(0, 20)
	few := costs(s, c)
	create(20, 2000)
	many := costs(s, c)
	for event, before := range few {
		after := many[event]
		t.Logf("%s: %d reconciles and %d allocations with 20 checks, %d and %d with 2,000", event, before.reconciles, before.allocations,
			after.reconciles, after.allocations)
		s.Expect(after.reconciles).To(BeNumerically("<=", 2*before.reconciles), event)
		s.Expect(after.allocations).To(BeNumerically("<=", 2*before.allocations), event)
	}
}

type cost struct {
	reconciles  int64
	allocations uint64
}

// costs returns the costs of some events of each kind.
func costs(s *stage.Stage, c *stage.Instance) map[string]cost {
	const events = 20
	all := map[string]cost{}
	statusOf := func(name string) *remedyv1.MachineHealthCheckStatus {
		check := &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
		s.Expect(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(check), check)).To(Succeed())
		return &check.Status
	}
	for event, cause := range map[string]func(i int){
		"a Node of the uninvolved check changes": func(i int) {
			status := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue}[i%2]
			s.SetReady("m-00000", status, 0)
			s.Eventually(func() int { return len(statusOf("uninvolved").UnhealthyTargets) }).Should(Equal(1 - i%2))
		},
		"a check of the tenant changes": func(i int) {
			patched := &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "check-0"}}
			patch := fmt.Sprintf(`{"spec":{"selector":{"matchLabels":{"pool":"p-%d-%d"}}}}`, time.Now().UnixNano(), i)
			s.Expect(s.Admin.Patch(s.Ctx, patched, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
			s.Eventually(func() int64 { return statusOf("check-0").ObservedGeneration }).Should(Equal(patched.Generation))
		},
	} {
		before, memory := c.WaitNoReconciles(), &runtime.MemStats{}
		runtime.ReadMemStats(memory)
		allocations := memory.Mallocs
		for i := range events {
			cause(i)
		}
		runtime.ReadMemStats(memory)
		spent := cost{allocations: memory.Mallocs - allocations}
		for name, n := range c.WaitNoReconciles() {
			spent.reconciles += n - before[name]
		}
		all[event] = spent
	}
	return all
}
