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
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// dropTurn deletes the Lease by which checks take turns at a control plane, of whatever management cluster they are. As long as it is the turn of one of
// another, it stays: two remediations of one control plane at a time can cost its quorum.
func (l *Leaver) dropTurn(ctx context.Context, c *Cluster, cluster *clusterv1.Cluster) error {
	var err error
	for range tries {
		lease := &coordinationv1.Lease{}
		if err = c.api.Get(ctx, workload.ControlPlaneLease, lease); err != nil {
			break
		}
		until, runs := l.runs(&lease.Spec)
		ours := false
		if runs {
			if ours, err = l.holds(ctx, cluster, &lease.Spec); err != nil {
				break
			}
		}
		if runs && !ours {
			l.miss("%s: the Lease %s is held by %q until %s, and not by a check of this management cluster that has just stopped: where another management cluster "+
				"looks after the same control plane, it is to stay, and otherwise run this again when it is over", c.name, workload.ControlPlaneLease, *lease.Spec.HolderIdentity, until.UTC().Format(time.RFC3339))
			return nil
		}
		if err = l.drop(ctx, c, lease); !apierrors.IsConflict(err) {
			break
		}
	}
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return errors.Wrapf(err, "failed to delete the Lease %s", workload.ControlPlaneLease)
}

// runs says whether it may still be somebody's turn, and until when. Clocks differ.
func (l *Leaver) runs(turn *coordinationv1.LeaseSpec) (until time.Time, may bool) {
	if ptr.Deref(turn.HolderIdentity, "") == "" || turn.RenewTime == nil {
		return time.Time{}, false
	}
	until = turn.RenewTime.Add(time.Duration(ptr.Deref(turn.LeaseDurationSeconds, 0)) * time.Second)
	return until, !l.Clock.Now().After(until.Add(skew))
}

// holds says whether it is the turn of a check of this management cluster. Checks of another may have the same names, as after a move or a restored
// backup; but nobody here has renewed anything since our managers have stopped.
func (l *Leaver) holds(ctx context.Context, cluster *clusterv1.Cluster, turn *coordinationv1.LeaseSpec) (bool, error) {
	holder, is := requests.ParseCheck(*turn.HolderIdentity)
	if !is || turn.RenewTime.After(l.stopped) {
		return false, nil
	}
	looksAfter, err := l.clusterOf(ctx, holder)
	return looksAfter == remedyv1.ClusterReference{Namespace: cluster.Namespace, Name: cluster.Name}, errors.Wrapf(err, "failed to read %s, whose turn it is", holder)
}

// clusterOf is the Cluster that a check looks after; none if it is not there.
func (l *Leaver) clusterOf(ctx context.Context, check requests.Check) (remedyv1.ClusterReference, error) {
	key := client.ObjectKey{Namespace: check.Namespace, Name: check.Name}
	var of remedyv1.ClusterReference
	var err error
	switch check.Kind {
	case string(metrics.MachineHealthCheck):
		c := &remedyv1.MachineHealthCheck{}
		err = l.Management.api.Get(ctx, key, c)
		of = remedyv1.ClusterReference{Namespace: check.Namespace, Name: c.Spec.ClusterName}
	case string(metrics.CoreMachineHealthCheck):
		c := &clusterv1.MachineHealthCheck{}
		err = l.Management.api.Get(ctx, key, c)
		of = remedyv1.ClusterReference{Namespace: check.Namespace, Name: c.Spec.ClusterName}
	case string(metrics.NodeHealthCheck):
		c := &remedyv1.NodeHealthCheck{}
		err = l.Management.api.Get(ctx, key, c)
		of = ptr.Deref(c.Spec.ClusterRef, remedyv1.ClusterReference{})
	}
	if meta.IsNoMatchError(err) {
		err = nil
	}
	return of, client.IgnoreNotFound(err)
}

// drop deletes a Lease that is as it was seen.
func (l *Leaver) drop(ctx context.Context, c *Cluster, lease *coordinationv1.Lease) error {
	if !l.DryRun {
		if err := c.api.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion}); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	l.say(c, "Lease", lease.Namespace, lease.Name, "deleted")
	return nil
}
