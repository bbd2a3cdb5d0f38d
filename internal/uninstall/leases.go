// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"time"

	"github.com/pkg/errors"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/settings"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// clockSkew is the largest difference between the clocks of two hosts.
const clockSkew = 5 * time.Minute

func (u *Uninstaller) expired(lease *coordinationv1.LeaseSpec) bool {
	return u.Clock.Now().After(workload.LeaseExpiry(lease).Add(clockSkew))
}

func (u *Uninstaller) deleteLease(ctx context.Context, c *Cluster, lease *coordinationv1.Lease) error {
	if !u.DryRun {
		if err := workload.DeleteLease(ctx, c.client, lease); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	u.changed(c, "Lease", lease, "deleted")
	return nil
}

// endLeaderElection waits in every namespace until no manager is leader, and deletes the Lease. A manager outside of a Deployment renews
// its Lease, and would undo the uninstall.
func (u *Uninstaller) endLeaderElection(ctx context.Context) error {
	leases := &coordinationv1.LeaseList{}
	if err := u.Management.client.List(ctx, leases, client.MatchingFields{"metadata.name": settings.LeaseName}); err != nil {
		return errors.Wrap(err, "failed to list the Leases of the leader election")
	}
	for i := range leases.Items {
		lease := &leases.Items[i]
		if !u.DryRun {
			if err := u.awaitNoLeader(ctx, lease); err != nil {
				return err
			}
		}
		if err := u.deleteLease(ctx, u.Management, lease); err != nil {
			return errors.Wrapf(err, "failed to delete Lease %s/%s", lease.Namespace, lease.Name)
		}
	}
	return nil
}

// awaitNoLeader waits until a Lease has no holder, or its holder has not renewed it for its duration. The duration is measured by the local
// clock.
func (u *Uninstaller) awaitNoLeader(ctx context.Context, lease *coordinationv1.Lease) error {
	holder, renewed, since := "", lease.Spec.RenewTime, u.Clock.Now()
	err := wait.PollUntilContextTimeout(ctx, u.Poll, u.Stop, true, func(context.Context) (bool, error) {
		if err := u.Management.client.Get(ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
			return true, client.IgnoreNotFound(err)
		}
		holder = ptr.Deref(lease.Spec.HolderIdentity, "")
		if !lease.Spec.RenewTime.Equal(renewed) {
			renewed, since = lease.Spec.RenewTime, u.Clock.Now()
		}
		duration := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
		return holder == "" || u.expired(&lease.Spec) || u.Clock.Now().Sub(since) > duration, nil
	})
	if wait.Interrupted(err) {
		return errors.Errorf("manager %q still holds Lease %s/%s: stop it and run the command again", holder, lease.Namespace, lease.Name)
	}
	return errors.Wrapf(err, "failed to read Lease %s/%s", lease.Namespace, lease.Name)
}
