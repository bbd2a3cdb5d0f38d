// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

// helpers is how many make a crowd at once. An API server on a small machine does not get faster by more of them.
const helpers = 16

// crowd makes as many Machines with their Nodes. What is not ready has not been for ten minutes.
type crowd struct {
	s              *stage
	admin, kubelet client.Client
	// name is that of a Machine, and pool, cluster and node where it belongs.
	name, pool, cluster, node func(i int) string
	// id is its provider's.
	id func(i int) string
	// registered is its Node as the API server knows it.
	registered func(i int) metav1.ObjectMeta
	// ready says how its Node is; empty is that there is no such Node.
	ready func(i int) corev1.ConditionStatus
}

// newCrowd has everybody healthy in the pool of all workers.
func (s *stage) newCrowd() *crowd {
	s.t.Helper()
	c := &crowd{
		s: s, admin: s.inAHurry(management), kubelet: s.inAHurry(guest),
		name:    func(i int) string { return fmt.Sprintf("m-%05d", i) },
		pool:    func(int) string { return "workers" },
		cluster: func(int) string { return "prod" },
		ready:   func(int) corev1.ConditionStatus { return corev1.ConditionTrue },
	}
	c.node = func(i int) string { return s.node(c.name(i)) }
	c.id = func(i int) string { return "test:///" + s.namespace + "/" + c.name(i) }
	c.registered = func(i int) metav1.ObjectMeta { return metav1.ObjectMeta{Name: c.node(i)} }
	return c
}

// inAHurry is a client of the admin without a limit to its rate.
func (s *stage) inAHurry(cp *controlplane.ControlPlane) client.Client {
	s.t.Helper()
	config := rest.CopyConfig(cp.Admin)
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: scheme(s.t)})
	s.Expect(err).ToNot(HaveOccurred())
	return c
}

// come makes so many Machines.
func (c *crowd) come(all int) {
	c.s.t.Helper()
	c.s.Expect(eachOf(all, c.make)).To(Succeed())
}

// eachOf does something for every number below this, several at a time, and returns the first thing that goes wrong.
func eachOf(numbers int, do func(i int) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	next.Store(-1)
	var all sync.WaitGroup
	for range helpers {
		all.Go(func() {
			for i := int(next.Add(1)); i < numbers && failed.Load() == nil; i = int(next.Add(1)) {
				if err := do(i); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	all.Wait()
	if first := failed.Load(); first != nil {
		return *first
	}
	return nil
}

// machine is one that nobody has made yet.
func (c *crowd) machine(i int) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: c.s.namespace, Name: c.name(i), Labels: map[string]string{clusterv1.ClusterNameLabel: c.cluster(i), "pool": c.pool(i)},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: c.pool(i), UID: "1", Controller: ptr.To(true)}},
	}}
	m.Spec.ClusterName, m.Spec.ProviderID = c.cluster(i), c.id(i)
	m.Spec.Bootstrap.DataSecretName = ptr.To("bootstrap")
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "AnyMachine", Name: m.Name}
	return m
}

func (c *crowd) make(i int) error {
	m := c.machine(i)
	if err := c.admin.Create(c.s.ctx, m); err != nil {
		return err
	}
	m.Status.NodeRef = clusterv1.MachineNodeReference{Name: c.node(i)}
	if err := c.admin.Status().Update(c.s.ctx, m); err != nil {
		return err
	}
	return c.register(i)
}

// register makes the Node of a Machine. A kubelet registers its Node with its status at once, too.
func (c *crowd) register(i int) error {
	status, since := c.ready(i), time.Hour
	switch status {
	case "":
		return nil
	case corev1.ConditionTrue:
	case corev1.ConditionFalse, corev1.ConditionUnknown:
		since = 10 * time.Minute
	}
	return c.kubelet.Create(c.s.ctx, &corev1.Node{
		ObjectMeta: c.registered(i), Spec: corev1.NodeSpec{ProviderID: c.id(i)},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: status, Reason: "Test", LastTransitionTime: metav1.NewTime(time.Now().Add(-since)), LastHeartbeatTime: metav1.Now(),
		}}},
	})
}

// fallIll lets a Node have been out of order for ten minutes.
func (c *crowd) fallIll(i int) error {
	node := &corev1.Node{ObjectMeta: c.registered(i)}
	if err := c.kubelet.Get(c.s.ctx, client.ObjectKeyFromObject(node), node); err != nil {
		return err
	}
	node.Status.Conditions[0].Status, node.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(time.Now().Add(-10*time.Minute))
	return c.kubelet.Status().Update(c.s.ctx, node)
}

// told is what a condition says, by Machine.
func (s *stage) told(kind string) map[string]string {
	s.t.Helper()
	all := map[string]string{}
	machines := s.machines()
	for i := range machines {
		all[machines[i].Name] = says(kind)(&machines[i])
	}
	return all
}

func countOf(told map[string]string, what string) int {
	n := 0
	for _, one := range told {
		if one == what {
			n++
		}
	}
	return n
}

// calm waits until nobody has anything left to look at, without waking anybody, and returns how many passes there were of each check.
func (c *controller) calm() map[string]int64 {
	c.s.t.Helper()
	passes := func() map[string]int64 {
		all := map[string]int64{}
		c.passes.Range(func(check, n any) bool {
			all[check.(string)] = n.(*atomic.Int64).Load()
			return true
		})
		return all
	}
	before, writes := passes(), -1
	c.s.Eventually(func() bool {
		now, written := passes(), len(c.Writes())
		same := maps.Equal(before, now) && written == writes
		before, writes = now, written
		return same
	}).WithPolling(2*time.Second).Should(BeTrue(), "it comes to no rest")
	return before
}

// changesOf are the checks of which there were passes between two moments.
func changesOf(before, after map[string]int64) []string {
	var changed []string
	for check, n := range after {
		if n != before[check] {
			changed = append(changed, check)
		}
	}
	return changed
}
