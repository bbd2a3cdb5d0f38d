// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"math"
	"time"

	"github.com/pkg/errors"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// turnOf is what a Lease says. Without a Lease it is nobody's turn.
func turnOf(lease *coordinationv1.Lease, holder string) remediation.Lease {
	turn := remediation.Lease{Used: true}
	if lease == nil {
		return turn
	}
	turn.Holder = ptr.Deref(lease.Spec.HolderIdentity, "")
	turn.Ours = turn.Holder == holder
	if lease.Spec.RenewTime != nil {
		turn.Until = lease.Spec.RenewTime.Add(time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second)
	}
	return turn
}

// takeTurn takes the Lease as it was seen, or not at all.
func (v *visit) takeTurn(ctx context.Context, until time.Time) error {
	api, err := v.cluster().Client(ctx)
	if err != nil {
		return err
	}
	spec := coordinationv1.LeaseSpec{
		HolderIdentity:       ptr.To(identity(v.seen.check).String()),
		AcquireTime:          &metav1.MicroTime{Time: v.now},
		RenewTime:            &metav1.MicroTime{Time: v.now},
		LeaseDurationSeconds: ptr.To(seconds(until.Sub(v.now))),
	}
	if v.turn == nil {
		taken := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: workload.TurnKey.Namespace, Name: workload.TurnKey.Name}, Spec: spec}
		if err := api.Create(ctx, taken); err != nil {
			return errors.Wrap(err, "failed to take the turn at the control plane")
		}
		v.turn = taken
		return nil
	}
	// The version that was seen goes with it: whoever was faster has the turn.
	taken := v.turn.DeepCopy()
	taken.Spec = spec
	if err := api.Update(ctx, taken); err != nil {
		return errors.Wrap(err, "failed to take the turn at the control plane")
	}
	v.turn = taken
	return nil
}

// releaseTurn gives the turn to others, if it is still ours.
func (v *visit) releaseTurn(ctx context.Context) error {
	if v.turn == nil {
		return nil
	}
	api, err := v.cluster().Client(ctx)
	if err != nil {
		return err
	}
	err = api.Delete(ctx, v.turn, client.Preconditions{UID: &v.turn.UID, ResourceVersion: &v.turn.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return errors.Wrap(err, "failed to give the turn at the control plane to others")
	}
	// They were woken when the request went, and saw that it was still our turn.
	for i := range v.seen.rivals {
		v.r.Requests.Wake(v.seen.rivals[i].identity)
	}
	return nil
}

// seconds are whole ones, and never too few.
func seconds(d time.Duration) int32 {
	return int32(min(math.Ceil(d.Seconds()), math.MaxInt32))
}
