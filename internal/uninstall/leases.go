// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"time"

	"github.com/pkg/errors"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
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

// deleteControlPlaneLease deletes the Lease in a workload cluster that serialises the remediations of its control plane, unless a check of
// another management cluster holds it: two remediations at the same time can cost the quorum of etcd.
func (u *Uninstaller) deleteControlPlaneLease(ctx context.Context, c *Cluster, cluster *clusterv1.Cluster) error {
	err := retry.RetryOnConflict(conflicts, func() error {
		lease := &coordinationv1.Lease{}
		if err := c.client.Get(ctx, workload.ControlPlaneLease, lease); err != nil {
			return err
		}
		removable, err := u.isRemovable(ctx, &lease.Spec, cluster)
		switch {
		case err != nil:
			return err
		case removable:
			return u.deleteLease(ctx, c, lease)
		}
		u.leave("%s: Lease %s is held by %q until %s. If another management cluster monitors this control plane, keep the Lease. "+
			"Otherwise, run the command again after that time", c.name, workload.ControlPlaneLease, *lease.Spec.HolderIdentity,
			workload.LeaseExpiry(&lease.Spec).UTC().Format(time.RFC3339))
		return nil
	})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return errors.Wrapf(err, "failed to delete Lease %s", workload.ControlPlaneLease)
}

// isRemovable returns true if a control plane's Lease has expired, has no holder, or if its holder is a check of this management cluster.
// After a move or a restore another management cluster can have a check of the same name, but only that one renews the Lease after the
// managers have stopped here.
func (u *Uninstaller) isRemovable(ctx context.Context, lease *coordinationv1.LeaseSpec, cluster *clusterv1.Cluster) (bool, error) {
	holder := ptr.Deref(lease.HolderIdentity, "")
	if holder == "" || u.expired(lease) {
		return true, nil
	}
	id, valid := requests.ParseCheck(holder)
	if !valid || lease.RenewTime.After(u.stopped) {
		return false, nil
	}
	check := &unstructured.Unstructured{}
	check.SetGroupVersionKind(remedyv1.GroupVersion.WithKind(id.Kind))
	if id.Kind == string(metrics.InTreeMachineHealthCheck) {
		check.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineHealthCheck"))
	}
	err := u.Management.client.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Name}, check)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	namespace := id.Namespace
	name, found, _ := unstructured.NestedString(check.Object, "spec", "clusterName")
	if !found {
		namespace, _, _ = unstructured.NestedString(check.Object, "spec", "clusterRef", "namespace")
		name, _, _ = unstructured.NestedString(check.Object, "spec", "clusterRef", "name")
	}
	return namespace == cluster.Namespace && name == cluster.Name, errors.Wrapf(err, "failed to read %s, which holds the Lease", holder)
}
