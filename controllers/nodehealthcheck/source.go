// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"slices"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// source reads Nodes.
type source struct{ *healthcheck.Environment }

// Targets are the Nodes of the cluster: those that the check selects, and others.
func (s source) Targets(
	ctx context.Context, reader client.Reader, check *healthcheck.Check, live bool,
) (selected, others []*healthcheck.Target, err error) {
	if check.Selector == nil {
		return nil, nil, errors.New("the selector is invalid")
	}
	cluster := s.Clusters.Get(check.Cluster)
	read := cluster.Nodes
	if live {
		read = cluster.Live().Nodes
	}
	nodes, err := read(ctx)
	if err != nil {
		return nil, nil, err
	}
	machines, unread, err := s.MachinesOf(ctx, reader, check.Cluster, nodes, live)
	if err != nil {
		return nil, nil, err
	}
	if check.Cluster != workload.ManagementCluster && !anyKnown(nodes, machines) {
		return nil, nil, workload.ErrWrongCluster
	}
	targets := make([]healthcheck.Target, len(nodes))
	for i, node := range nodes {
		t := &targets[i]
		*t = targetOf(check.Cluster, node, machines[node.Name], unread[node.Name])
		if t.Reading.Live = live; check.Selector.Matches(labels.Set(node.Labels)) {
			selected = append(selected, t)
		} else {
			others = append(others, t)
		}
	}
	return selected, others, nil
}

// Get reads one Node with its Machine, and whether the check selects it; nil if it does not exist.
func (s source) Get(
	ctx context.Context, reader client.Reader, check *healthcheck.Check, name string,
) (target *healthcheck.Target, selected bool, err error) {
	one := workload.ReadRequest{Initialized: true, Targets: []workload.Target{{Name: name}}}
	reading := s.Clusters.Get(check.Cluster).Live().Read(ctx, one)[0]
	node := reading.Node
	if node == nil {
		return nil, false, reading.Err
	}
	machines, unread, err := s.MachinesOf(ctx, s.Cache, check.Cluster, []*corev1.Node{node}, false)
	if err != nil {
		return nil, false, err
	}
	machine := machines[name]
	if machine != nil {
		machine, err = readAgain(ctx, reader, machine)
		if err != nil {
			return nil, false, err
		}
	}
	t := targetOf(check.Cluster, node, machine, unread[name])
	t.Reading.Live = true
	return &t, check.Selector != nil && check.Selector.Matches(labels.Set(node.Labels)), nil
}

// readAgain reads the Machine of a Node; nil if it is not the Machine of that Node any more.
func readAgain(ctx context.Context, reader client.Reader, before *clusterv1.Machine) (*clusterv1.Machine, error) {
	now := &clusterv1.Machine{}
	if err := reader.Get(ctx, client.ObjectKeyFromObject(before), now); err != nil {
		return nil, errors.Wrap(client.IgnoreNotFound(err), "failed to read the Machine of the Node")
	}
	if now.UID != before.UID || now.Status.NodeRef.Name != before.Status.NodeRef.Name {
		return nil, nil
	}
	return now, nil
}

// anyKnown reports whether one of the Nodes is that of its Machine, or there are too few Machines to compare. Otherwise the kubeconfig may
// lead to another cluster.
func anyKnown(nodes []*corev1.Node, machines map[string]*clusterv1.Machine) bool {
	known := func(node *corev1.Node) bool {
		machine := machines[node.Name]
		return machine != nil && (machine.Spec.ProviderID == "" || machine.Spec.ProviderID == node.Spec.ProviderID)
	}
	return len(machines) < 2 || slices.ContainsFunc(nodes, known)
}

// targetOf is a Node as a target, with its Machine, which may be nil. In the management cluster, the provider IDs have to be equal, because
// a kubelet writes which Cluster its Node belongs to. unread is why its Machine is not certain.
func targetOf(cluster client.ObjectKey, node *corev1.Node, machine *clusterv1.Machine, unread error) healthcheck.Target {
	t := healthcheck.Target{
		Object: node, Machine: machine, ControlPlane: workload.IsControlPlaneNode(node) || machine != nil && util.IsControlPlaneMachine(machine),
		NodeTarget: workload.Target{Name: node.Name},
		Subject:    requests.OfNode(requests.Object{Name: node.Name, UID: node.UID}, requests.Object{}),
		Reading:    workload.Reading{State: health.Present, Node: node},
	}
	if machine != nil {
		t.Subject.Machine, t.Subject.MachineNamespace = requests.Object{Name: machine.Name, UID: machine.UID}, machine.Namespace
		machineID, nodeID := machine.Spec.ProviderID, node.Spec.ProviderID
		incomplete := machineID == "" || nodeID == ""
		switch {
		case unread != nil:
			t.Reading = workload.Reading{Err: unread}
		case incomplete && cluster == workload.ManagementCluster, !incomplete && machineID != nodeID:
			t.Reading = workload.Reading{Err: workload.ErrDifferentProviderID}
		}
	}
	return t
}
