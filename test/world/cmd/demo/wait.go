// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

func is(n *int32, expected int) bool { return n != nil && int(*n) == expected }

// untilCheck waits until the status of a MachineHealthCheck matches.
func (d *demonstration) untilCheck(
	ctx context.Context, announced, name string, matches func(*remedyv1.MachineHealthCheckStatus) bool,
) error {
	return d.Until(ctx, announced, func(ctx context.Context) (bool, error) {
		check := &remedyv1.MachineHealthCheck{}
		err := d.world.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, check)
		return matches(&check.Status), err
	})
}

// untilServers waits until the status of the NodeHealthCheck matches.
func (d *demonstration) untilServers(ctx context.Context, announced string, matches func(*remedyv1.NodeHealthCheckStatus) bool) error {
	return d.Until(ctx, announced, func(ctx context.Context) (bool, error) {
		check := &remedyv1.NodeHealthCheck{}
		err := d.world.Client.Get(ctx, client.ObjectKey{Name: "bare-metal"}, check)
		return matches(&check.Status), err
	})
}

// untilHealthy waits until all targets of a check are healthy, and no remediation is in progress.
func (d *demonstration) untilHealthy(ctx context.Context, name string) error {
	return d.untilCheck(ctx, "all targets of "+name+" are healthy", name, func(s *remedyv1.MachineHealthCheckStatus) bool {
		return is(s.ExpectedMachines, targets[name]) && is(s.CurrentHealthy, targets[name]) && len(s.UnhealthyTargets) == 0 &&
			meta.IsStatusConditionTrue(s.Conditions, remedyv1.ReadyCondition)
	})
}

// untilMachine waits until something has happened to a Machine, and returns when.
func (d *demonstration) untilMachine(ctx context.Context, announced string, times map[string]time.Time, machine string) (time.Time, error) {
	var at time.Time
	err := d.Until(ctx, announced, func(context.Context) (bool, error) {
		var err error
		at, err = d.history.when(times, machine)
		return !at.IsZero(), err
	})
	return at, err
}

// untilReplaced waits until a pool has the expected number of Machines with Ready Nodes, and not the broken one.
func (d *demonstration) untilReplaced(ctx context.Context, f *fault, replicas int) (replacement string, err error) {
	announced := "Machine " + f.machine.Name + " is replaced, and the Node of the new Machine is Ready"
	err = d.Until(ctx, announced, func(ctx context.Context) (bool, error) {
		found, err := d.machinesLike(ctx, f.machine)
		if err != nil || len(found) != replicas {
			return false, err
		}
		for i := range found {
			if found[i].UID == f.machine.UID || !found[i].DeletionTimestamp.IsZero() || !d.hasReadyNode(ctx, &found[i]) {
				return false, nil
			}
			if found[i].CreationTimestamp.After(f.began) {
				replacement = found[i].Name
			}
		}
		return true, nil
	})
	return replacement, err
}

// machinesLike returns the Machines of the pool of a Machine, or of the control plane.
func (d *demonstration) machinesLike(ctx context.Context, m *clusterv1.Machine) ([]clusterv1.Machine, error) {
	return d.cluster.PoolMachines(ctx, m.Labels[world.PoolLabel])
}

func (d *demonstration) hasReadyNode(ctx context.Context, m *clusterv1.Machine) bool {
	if m.Status.NodeRef.Name == "" {
		return false
	}
	node, err := d.cluster.Node(ctx, m.Status.NodeRef.Name)
	return err == nil && world.ReadyNode(node)
}

// breakNodes sets the condition Ready of the Nodes of Machines to Unknown.
func (d *demonstration) breakNodes(ctx context.Context, broken ...*clusterv1.Machine) ([]*fault, error) {
	faults := make([]*fault, 0, len(broken))
	for _, m := range broken {
		if err := d.setReady(ctx, m, corev1.ConditionUnknown, "NodeStatusUnknown"); err != nil {
			return nil, err
		}
		faults = append(faults, &fault{machine: m, began: time.Now()})
	}
	for _, f := range faults {
		node, err := d.cluster.Node(ctx, f.machine.Status.NodeRef.Name)
		if err != nil {
			return nil, err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				// The time of a condition has whole seconds.
				f.deadline = c.LastTransitionTime.Add(timeout)
			}
		}
	}
	return faults, nil
}

// repairNodes sets the condition Ready of the Nodes of Machines to True.
func (d *demonstration) repairNodes(ctx context.Context, repaired ...*clusterv1.Machine) error {
	for _, m := range repaired {
		if err := d.setReady(ctx, m, corev1.ConditionTrue, "KubeletReady"); err != nil {
			return err
		}
	}
	return nil
}

func (d *demonstration) setReady(ctx context.Context, m *clusterv1.Machine, status corev1.ConditionStatus, reason string) error {
	return d.cluster.SetNodeCondition(ctx, m.Status.NodeRef.Name, corev1.NodeReady, status, reason)
}

// nothingRemediated returns an error if a Machine was remediated that was not before.
func (d *demonstration) nothingRemediated(before []string) error {
	if now := d.history.remediated(); !slices.Equal(before, now) {
		return errors.Errorf("no Machine should have been remediated, but these were: %v (before: %v)", now, before)
	}
	return nil
}
