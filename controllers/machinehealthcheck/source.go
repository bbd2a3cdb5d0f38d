// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"cmp"
	"context"
	"slices"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// Source reads Machines.
type Source struct{}

// Targets are the Machines of the Cluster: those that the check selects, and others.
func (Source) Targets(
	ctx context.Context, reader client.Reader, check *healthcheck.Check, live bool,
) (selected, others []*healthcheck.Target, err error) {
	if check.Selector == nil {
		return nil, nil, errors.New("the selector is invalid")
	}
	machines := &clusterv1.MachineList{}
	if err := reader.List(ctx, machines, healthcheck.MachinesInCluster(check.Cluster, live)...); err != nil {
		return nil, nil, errors.Wrap(err, "failed to read the Machines")
	}
	targets := make([]healthcheck.Target, len(machines.Items))
	for i := range machines.Items {
		m, t := &machines.Items[i], &targets[i]
		if m.Spec.ClusterName != check.Cluster.Name {
			continue
		}
		if *t = targetOf(m); check.Selector.Matches(labels.Set(m.Labels)) {
			selected = append(selected, t)
		} else {
			others = append(others, t)
		}
	}
	byName := func(a, b *healthcheck.Target) int { return cmp.Compare(a.Machine.Name, b.Machine.Name) }
	slices.SortFunc(selected, byName)
	slices.SortFunc(others, byName)
	return selected, others, nil
}

// Get reads one Machine, and whether the check selects it; nil if it does not exist.
func (Source) Get(
	ctx context.Context, reader client.Reader, check *healthcheck.Check, name string,
) (target *healthcheck.Target, selected bool, err error) {
	m := &clusterv1.Machine{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: check.Cluster.Namespace, Name: name}, m); err != nil {
		return nil, false, errors.Wrap(client.IgnoreNotFound(err), "failed to read the Machine")
	}
	t := targetOf(m)
	return &t, m.Spec.ClusterName == check.Cluster.Name && check.Selector != nil && check.Selector.Matches(labels.Set(m.Labels)), nil
}

func targetOf(m *clusterv1.Machine) healthcheck.Target {
	return healthcheck.Target{
		Object: m, Machine: m, ControlPlane: util.IsControlPlaneMachine(m),
		NodeTarget: workload.Target{Name: m.Status.NodeRef.Name, ProviderID: m.Spec.ProviderID},
		Subject:    requests.OfMachine(requests.Object{Name: m.Name, UID: m.UID}, requests.Object{Name: m.Status.NodeRef.Name}),
	}
}
