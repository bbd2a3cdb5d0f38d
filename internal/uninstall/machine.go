// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"

	"github.com/pkg/errors"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
)

// unmark takes back what the owner of a Machine was asked by us, where it has not answered yet. It comes before the signature goes that says whose mark
// it is: whoever is interrupted in between finds it again.
func (c *Cluster) unmark(ctx context.Context, f *found) error {
	err := retry.RetryOnConflict(busy, func() error {
		m := &clusterv1.Machine{}
		if err := c.api.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: f.Name}, m); err != nil {
			return client.IgnoreNotFound(err)
		}
		if m.UID != f.UID || notes.Author(m.Annotations) == "" {
			return nil
		}
		before := m.DeepCopy()
		report.ClearMachine(m)
		return c.api.Status().Patch(ctx, m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	return errors.Wrapf(client.IgnoreNotFound(err), "failed to take back the mark of Machine %s/%s", f.Namespace, f.Name)
}
