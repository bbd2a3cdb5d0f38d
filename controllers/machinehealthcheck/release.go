// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"slices"
	"strings"

	"github.com/pkg/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
)

// release lets the check go when nothing of it is left anywhere. Who keeps it has to be sure of that: a mark that nobody takes back lets the owner
// of a Machine delete it, long after the check has gone. So this is looked for past the caches, which may not have seen our own last writes yet.
func (v *visit) release(ctx context.Context) error {
	why := v.seen.unseen()
	news := v.record.finalizerReason != why
	v.record.finalizerReason = why
	if why != "" {
		// There may be requests that cannot be seen, and somebody has to clean them up. People wonder about a check that does not go.
		if news {
			ctrl.LoggerFrom(ctx).Info("The check keeps its finalizer: there may be requests of it that cannot be seen", "reason", why)
		}
		return nil
	}
	left, err := v.leavesBehind(ctx)
	if err != nil {
		return err
	}
	if left {
		// It is on its way to us.
		v.seen.askAgain(v.clock().Add(conflictTime))
		return nil
	}
	return v.patchCheck(ctx, func(check *remedyv1.MachineHealthCheck) {
		controllerutil.RemoveFinalizer(check, remedyv1.CleanupFinalizer)
		check.Annotations, _ = notes.OfRequestKinds(nil).On(check.Annotations)
	})
}

// unseen is why there may be requests that were not seen; empty if there are none. It has the same order each time: what is no news is not told.
func (s *seen) unseen() string { return strings.Join(slices.Sorted(slices.Values(s.unread)), "; ") }

// leavesBehind says whether a Machine is signed by the check, or there is a request of it. Both are beside the check: it does not matter whether the
// Cluster is still there, or can be reached.
func (v *visit) leavesBehind(ctx context.Context) (bool, error) {
	now := &seen{check: v.check}
	if err := now.readMachines(ctx, v.r.Live, client.MatchingLabels{clusterv1.ClusterNameLabel: v.check.Spec.ClusterName}); err != nil {
		return false, err
	}
	signed := func(m *clusterv1.Machine) bool { return notes.Author(m.Annotations) == author(v.check) }
	if slices.ContainsFunc(now.machines, signed) || slices.ContainsFunc(now.unselected, signed) {
		return true, nil
	}
	found, err := v.r.Requests.LiveOf(ctx, identity(v.check), v.seen.kinds...)
	return len(found) > 0, errors.Wrap(err, "failed to read the requests again")
}
