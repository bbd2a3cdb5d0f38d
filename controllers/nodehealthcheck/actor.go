// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// actor writes annotations of Nodes in their cluster, each time to the version that was read. A check sets no conditions on Nodes.
type actor struct{ clusters *workload.Clusters }

// Annotate sets annotations.
func (a actor) Annotate(ctx context.Context, cluster client.ObjectKey, object client.Object, n notes.Notes) (client.Object, error) {
	api, err := a.clusters.Get(cluster).Client(ctx)
	if err != nil {
		return nil, err
	}
	// A Node of the cache lacks fields. A merge patch leaves them alone.
	before := object.(*corev1.Node)
	after := before.DeepCopy()
	after.Annotations, _ = n.Apply(before.Annotations)
	if err := api.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, err
	}
	return workload.Strip(after), nil
}

// Reported is always true.
func (actor) Reported(client.Object, *explain.Facts, *remediation.Check) bool { return true }

// Report changes nothing.
func (actor) Report(
	_ context.Context, object client.Object, _ *explain.Facts, _ *remediation.Check, _ time.Time,
) (client.Object, error) {
	return object, nil
}

// CancelOwnerRemediation changes nothing: a Node has no owner that remediates it.
func (actor) CancelOwnerRemediation(_ context.Context, object client.Object) (client.Object, error) {
	return object, nil
}

// ClearConditions changes nothing.
func (actor) ClearConditions(_ context.Context, object client.Object) (client.Object, error) {
	return object, nil
}
