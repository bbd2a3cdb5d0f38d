// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// parallelism is how many writes run at the same time. More do not make an API server on a small machine faster.
const parallelism = 16

// Bulk creates many Machines with their Nodes. Nodes that are not ready have not been for ten minutes.
type Bulk struct {
	s              *Stage
	admin, kubelet client.Client
	// Name is the name of the i-th Machine. It belongs to a pool, a cluster and a Node.
	Name, Pool, Cluster, Node func(i int) string
	ProviderID                func(i int) string
	// NodeMeta is the metadata of its Node in the API server.
	NodeMeta func(i int) metav1.ObjectMeta
	// Ready is the status of its Node; empty for no Node.
	Ready func(i int) corev1.ConditionStatus
}

// NewBulk returns a Bulk of healthy Machines in the pool of all workers.
func (s *Stage) NewBulk() *Bulk {
	s.T.Helper()
	c := &Bulk{
		s: s, admin: s.UnlimitedClient(Management), kubelet: s.UnlimitedClient(Workload),
		Name:    func(i int) string { return fmt.Sprintf("m-%05d", i) },
		Pool:    func(int) string { return "workers" },
		Cluster: func(int) string { return "prod" },
		Ready:   func(int) corev1.ConditionStatus { return corev1.ConditionTrue },
	}
	c.Node = func(i int) string { return s.NodeName(c.Name(i)) }
	c.ProviderID = func(i int) string { return "test:///" + s.Namespace + "/" + c.Name(i) }
	c.NodeMeta = func(i int) metav1.ObjectMeta { return metav1.ObjectMeta{Name: c.Node(i)} }
	return c
}

// NewNodeBulk returns a Bulk of healthy Nodes without Machines, which the NodeHealthChecks of the stage select. They are deleted at the end
// of the test.
func (s *Stage) NewNodeBulk() *Bulk {
	s.T.Helper()
	c := s.NewBulk()
	if s.AllNamespaces {
		c.kubelet = c.admin
	}
	c.ProviderID = func(int) string { return "" }
	c.NodeMeta = func(i int) metav1.ObjectMeta { return metav1.ObjectMeta{Name: c.Node(i), Labels: s.NodeLabels()} }
	s.T.Cleanup(func() {
		s.Expect(c.kubelet.DeleteAllOf(s.Ctx, &corev1.Node{}, client.MatchingLabels{stageLabel: s.Namespace})).To(Succeed())
	})
	return c
}

// SetReady sets the Ready condition of a Node, as it has been for some time. It also updates the heartbeat.
func (c *Bulk) SetReady(i int, status corev1.ConditionStatus, lasting time.Duration) error {
	return c.changeStatus(i, func(node *corev1.Node) { node.Status.Conditions[0] = readyCondition(status, lasting) })
}

// Heartbeat updates only the heartbeat of a Node.
func (c *Bulk) Heartbeat(i int) error {
	return c.changeStatus(i, func(node *corev1.Node) { node.Status.Conditions[0].LastHeartbeatTime = metav1.Now() })
}

func (c *Bulk) changeStatus(i int, change func(*corev1.Node)) error {
	node := &corev1.Node{ObjectMeta: c.NodeMeta(i)}
	if err := c.kubelet.Get(c.s.Ctx, client.ObjectKeyFromObject(node), node); err != nil {
		return err
	}
	change(node)
	return c.kubelet.Status().Update(c.s.Ctx, node)
}

// UnlimitedClient is an admin client without a rate limit.
func (s *Stage) UnlimitedClient(cluster *testenv.Environment) client.Client {
	s.T.Helper()
	config := rest.CopyConfig(cluster.Admin)
	config.QPS = -1
	return testenv.NewClient(s.T, config)
}

// Create creates the Machines and Nodes.
func (c *Bulk) Create(all int) {
	c.s.T.Helper()
	c.s.Expect(Parallel(all, c.create)).To(Succeed())
}

// Parallel calls a function for every number below n, several at a time, and returns the first error.
func Parallel(numbers int, do func(i int) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	next.Store(-1)
	var all sync.WaitGroup
	for range parallelism {
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

// Machine is a Machine that does not exist yet.
func (c *Bulk) Machine(i int) *clusterv1.Machine {
	m := c.s.newMachine(c.Name(i))
	m.Labels[clusterv1.ClusterNameLabel], m.Labels["pool"] = c.Cluster(i), c.Pool(i)
	m.OwnerReferences[0].Name = c.Pool(i)
	m.Spec.ClusterName, m.Spec.ProviderID = c.Cluster(i), c.ProviderID(i)
	return m
}

func (c *Bulk) create(i int) error {
	m := c.Machine(i)
	if err := c.admin.Create(c.s.Ctx, m); err != nil {
		return err
	}
	m.Status.NodeRef = clusterv1.MachineNodeReference{Name: c.Node(i)}
	if err := c.admin.Status().Update(c.s.Ctx, m); err != nil {
		return err
	}
	return c.CreateNode(i)
}

// CreateNode creates the Node of a Machine, with its status, as a kubelet does.
func (c *Bulk) CreateNode(i int) error {
	status, since := c.Ready(i), time.Hour
	switch status {
	case "":
		return nil
	case corev1.ConditionTrue:
	case corev1.ConditionFalse, corev1.ConditionUnknown:
		since = 10 * time.Minute
	}
	return c.kubelet.Create(c.s.Ctx, &corev1.Node{
		ObjectMeta: c.NodeMeta(i), Spec: corev1.NodeSpec{ProviderID: c.ProviderID(i)},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{readyCondition(status, since)}},
	})
}

// FailNode sets Ready=False on a Node, for ten minutes.
func (c *Bulk) FailNode(i int) error { return c.SetReady(i, corev1.ConditionFalse, 10*time.Minute) }
