// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"time"

	"github.com/pkg/errors"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
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
func (u *Uninstaller) endLeaderElection(ctx context.Context, name string) error {
	leases := &coordinationv1.LeaseList{}
	if err := u.Management.client.List(ctx, leases, client.MatchingFields{"metadata.name": name}); err != nil {
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

// deleteRemediationLeases deletes the Leases that checks hold in a cluster while they remediate: that of the control plane, and those of
// Nodes. The key is that of the Cluster; empty for the management cluster.
func (u *Uninstaller) deleteRemediationLeases(ctx context.Context, c *Cluster, cluster client.ObjectKey) error {
	if err := u.deleteRemediationLease(ctx, c, cluster, workload.ControlPlaneLease, "this control plane"); err != nil {
		return err
	}
	ofNodes := &coordinationv1.LeaseList{}
	err := c.client.List(ctx, ofNodes, client.InNamespace(workload.NodeLeaseKey("").Namespace))
	if err != nil && !notServed(err) {
		return errors.Wrap(err, "failed to list the Leases of Nodes")
	}
	for i := range ofNodes.Items {
		key := client.ObjectKeyFromObject(&ofNodes.Items[i])
		if !ofNodeHealthCheck(&ofNodes.Items[i].Spec) {
			continue
		}
		if err := u.deleteRemediationLease(ctx, c, cluster, key, "this Node"); err != nil {
			return err
		}
	}
	return nil
}

func notServed(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// ofNodeHealthCheck returns true if a NodeHealthCheck holds a Lease. Operators of medik8s hold the other Leases of Nodes.
func ofNodeHealthCheck(lease *coordinationv1.LeaseSpec) bool {
	id, valid := requests.ParseHolder(ptr.Deref(lease.HolderIdentity, ""))
	return valid && id.Kind == string(metrics.NodeHealthCheck) && id.Namespace == ""
}

// deleteRemediationLease deletes a Lease, unless a check of another management cluster holds it: two remediations of a control plane at
// the same time can cost the quorum of etcd.
func (u *Uninstaller) deleteRemediationLease(ctx context.Context, c *Cluster, cluster, key client.ObjectKey, target string) error {
	err := retry.RetryOnConflict(conflicts, func() error {
		lease := &coordinationv1.Lease{}
		if err := c.client.Get(ctx, key, lease); err != nil {
			return err
		}
		// Another component can have acquired the Lease of a Node by now.
		if key != workload.ControlPlaneLease && !ofNodeHealthCheck(&lease.Spec) {
			return nil
		}
		removable, err := u.isRemovable(ctx, c, &lease.Spec, cluster)
		switch {
		case err != nil:
			return err
		case removable:
			return u.deleteLease(ctx, c, lease)
		}
		u.leave("%s: Lease %s is held by %q until %s. If another management cluster monitors %s, keep the Lease. "+
			"Otherwise, run the command again after that time", c.name, key, *lease.Spec.HolderIdentity,
			workload.LeaseExpiry(&lease.Spec).UTC().Format(time.RFC3339), target)
		return nil
	})
	if err == nil || notServed(err) {
		return nil
	}
	return errors.Wrapf(err, "failed to delete Lease %s", key)
}

// isRemovable returns true if a Lease in a cluster has expired, has no holder, or if its holder is a check of this management cluster.
// After a move or a restore another management cluster can have a check of the same name, but only that one renews the Lease after the
// managers have stopped here.
func (u *Uninstaller) isRemovable(
	ctx context.Context, c *Cluster, lease *coordinationv1.LeaseSpec, cluster client.ObjectKey,
) (bool, error) {
	holder := ptr.Deref(lease.HolderIdentity, "")
	if holder == "" || u.expired(lease) {
		return true, nil
	}
	id, valid := requests.ParseHolder(holder)
	if !valid || lease.RenewTime.After(u.stopped) {
		return false, nil
	}
	check := &unstructured.Unstructured{}
	check.SetGroupVersionKind(remedyv1.GroupVersion.WithKind(id.Kind))
	if id.Kind == string(metrics.InTreeMachineHealthCheck) {
		check.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineHealthCheck"))
	}
	err := u.Management.client.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Name}, check)
	if notServed(err) {
		return false, nil
	}
	if err != nil {
		return false, errors.Wrapf(err, "failed to read %s, which holds the Lease", holder)
	}
	monitored := client.ObjectKey{Namespace: id.Namespace}
	name, found, _ := unstructured.NestedString(check.Object, "spec", "clusterName")
	if monitored.Name = name; !found {
		monitored.Namespace, _, _ = unstructured.NestedString(check.Object, "spec", "clusterRef", "namespace")
		monitored.Name, _, _ = unstructured.NestedString(check.Object, "spec", "clusterRef", "name")
	}
	if holder != id.Holder(monitored) {
		return false, nil
	}
	if monitored == cluster {
		return true, nil
	}
	// A check without a Cluster monitors the management cluster, which can be a workload cluster of itself.
	return monitored == client.ObjectKey{} && u.isManagement(ctx, c), nil
}

// isManagement returns true if a cluster is the management cluster. If that cannot be read, it is not.
func (u *Uninstaller) isManagement(ctx context.Context, c *Cluster) bool {
	here, there := &corev1.Namespace{}, &corev1.Namespace{}
	key := client.ObjectKey{Name: metav1.NamespaceSystem}
	return c == u.Management ||
		u.Management.client.Get(ctx, key, here) == nil && c.client.Get(ctx, key, there) == nil && here.UID == there.UID
}
