// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
)

// speaks says whether the status of a check says anything of ours. Others may have conditions of the same names on checks that we have never touched.
func speaks(check *clusterv1.MachineHealthCheck) bool {
	return meta.FindStatusCondition(check.Status.Conditions, remedyv1.TakenOverCondition) != nil
}

// hush takes what only we say out of the status of a check of Cluster API.
func (c *Cluster) hush(ctx context.Context, which *metav1.ObjectMeta) error {
	err := retry.RetryOnConflict(busy, func() error {
		check := &clusterv1.MachineHealthCheck{}
		if err := c.api.Get(ctx, client.ObjectKey{Namespace: which.Namespace, Name: which.Name}, check); err != nil {
			return client.IgnoreNotFound(err)
		}
		if check.UID != which.UID || !speaks(check) {
			return nil
		}
		before := check.DeepCopy()
		for _, kind := range clusterapi.OnlyOurs {
			meta.RemoveStatusCondition(&check.Status.Conditions, kind)
		}
		return c.api.Status().Patch(ctx, check, clusterapi.StatusPatch(before, check))
	})
	return errors.Wrapf(client.IgnoreNotFound(err), "failed to clear the status of MachineHealthCheck %s/%s", which.Namespace, which.Name)
}
