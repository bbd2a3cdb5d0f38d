// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"sync"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// atATime is how many workload clusters are cleaned at the same time: a fleet has a thousand, and those that do not answer take long.
const atATime = 16

// sweepWorkloads cleans every workload cluster that can be reached, and names the others.
func (l *Leaver) sweepWorkloads(ctx context.Context) error {
	clusters := &clusterv1.ClusterList{}
	if err := l.Management.api.List(ctx, clusters); err != nil {
		if !meta.IsNoMatchError(err) {
			l.miss("every workload cluster: %s", errors.Wrap(err, "failed to read the Clusters"))
		}
		return nil
	}
	var all sync.WaitGroup
	free := make(chan struct{}, atATime)
	for i := range clusters.Items {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			if ctx.Err() == nil {
				l.sweepWorkload(ctx, &clusters.Items[i])
			}
		})
	}
	all.Wait()
	return ctx.Err()
}

// sweepWorkload takes what is ours off a workload cluster: notes on Nodes, requests, and the Lease by which checks take turns at its control plane.
func (l *Leaver) sweepWorkload(ctx context.Context, cluster *clusterv1.Cluster) {
	name := "Cluster " + cluster.Namespace + "/" + cluster.Name
	c, err := l.reach(ctx, name, cluster)
	if err == nil && c != nil {
		err = l.sweep(ctx, c)
	}
	if err == nil && c != nil {
		err = l.dropTurn(ctx, c, cluster)
	}
	if err != nil {
		l.miss("%s: what is ours in it is still there: %s", name, err)
	}
}

// reach connects a workload cluster; nil if it has no kubeconfig yet, so that nobody can have been there.
func (l *Leaver) reach(ctx context.Context, name string, cluster *clusterv1.Cluster) (*Cluster, error) {
	kubeconfig, err := l.Management.kubeconfig(ctx, cluster)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := workload.Screen(kubeconfig); err != nil {
		return nil, errors.Wrapf(err, "Secret %s-kubeconfig is refused", cluster.Name)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	return NewCluster(name, config)
}
