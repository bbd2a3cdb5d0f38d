// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree

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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/machinehealthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/adoption"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Claimant reads which in-tree checks may be responsible for the same Machines as another check.
type Claimant struct{ Adoption *Adoption }

// Claims are those of the checks of Cluster API of a Cluster.
func (c Claimant) Claims(
	ctx context.Context, reader client.Reader, check *healthcheck.Check, cluster *clusterv1.Cluster,
) ([]healthcheck.Claim, error) {
	list := &clusterv1.MachineHealthCheckList{}
	if err := reader.List(ctx, list, healthcheck.InCluster(check.Cluster)...); err != nil {
		return nil, errors.Wrap(err, "failed to read the other checks")
	}
	var all []healthcheck.Claim
	for i := range list.Items {
		if other := &list.Items[i]; other.UID != check.Object.GetUID() {
			all = append(all, c.Adoption.claimOf(other, cluster))
		}
	}
	return all, nil
}

// claimOf returns the claim of an in-tree check. The pause of a check of another instance shows whether its flag selects the check.
func (a *Adoption) claimOf(core *clusterv1.MachineHealthCheck, cluster *clusterv1.Cluster) healthcheck.Claim {
	f := a.facts(core, cluster)
	f.Wanted = f.Wanted || !a.Responsible(core) && f.Pause == adoption.RemedyPause
	if !adopted(f) {
		// The in-tree controller is responsible for its Machines until the check no longer exists.
		selector := selectorOf(core)
		return healthcheck.Claim{
			Claim: remediation.Claim{Rank: remediation.ForeignCheck, Namespace: core.Namespace, Name: core.Name},
			Title: "machinehealthchecks.cluster.x-k8s.io " + core.Namespace + "/" + core.Name, InTree: true,
			Selects: func(t *healthcheck.Target) bool {
				return selector != nil && t.Machine != nil && selector.Matches(labels.Set(t.Machine.Labels))
			},
		}
	}
	claim := machinehealthcheck.ClaimOf(checkOf(core), a.Observe)
	// One that is being deleted is the manager's to clean up. Unless the in-tree controller has left it to the manager, that one is
	// responsible until it no longer exists.
	if claim.InTree = claim.Deleting && !a.Replace && (f.Pause != adoption.RemedyPause || !f.ReportsPaused); claim.InTree {
		claim.Deleting, claim.Rank = false, remediation.ForeignCheck
	}
	return claim
}

// AdoptsRequest reads live whether a request can only be one of this check: the in-tree controller does not name the check of a request.
// Of the adopted checks, the one with the template of the request adopts it, also if another one is responsible for the Machine.
func (a *Adoption) AdoptsRequest(
	ctx context.Context, check *healthcheck.Check, cluster *clusterv1.Cluster, target *healthcheck.Target,
) (bool, error) {
	list := &clusterv1.MachineHealthCheckList{}
	if err := a.Live.List(ctx, list, client.InNamespace(check.Cluster.Namespace)); err != nil {
		return false, errors.Wrap(err, "failed to read the other checks")
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID == check.Object.GetUID() || other.Spec.ClusterName != check.Cluster.Name {
			continue
		}
		if claim := a.claimOf(other, cluster); claim.InTree && claim.Selects(target) {
			return false, nil
		}
	}
	return true, nil
}

// Object is an empty check of Cluster API.
func (Claimant) Object() client.Object { return &clusterv1.MachineHealthCheck{} }

// Cluster is the one of its Machines.
func (Claimant) Cluster(check client.Object) client.ObjectKey {
	return client.ObjectKey{Namespace: check.GetNamespace(), Name: check.(*clusterv1.MachineHealthCheck).Spec.ClusterName}
}

// Changes leaves out what other checks do not read: a check may be another controller's than before.
func (Claimant) Changes() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*clusterv1.MachineHealthCheck), e.ObjectNew.(*clusterv1.MachineHealthCheck)
		return !before.DeletionTimestamp.Equal(after.DeletionTimestamp) || before.Spec.ClusterName != after.Spec.ClusterName ||
			!equality.Semantic.DeepEqual(before.Spec.Selector, after.Spec.Selector) ||
			pauseReportChanged(before, after) || pauseOf(before) != pauseOf(after) ||
			before.Annotations[remedyv1.AdoptAnnotation] != after.Annotations[remedyv1.AdoptAnnotation]
	}}
}
