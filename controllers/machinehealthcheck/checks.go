// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"time"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// Checks are those of one kind: ours, or Cluster API's. Whoever looks after them sees all of them as ours; only here does it matter what they are.
type Checks interface {
	// kind is what they are called.
	kind() string
	// empty is an object of the kind, to be watched.
	empty() client.Object
	// find reads a check and its Cluster, which is nil if there is none.
	find(ctx context.Context, reader client.Reader, key client.ObjectKey) (*remedyv1.MachineHealthCheck, *clusterv1.Cluster, error)
	// of are all checks of a Cluster, from a cache. They are shared and must not be changed.
	of(ctx context.Context, cache client.Reader, cluster client.ObjectKey) ([]*remedyv1.MachineHealthCheck, error)
	// handover brings a check one step further on its way to us, or back, and says whether it is ours now, and when to look again if nothing happens.
	handover(ctx context.Context, r *Reconciler, key client.ObjectKey, now time.Time) (ours bool, wakeUp time.Time, err error)
	// leave gives a check back that another instance is to act for from now on, as far as this one has acted for it.
	leave(ctx context.Context, r *Reconciler, key client.ObjectKey, now time.Time) error
	// took says whether a check has been taken over by an instance of this filter.
	took(object client.Object, filter string) bool
	// gone forgets a check that is not there any more.
	gone(key client.ObjectKey)
	// write changes a check as it was seen, or not at all. What it has become stands in after.
	write(ctx context.Context, api client.Client, before, after *remedyv1.MachineHealthCheck) error
	// carries is what there is room for of a status; everything else is told elsewhere.
	carries(before, status *remedyv1.MachineHealthCheckStatus) remedyv1.MachineHealthCheckStatus
	writeStatus(ctx context.Context, api client.Client, before, after *remedyv1.MachineHealthCheck) error
}

// Ours are the checks of our own kind.
func Ours() Checks { return ourChecks{} }

type ourChecks struct{}

func (ourChecks) kind() string { return ourKind }

func (ourChecks) empty() client.Object { return &remedyv1.MachineHealthCheck{} }

func (ourChecks) find(ctx context.Context, reader client.Reader, key client.ObjectKey) (*remedyv1.MachineHealthCheck, *clusterv1.Cluster, error) {
	check := &remedyv1.MachineHealthCheck{}
	if err := reader.Get(ctx, key, check); err != nil {
		return nil, nil, errors.Wrap(err, "failed to read the check")
	}
	cluster, err := clusterOf(ctx, reader, client.ObjectKey{Namespace: key.Namespace, Name: check.Spec.ClusterName})
	return check, cluster, err
}

// clusterOf is nil if there is no such Cluster.
func clusterOf(ctx context.Context, reader client.Reader, key client.ObjectKey) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{}
	err := reader.Get(ctx, key, cluster)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return cluster, errors.Wrap(err, "failed to read the Cluster")
}

func (ourChecks) of(ctx context.Context, cache client.Reader, cluster client.ObjectKey) ([]*remedyv1.MachineHealthCheck, error) {
	list := &remedyv1.MachineHealthCheckList{}
	if err := cache.List(ctx, list, inCluster(cluster)...); err != nil {
		return nil, errors.Wrap(err, "failed to read the checks of the Cluster")
	}
	all := make([]*remedyv1.MachineHealthCheck, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, nil
}

// inCluster finds what belongs to a Cluster in a cache.
func inCluster(cluster client.ObjectKey) []client.ListOption {
	return []client.ListOption{client.InNamespace(cluster.Namespace), client.MatchingFields{byCluster: cluster.Name}, client.UnsafeDisableDeepCopy}
}

// handover: nobody else takes care of our own kind.
func (ourChecks) handover(context.Context, *Reconciler, client.ObjectKey, time.Time) (ours bool, wakeUp time.Time, err error) {
	return true, time.Time{}, nil
}

// leave: whoever acts for it finds everything as it is.
func (ourChecks) leave(context.Context, *Reconciler, client.ObjectKey, time.Time) error { return nil }

func (ourChecks) took(client.Object, string) bool { return false }

func (ourChecks) gone(client.ObjectKey) {}

func (ourChecks) write(ctx context.Context, api client.Client, before, after *remedyv1.MachineHealthCheck) error {
	return errors.Wrap(api.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})), "failed to write to the check")
}

func (ourChecks) carries(_, status *remedyv1.MachineHealthCheckStatus) remedyv1.MachineHealthCheckStatus {
	return *status
}

func (ourChecks) writeStatus(ctx context.Context, api client.Client, before, after *remedyv1.MachineHealthCheck) error {
	return errors.Wrap(api.Status().Patch(ctx, after, client.MergeFrom(before)), "failed to write the status of the check")
}
