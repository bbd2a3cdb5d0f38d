// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"fmt"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// Subject is what a question is about.
type Subject struct {
	// Node: Name is that of a Node, otherwise of a Machine.
	Node            bool
	Namespace, Name string
	// Cluster is the Cluster of the Node. If it is empty, the Node is that of the only Machine with a Node of this name, or one of this
	// cluster.
	Cluster string
	// ThisCluster: the Node is one of this cluster.
	ThisCluster bool
}

// target is a Machine, a Node, or both.
type target struct {
	// machine is nil for a Node without one.
	machine *clusterv1.Machine
	// node is the name of the Node; empty if the Machine has none.
	node string
	// cluster is the Cluster of the Node, or workload.ManagementCluster.
	cluster client.ObjectKey
	// self is the Cluster that this cluster is, if it manages itself and the target is in it; empty otherwise.
	self client.ObjectKey
}

func (t *target) kind() string {
	if t.machine == nil {
		return "Node"
	}
	return "Machine"
}

func (t *target) String() string {
	if t.machine == nil {
		return "Node " + t.node
	}
	return "Machine " + client.ObjectKeyFromObject(t.machine).String()
}

// clusterName is the Cluster in messages.
func (t *target) clusterName() string {
	if t.cluster == workload.ManagementCluster {
		return "this cluster"
	}
	return "Cluster " + t.cluster.String()
}

// capi is the Cluster of Cluster API whose Machines and checks matter; empty if there is none.
func (t *target) capi() client.ObjectKey {
	if t.cluster == workload.ManagementCluster {
		return t.self
	}
	return t.cluster
}

func ofMachine(m *clusterv1.Machine) *target {
	return &target{machine: m, node: m.Status.NodeRef.Name, cluster: client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName}}
}

// targetOf finds what a question is about.
func (c *Cluster) targetOf(ctx context.Context, s Subject) (*target, error) {
	ctx, done := context.WithTimeout(ctx, requestTimeout)
	defer done()
	switch {
	case s.ThisCluster:
		node := &corev1.Node{}
		if err := c.client.Get(ctx, client.ObjectKey{Name: s.Name}, node); err != nil {
			return nil, readError(err, "Node "+s.Name+" of this cluster")
		}
		return c.localTarget(ctx, node)
	case s.Node:
		return c.nodeTarget(ctx, s)
	}
	m := &clusterv1.Machine{}
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, m); err != nil {
		return nil, readError(err, fmt.Sprintf("Machine %s/%s", s.Namespace, s.Name))
	}
	if s.Cluster != "" && m.Spec.ClusterName != s.Cluster {
		return nil, errors.Errorf("Machine %s/%s belongs to Cluster %s, not to %s", s.Namespace, s.Name, m.Spec.ClusterName, s.Cluster)
	}
	return ofMachine(m), nil
}

// nodeTarget finds a Node: that of a Machine of the namespace, one of the Cluster, or one of this cluster.
func (c *Cluster) nodeTarget(ctx context.Context, s Subject) (*target, error) {
	m, unread := c.machineWith(ctx, s)
	if s.Cluster != "" {
		if m != nil || unread != nil {
			return firstOf(m, unread)
		}
		key := client.ObjectKey{Namespace: s.Namespace, Name: s.Cluster}
		if err := c.client.Get(ctx, key, &clusterv1.Cluster{}); err != nil {
			return nil, readError(err, "Cluster "+key.String())
		}
		return &target{node: s.Name, cluster: key}, nil
	}
	local := &corev1.Node{}
	// A user who is not allowed to read the Nodes of this cluster asks about another one.
	if c.client.Get(ctx, client.ObjectKey{Name: s.Name}, local) != nil {
		if m == nil && unread == nil {
			return nil, errors.Errorf("no Machine in namespace %s has the Node %s, and no Node of this cluster that you can read has this name. "+
				"Select the namespace of its Cluster with -n. For a Node without a Machine, select its Cluster with --cluster", s.Namespace, s.Name)
		}
		return firstOf(m, unread)
	}
	if m == nil {
		return c.localTarget(ctx, local)
	}
	t := ofMachine(m)
	if healthcheck.ClusterOfNode(local) != t.cluster {
		return nil, errors.Errorf("Cluster %s and this cluster both have a Node %s: "+
			"select the first with --cluster %s, the second with --this-cluster", t.cluster, s.Name, t.cluster.Name)
	}
	t.self = t.cluster
	return t, nil
}

