// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Command world keeps a world up, to look around in it with kubectl.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pkg/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

func main() {
	shape, options := world.Shape{}, world.Options{Progress: os.Stdout, Variables: map[string]string{}}
	flag.StringVar(&shape.Name, "cluster", "one", "the name of the workload cluster; none if empty")
	flag.IntVar(&shape.ControlPlanes, "control-planes", 1, "how many control-plane Machines it has")
	flag.IntVar(&shape.Workers, "workers", 3, "how many workers it has")
	flag.BoolVar(&shape.ClusterClass, "class", false, "make it from a ClusterClass")
	flag.StringVar(&options.Manager, "manager", "", "the manager; built if empty")
	flag.StringVar(&options.Logs, "logs", "", "a folder for the logs; they go with the world if empty")
	flag.Func("set", "NAME=value: a variable of clusterctl.yaml, as often as you like", func(pair string) error {
		name, value, found := strings.Cut(pair, "=")
		if !found {
			return errors.New("must be NAME=value")
		}
		options.Variables[name] = value
		return nil
	})
	flag.Parse()
	err := world.Isolate()
	if err == nil {
		// Ctrl-C twice ends it without waiting; what it started goes with it anyway.
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		context.AfterFunc(ctx, stop)
		err = keep(ctx, options, shape)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "world: %v\n", err)
		os.Exit(1)
	}
}

// keep starts the world, prints how to inspect it, and waits.
func keep(ctx context.Context, options world.Options, shape world.Shape) error {
	w, err := world.Start(ctx, options)
	if err != nil {
		return err
	}
	defer w.Stop()
	fmt.Printf("\nlogs:         %s\nclusterctl:   --config %s\n", w.Logs, filepath.Join(w.Dir, "clusterctl.yaml"))
	fmt.Printf("management:   %s\n", w.Kubectl(w.Kubeconfig)+" get clusters,machines,providers --all-namespaces")
	plugin, err := w.Plugin(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("shell:        %s\n", w.Shell(filepath.Dir(plugin)))
	if shape.Name != "" {
		fmt.Printf("\nmaking cluster %s: it takes most of a minute\n", shape.Name)
		if err := cluster(ctx, w, shape); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	fmt.Println("\nCtrl-C ends it, and leaves nothing behind.")
	<-ctx.Done()
	fmt.Println("ending")
	return nil
}

func cluster(ctx context.Context, w *world.World, shape world.Shape) error {
	c, err := w.Cluster(ctx, shape)
	if err != nil {
		return err
	}
	if err := c.Ready(ctx); err != nil {
		return err
	}
	kubeconfig, err := c.Kubeconfig(ctx, true)
	if err != nil {
		return err
	}
	file := filepath.Join(w.Dir, c.Name+".kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		return errors.Wrap(err, "failed to write the kubeconfig of the cluster")
	}
	fmt.Printf("cluster %s:  %s\n", c.Name, w.Kubectl(file)+" get nodes")
	return nil
}
