// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
)

// Claimant reads which MachineHealthChecks may be responsible for the same Machines as another check.
type Claimant struct {
	// Observe: the manager only observes.
	Observe bool
}

// Claims are those of the MachineHealthChecks of a Cluster.
func (c Claimant) Claims(
	ctx context.Context, reader client.Reader, check *healthcheck.Check, _ *clusterv1.Cluster,
) ([]healthcheck.Claim, error) {
	list := &remedyv1.MachineHealthCheckList{}
	if err := reader.List(ctx, list, healthcheck.InCluster(check.Cluster)...); err != nil {
		return nil, errors.Wrap(err, "failed to read the other checks")
	}
	return healthcheck.ClaimsOf(list.Items, check, func(other *remedyv1.MachineHealthCheck) healthcheck.Claim {
		return ClaimOf(CheckOf(other), c.Observe)
	}), nil
}

// ClaimOf is that of a check of Machines.
func ClaimOf(check *healthcheck.Check, observe bool) healthcheck.Claim {
	claim := check.Claim
	claim.Observes = observe || check.Policy.Observe
	selector := check.Selector
	return healthcheck.Claim{
		Claim: claim, Title: check.Title(), Check: check.ID, MarkedBy: check.MarkedBy(), Deleting: !check.Object.GetDeletionTimestamp().IsZero(),
		Selects: func(t *healthcheck.Target) bool {
			return selector != nil && t.Machine != nil && selector.Matches(labels.Set(t.Machine.Labels))
		},
	}
}

// Object is an empty MachineHealthCheck.
func (Claimant) Object() client.Object { return &remedyv1.MachineHealthCheck{} }

// Cluster is the one of its Machines.
func (Claimant) Cluster(check client.Object) client.ObjectKey {
	return client.ObjectKey{Namespace: check.GetNamespace(), Name: check.(*remedyv1.MachineHealthCheck).Spec.ClusterName}
}

// Changes leaves out what other checks do not read.
func (Claimant) Changes() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*remedyv1.MachineHealthCheck), e.ObjectNew.(*remedyv1.MachineHealthCheck)
		return !before.DeletionTimestamp.Equal(after.DeletionTimestamp) || before.Spec.Mode != after.Spec.Mode ||
			before.Spec.ClusterName != after.Spec.ClusterName || !equality.Semantic.DeepEqual(before.Spec.Selector, after.Spec.Selector)
	}}
}
