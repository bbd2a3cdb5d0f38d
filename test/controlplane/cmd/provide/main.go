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
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *all); err != nil {
		fmt.Fprintf(os.Stderr, "control plane: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, all bool) error {
	wanted := assets.Basic()
	if all {
		wanted = assets.All()
	}
	provider, err := assets.NewProvider(os.Stderr)
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
