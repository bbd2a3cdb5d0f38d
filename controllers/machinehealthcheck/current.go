// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// current is a check with its Cluster as the cache has them, or live, where the cache is older than what this process has written or read last: who
// compares with an older status would take an untrue one for a true one, and no later event would correct it. After a start everything is read live,
// as another process may just have written.
func (r *Reconciler) current(ctx context.Context, record *record, check *remedyv1.MachineHealthCheck, cluster *clusterv1.Cluster) (*remedyv1.MachineHealthCheck, *clusterv1.Cluster, error) {
	if record.uid == check.UID && record.version != "" {
		if order, err := resourceversion.CompareResourceVersion(check.ResourceVersion, record.version); err == nil && order >= 0 {
			return check, cluster, nil
		}
	}
	live, at, err := r.Checks.find(ctx, r.Live, client.ObjectKeyFromObject(check))
	if err != nil {
		return nil, nil, err
	}
	record.uid, record.version = live.UID, live.ResourceVersion
	return live, at, nil
}

// tellStatus writes the status of a check, if anything in it has changed.
func (v *visit) tellStatus(ctx context.Context, status remedyv1.MachineHealthCheckStatus) error {
	status = v.r.Checks.carries(&v.check.Status, &status)
	if equality.Semantic.DeepEqual(v.check.Status, status) {
		return nil
	}
	after := v.check.DeepCopy()
	after.Status = status
	err := v.r.Checks.writeStatus(ctx, v.r.Client, v.check, after)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		// It may have happened all the same.
		v.record.version = ""
		return err
	}
	v.record.version = after.ResourceVersion
	v.tellConditions(ctx, v.check.Status.Conditions, after.Status.Conditions)
	v.check = after
	return nil
}
