// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"maps"

	"github.com/pkg/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=nodehealthchecks,verbs=get;list;watch

// Kind is what NodeHealthChecks are called, in annotations and messages.
const Kind = "NodeHealthCheck"

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
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, errors.Wrap(err, "failed to read the other checks")
	}
	var all []healthcheck.Claim
	for i := range list.Items {
		if other := &list.Items[i]; other.UID != check.Object.GetUID() && c.Cluster(other) == check.Cluster {
			all = append(all, c.claimOf(other))
		}
	}
	return all, nil
}

func (c Claimant) claimOf(check *remedyv1.NodeHealthCheck) healthcheck.Claim {
	// Without a selector it takes only Nodes that do not belong to the control plane.
	selector, workersOnly := labels.Everything(), check.Spec.Selector == nil
	if !workersOnly {
		var err error
		if selector, err = check.Spec.Selector.Labels(); err != nil {
			selector = labels.Nothing()
		}
	}
	claim := healthcheck.Claim{
		Claim: remediation.Claim{
			Rank: remediation.NodeHealthCheck, Name: check.Name, Observes: c.Observe || check.Spec.Mode == remedyv1.ObserveMode,
		},
		Title: Kind + " " + check.Name, Check: requests.Check{Kind: Kind, Name: check.Name}, Deleting: !check.DeletionTimestamp.IsZero(),
		Selects: func(t *healthcheck.Target) bool {
			node := t.Reading.Node
			return node != nil && (!workersOnly || !workload.IsControlPlaneNode(node)) && selector.Matches(labels.Set(node.Labels))
		},
		InFlight: map[string]bool{},
	}
	for name := range check.Status.InFlightRemediations {
		claim.InFlight[name] = true
	}
	return claim
}

// Object is an empty NodeHealthCheck.
func (Claimant) Object() client.Object { return &remedyv1.NodeHealthCheck{} }

// Cluster is the one of its Nodes.
func (Claimant) Cluster(check client.Object) client.ObjectKey {
	ref := check.(*remedyv1.NodeHealthCheck).Spec.ClusterRef
	if ref == nil {
		return workload.ManagementCluster
	}
	return client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
}

// Changes leaves out what other checks do not read. Of its status they read which Nodes it remediates.
func (Claimant) Changes() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*remedyv1.NodeHealthCheck), e.ObjectNew.(*remedyv1.NodeHealthCheck)
		return healthcheck.CheckChanged(before, after) ||
			!maps.EqualFunc(before.Status.InFlightRemediations, after.Status.InFlightRemediations, func(_, _ metav1.Time) bool { return true })
	}}
}
