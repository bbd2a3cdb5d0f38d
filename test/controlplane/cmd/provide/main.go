// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Command provide makes sure that the binaries of a control plane are here, and prints where.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
)

func main() {
	all := flag.Bool("all", false, "kube-controller-manager, too")
	clusterAPI := flag.Bool("cluster-api", false, "Cluster API's managers and clusterctl, instead")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *all, *clusterAPI); err != nil {
		fmt.Fprintf(os.Stderr, "control plane: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, all, clusterAPI bool) error {
	wanted, newProvider := assets.Basic(), assets.NewProvider
	if all {
		wanted = assets.All()
	}
	if clusterAPI {
		wanted, newProvider = assets.ClusterAPI(), assets.NewClusterAPIProvider
	}
	provider, err := newProvider(os.Stderr)
	if err != nil {
		return err
	}
	paths, err := provider.Provide(ctx, wanted...)
	if err != nil {
		return err
	}
	for _, binary := range wanted {
		fmt.Println(paths[binary])
	}
	return nil
}
