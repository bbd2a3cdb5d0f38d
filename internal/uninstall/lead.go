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
)

// skew is by how much the clocks of two machines may differ.
const skew = 5 * time.Minute

// leads are the Leases by which our managers elect a leader, one in each namespace in which one was installed.
func (c *Cluster) leads(ctx context.Context) ([]coordinationv1.Lease, error) {
	list := &coordinationv1.LeaseList{}
	err := c.api.List(ctx, list, client.MatchingFields{"metadata.name": settings.LeaseName})
	return list.Items, errors.Wrap(err, "failed to see whether a manager of ours still leads")
}

// awaitLeads waits until nobody leads any more, and deletes the Leases. A manager that stops in an orderly way gives its lead up; one that was lost writes
// until its Lease is over; and one that runs outside of a Deployment renews it, and would undo what is done here.
func (l *Leaver) awaitLeads(ctx context.Context) error {
	leads, err := l.Management.leads(ctx)
	if err != nil {
		return err
	}
	for i := range leads {
		if !l.DryRun {
			if err := l.awaitLead(ctx, &leads[i]); err != nil {
				return err
			}
		}
		if err := l.drop(ctx, l.Management, &leads[i]); err != nil {
			return errors.Wrap(err, "failed to delete the Lease of our manager")
		}
	}
	return nil
}

// awaitLead waits until a Lease was given up, or has not been renewed for as long as it lasts. That is measured here: clocks differ.
func (l *Leaver) awaitLead(ctx context.Context, lease *coordinationv1.Lease) error {
	holder, renewed, seen := "", lease.Spec.RenewTime, l.Clock.Now()
	err := wait.PollUntilContextTimeout(ctx, l.Look, l.Stop, true, func(context.Context) (bool, error) {
		if err := l.Management.api.Get(ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
			return true, client.IgnoreNotFound(err)
		}
		holder = ptr.Deref(lease.Spec.HolderIdentity, "")
		if !lease.Spec.RenewTime.Equal(renewed) {
			renewed, seen = lease.Spec.RenewTime, l.Clock.Now()
		}
		return holder == "" || l.over(&lease.Spec, seen), nil
	})
	if wait.Interrupted(err) {
		return errors.Errorf("a manager of ours still leads in namespace %s, as %q: stop it, wherever it runs, and run this again", lease.Namespace, holder)
	}
	return errors.Wrap(err, "failed to see whether a manager of ours still leads")
}

// over says whether nobody can lead by a Lease any more that has not been renewed since it was seen.
func (l *Leaver) over(lease *coordinationv1.LeaseSpec, seen time.Time) bool {
	lasts, now := time.Duration(ptr.Deref(lease.LeaseDurationSeconds, 0))*time.Second, l.Clock.Now()
	return now.Sub(seen) > lasts || lease.RenewTime == nil || now.Sub(lease.RenewTime.Time) > lasts+skew
}
