// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"math"
	"time"

	"github.com/pkg/errors"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ControlPlaneLease is the key of the Lease that one check holds while it remediates a control plane. The Lease is in the workload cluster,
// where the checks of every management cluster find it.
var ControlPlaneLease = client.ObjectKey{Namespace: "kube-system", Name: "remedy-control-plane"}

// LeaseHolder returns the holder of a Lease; empty without a Lease.
func LeaseHolder(lease *coordinationv1.Lease) string {
	if lease == nil {
		return ""
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// LeaseExpiry returns when a Lease expires unless its holder renews it; zero if it was never renewed.
func LeaseExpiry(spec *coordinationv1.LeaseSpec) time.Time {
	if spec.RenewTime == nil {
		return time.Time{}
	}
	return spec.RenewTime.Add(time.Duration(ptr.Deref(spec.LeaseDurationSeconds, 0)) * time.Second)
}

// AcquireLease acquires a Lease in the version that was read, which is nil if there was none. It fails with a conflict if another holder was
// faster.
func AcquireLease(
	ctx context.Context, api client.Writer, key client.ObjectKey, lease *coordinationv1.Lease, holder string, now, until time.Time,
) (*coordinationv1.Lease, error) {
	spec := coordinationv1.LeaseSpec{
		HolderIdentity:       ptr.To(holder),
		AcquireTime:          &metav1.MicroTime{Time: now},
		RenewTime:            &metav1.MicroTime{Time: now},
		LeaseDurationSeconds: ptr.To(int32(min(math.Ceil(until.Sub(now).Seconds()), math.MaxInt32))),
	}
	if lease == nil {
		acquired := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: spec}
		return acquired, errors.Wrapf(api.Create(ctx, acquired), "failed to create Lease %s", key)
	}
	acquired := lease.DeepCopy()
	acquired.Spec = spec
	return acquired, errors.Wrapf(api.Update(ctx, acquired), "failed to acquire Lease %s", key)
}

// DeleteLease deletes a Lease in the version that was read. It fails with a conflict if the Lease has changed since.
func DeleteLease(ctx context.Context, api client.Writer, lease *coordinationv1.Lease) error {
	return api.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion})
}
