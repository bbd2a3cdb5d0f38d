// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"sync"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// concurrency is how many workload clusters are cleaned at the same time. Clusters that do not answer take long.
const concurrency = 16

// cleanWorkloadClusters cleans every workload cluster that can be reached, and reports the others.
func (u *Uninstaller) cleanWorkloadClusters(ctx context.Context) error {
	clusters := &clusterv1.ClusterList{}
	if err := u.Management.client.List(ctx, clusters); err != nil && !meta.IsNoMatchError(err) {
		u.leave("all workload clusters: %s", errors.Wrap(err, "failed to list Clusters"))
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, concurrency)
	for i := range clusters.Items {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return
			}
			cluster := &clusters.Items[i]
			if err := u.cleanWorkloadCluster(ctx, cluster); err != nil {
				u.leave("Cluster %s/%s: failed to clean the workload cluster: %s", cluster.Namespace, cluster.Name, err)
			}
		})
	}
	all.Wait()
	return ctx.Err()
}

// cleanWorkloadCluster removes the traces of Remedy from a workload cluster, and the Leases of its control plane and Nodes. Without a
// kubeconfig, no manager has ever connected to it.
func (u *Uninstaller) cleanWorkloadCluster(ctx context.Context, cluster *clusterv1.Cluster) error {
	kubeconfig, err := secret.Get(ctx, u.Management.client, client.ObjectKeyFromObject(cluster), secret.Kubeconfig)
	if err != nil {
		return errors.WithStack(client.IgnoreNotFound(err))
	}
	content := kubeconfig.Data[secret.KubeconfigDataName]
	if err := workload.ValidateKubeconfig(content); err != nil {
		return errors.Wrapf(err, "failed to use the kubeconfig in Secret %s/%s", kubeconfig.Namespace, kubeconfig.Name)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return errors.WithStack(err)
	}
	c, err := NewCluster("Cluster "+cluster.Namespace+"/"+cluster.Name, config)
	if err != nil {
		return err
	}
	if _, err := u.cleanCluster(ctx, c); err != nil {
		return err
	}
	return u.deleteRemediationLeases(ctx, c, client.ObjectKeyFromObject(cluster))
}
