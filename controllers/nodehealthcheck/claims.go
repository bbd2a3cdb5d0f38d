// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"maps"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
)

// Claimant reads which NodeHealthChecks may be responsible for the Nodes of a Cluster.
type Claimant struct {
	// Observe: the manager only observes.
	Observe bool
}

// Claims are those of the NodeHealthChecks of a Cluster.
func (c Claimant) Claims(
	ctx context.Context, reader client.Reader, check *healthcheck.Check, _ *clusterv1.Cluster,
) ([]healthcheck.Claim, error) {
	list := &remedyv1.NodeHealthCheckList{}
	if err := reader.List(ctx, list, inCluster(check.Cluster)...); err != nil {
		return nil, errors.Wrap(err, "failed to read the other checks")
	}
	return healthcheck.ClaimsOf(list.Items, check, c.claimOf), nil
}

// inCluster finds the checks of the Nodes of a cluster in the cache.
func inCluster(cluster client.ObjectKey) []client.ListOption {
	return []client.ListOption{client.MatchingFields{healthcheck.ByCluster: cluster.String()}, client.UnsafeDisableDeepCopy}
}

// claimOf is that of a check of Nodes.
func (c Claimant) claimOf(object *remedyv1.NodeHealthCheck) healthcheck.Claim {
	check := CheckOf(object)
	claim := check.Claim
	claim.Observes = c.Observe || check.Policy.Observe
	inFlight := make(map[string]bool, len(check.InFlight))
	for _, name := range check.InFlight {
		inFlight[name] = true
	}
	return healthcheck.Claim{
		Claim: claim, Title: check.Title(), Check: check.ID, Deleting: !object.DeletionTimestamp.IsZero(), InFlight: inFlight,
		Namespaces: check.Namespaces(), Label: check.RequestLabel(),
		Selects: func(t *healthcheck.Target) bool {
			return t.Reading.Node != nil && check.Selector != nil && check.Selector.Matches(labels.Set(t.Reading.Node.Labels))
		},
	}
}

// Object is an empty NodeHealthCheck.
func (Claimant) Object() client.Object { return &remedyv1.NodeHealthCheck{} }

// Cluster is the one of its Nodes.
func (Claimant) Cluster(check client.Object) client.ObjectKey {
	return clusterKey(&check.(*remedyv1.NodeHealthCheck).Spec)
}

// Changes leaves out what other checks do not read. Of its status they read which Nodes it remediates.
func (Claimant) Changes() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*remedyv1.NodeHealthCheck), e.ObjectNew.(*remedyv1.NodeHealthCheck)
		return !before.DeletionTimestamp.Equal(after.DeletionTimestamp) || before.Spec.Mode != after.Spec.Mode ||
			!equality.Semantic.DeepEqual(before.Spec.Selector, after.Spec.Selector) ||
			!maps.EqualFunc(before.Status.InFlightRemediations, after.Status.InFlightRemediations, func(_, _ metav1.Time) bool { return true })
	}}
}