func firstOf(m *clusterv1.Machine, err error) (*target, error) {
	if err != nil {
		return nil, err
	}
	return ofMachine(m), nil
}

// machineWith finds the Machine of a Node in the namespace; nil without one.
func (c *Cluster) machineWith(ctx context.Context, s Subject) (*clusterv1.Machine, error) {
	machines := &clusterv1.MachineList{}
	if err := c.client.List(ctx, machines, client.InNamespace(s.Namespace)); err != nil {
		if meta.IsNoMatchError(err) {
			return nil, nil
		}
		return nil, readError(err, "the Machines of namespace "+s.Namespace)
	}
	var found *clusterv1.Machine
	for i := range machines.Items {
		m := &machines.Items[i]
		if m.Status.NodeRef.Name != s.Name || s.Cluster != "" && m.Spec.ClusterName != s.Cluster {
			continue
		}
		if found != nil && found.Spec.ClusterName != m.Spec.ClusterName {
			return nil, errors.Errorf("the Clusters %s and %s both have a Node %s: select one with --cluster",
				found.Spec.ClusterName, m.Spec.ClusterName, s.Name)
		}
		found = m
	}
	return found, nil
}

// localTarget is a Node of this cluster, with its Machine if this cluster manages itself and the user is allowed to read the Machines.
func (c *Cluster) localTarget(ctx context.Context, node *corev1.Node) (*target, error) {
	t := &target{node: node.Name, cluster: workload.ManagementCluster, self: healthcheck.ClusterOfNode(node)}
	if t.self.Name == "" {
		// Another Node shows whether this cluster manages itself.
		selves, err := c.selves(ctx)
		if err != nil || len(selves) == 0 {
			return t, nil //nolint:nilerr // The missing permission is reported with the others.
		}
		t.self = selves[0]
	}
	m, err := c.machineWith(ctx, Subject{Namespace: t.self.Namespace, Name: node.Name, Cluster: t.self.Name})
	if err != nil || m == nil {
		return t, nil //nolint:nilerr // The missing permission is reported with the others.
	}
	t.machine, t.cluster = m, t.self
	return t, nil
}

// selves are the Clusters that this cluster is, if it manages itself: its Nodes have the annotations of Cluster API then.
func (c *Cluster) selves(ctx context.Context) ([]client.ObjectKey, error) {
	list := &corev1.NodeList{}
	if err := c.client.List(ctx, list); err != nil {
		return nil, readError(err, "the Nodes of this cluster")
	}
	nodes := make([]*corev1.Node, len(list.Items))
	for i := range list.Items {
		nodes[i] = &list.Items[i]
	}
	return healthcheck.ClustersOfNodes(nodes), nil
}

// Cluster is the management cluster, read with the permissions of the user.
type Cluster struct {
	config *rest.Config
	client client.WithWatch
}

// requestTimeout limits one request to an API server.
const requestTimeout = 30 * time.Second

// NewCluster returns the management cluster that a kubeconfig selects.
func NewCluster(config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100
	config.WarningHandler = rest.NoWarnings{}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, remedyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, errors.Wrap(err, "failed to register the API types")
		}
	}
	api, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	return &Cluster{config: config, client: api}, errors.Wrap(err, "failed to connect to the management cluster")
}

// readError returns what could not be read and what the user can do.
func readError(err error, what string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return errors.Errorf("failed to read %s: you are not allowed to. Ask an administrator for the permission", what)
	case apierrors.IsNotFound(err):
		return &notFoundError{what}
	}
	return errors.Wrap(err, "failed to read "+what)
}

// notFoundError is returned for an object that does not exist.
type notFoundError struct{ what string }

func (e *notFoundError) Error() string { return e.what + " not found" }

func notFound(err error) bool {
	var missing *notFoundError
	return errors.As(err, &missing)
}
