//go:build benchguard

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/onsi/gomega"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// A tenant creates 20 checks and then 2,000: half of them for a Cluster that does not exist, half for one of its own. An event of an
// uninvolved check costs at most twice as much then, and so does an event of a check without a Cluster. An event of a check with a Cluster
// reconciles only the oldest checks of that Cluster. The uninvolved check is in the same namespace, so the fair queue does not prefer it.
// The cost is counted in reconciles and allocated objects, which do not depend on how fast the machine is.
func TestGuard_CostOfEvent_DoesNotGrowWithChecks(t *testing.T) {
	s := stage.New(t)
	s.NewBulk().Create(1)
	// All workload clusters of a stage have the same Nodes, so the Nodes of this one are those of the management cluster.
	s.CreateClusterAt("crowded", stage.Management.Admin)
	machines := s.NewBulk()
	machines.Name = func(i int) string { return fmt.Sprintf("crowded-%d", i) }
	machines.Cluster = func(int) string { return "crowded" }
	machines.Ready = func(int) corev1.ConditionStatus { return "" }
	machines.Create(3)
	for i := range 3 {
		node := &corev1.Node{ObjectMeta: machines.NodeMeta(i), Spec: corev1.NodeSpec{ProviderID: machines.ProviderID(i)}}
		s.Expect(s.Admin.Create(s.Ctx, node)).To(Succeed())
		t.Cleanup(func() { s.Expect(s.Admin.Delete(context.Background(), node)).To(Succeed()) })
	}
	attack := crowd{Stage: s, uninvolved: s.CreateCheck("uninvolved"), instance: s.Start()}
	// The check at the end that nothing is left to do gathers all metrics once for each check.
	attack.instance.NeverIdle = true
	few := attack.costs(0, 20)
	many := attack.costs(20, 2000)
	for event, before := range few {
		after := many[event]
		t.Logf("%s: %d reconciles and %d allocations with 20 checks, %d and %d with 2,000", event, before.reconciles,
			before.allocations, after.reconciles, after.allocations)
		if event == ofCluster {
			s.Expect(after.reconciles).To(BeNumerically("<=", events*explain.MaxChecks), event)
			continue
		}
		s.Expect(after.reconciles).To(BeNumerically("<=", 2*before.reconciles), event)
		s.Expect(after.allocations).To(BeNumerically("<=", 2*before.allocations), event)
	}
}

// events is how many there are of each kind, and ofCluster those of a check of the tenant for its Cluster.
const (
	events    = 20
	ofCluster = "a check of the tenant for its Cluster changes"
)

// crowd are the checks of a tenant.
type crowd struct {
	*stage.Stage
	instance   *stage.Instance
	uninvolved *remedyv1.MachineHealthCheck
}

type cost struct {
	reconciles  int64
	allocations uint64
}

// create creates checks and waits until all are reconciled.
func (c crowd) create(from, to int) {
	unlimited := c.UnlimitedClient(stage.Management)
	c.Expect(stage.Parallel(to-from, func(i int) error {
		check := &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: fmt.Sprintf("check-%d", from+i)}}
		c.uninvolved.Spec.DeepCopyInto(&check.Spec)
		check.Spec.ClusterName = []string{"none", "crowded"}[i%2]
		return unlimited.Create(c.Ctx, check)
	})).To(Succeed())
	c.Eventually(func() (evaluated int) {
		for _, check := range c.Checks() {
			if check.Status.ObservedGeneration == check.Generation {
				evaluated++
			}
		}
		return evaluated
	}, "10m", "2s").Should(Equal(to + 1))
}

// costs creates checks and returns the costs of some events of each kind after that.
func (c crowd) costs(from, to int) map[string]cost {
	c.create(from, to)
	all := map[string]cost{}
	statusOf := func(name string) *remedyv1.MachineHealthCheckStatus {
		check := &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name}}
		c.Expect(c.Admin.Get(c.Ctx, client.ObjectKeyFromObject(check), check)).To(Succeed())
		return &check.Status
	}
	changeSelector := func(name string) func(i int) {
		return func(i int) {
			patched := &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name}}
			patch := fmt.Sprintf(`{"spec":{"selector":{"matchLabels":{"pool":"p-%d-%d"}}}}`, time.Now().UnixNano(), i)
			c.Expect(c.Admin.Patch(c.Ctx, patched, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
			c.Eventually(func() int64 { return statusOf(name).ObservedGeneration }).Should(Equal(patched.Generation))
		}
	}
	before := c.instance.WaitNoReconciles()
	for event, cause := range map[string]func(i int){
		"a Node of the uninvolved check changes": func(i int) {
			status := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue}[i%2]
			c.SetReady("m-00000", status, 0)
			c.Eventually(func() int { return len(statusOf("uninvolved").UnhealthyTargets) }).Should(Equal(1 - i%2))
		},
		"a check of the tenant without a Cluster changes": changeSelector("check-0"),
		ofCluster: changeSelector("check-1"),
	} {
		memory := &runtime.MemStats{}
		runtime.ReadMemStats(memory)
		allocations := memory.Mallocs
		for i := range events {
			cause(i)
		}
		runtime.ReadMemStats(memory)
		spent := cost{allocations: memory.Mallocs - allocations}
		after := c.instance.WaitNoReconciles()
		for name, n := range after {
			spent.reconciles += n - before[name]
		}
		all[event], before = spent, after
	}
	return all
}
