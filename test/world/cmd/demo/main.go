// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows Remedy in a management cluster with the real Cluster API: it breaks Nodes of a workload cluster, prints what happens,
// and verifies it. It exits with an error if anything does not happen as printed. Start reading at run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/demo"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// interrupted is the exit code after Ctrl-C.
const interrupted = 130

func main() {
	options := world.Options{}
	flag.StringVar(&options.Manager, "manager", "", "the manager; built if empty")
	flag.StringVar(&options.Logs, "logs", "", "a folder for the logs; they are deleted at the end if empty")
	keep := flag.Bool("keep", false, "keep everything running until Ctrl-C")
	strict := flag.Bool("strict", false, "fail if Remedy detects a fault a second or more after its deadline")
	flag.Parse()
	err := world.Isolate()
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		// A second Ctrl-C ends the program at once. All processes that it started end with it.
		context.AfterFunc(ctx, stop)
		if err = run(ctx, options, *keep, *strict); err != nil && ctx.Err() != nil {
			fmt.Println("\nInterrupted. Everything that was started has been stopped.")
			os.Exit(interrupted)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

// run runs all parts, and stops everything at the end.
func run(ctx context.Context, options world.Options, keep, strict bool) error {
	d := &demonstration{Terminal: demo.NewTerminal(os.Stdout)}
	d.life, d.end = context.WithCancel(ctx)
	defer d.stop()
	for _, part := range []func(context.Context) error{
		func(ctx context.Context) error { return d.create(ctx, options) },
		d.replaceWorker, d.repairControlPlaneAndServer, d.breakAllWorkers, d.cutConnection,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	d.summarize()
	if keep {
		if err := d.keep(ctx); err != nil {
			return err
		}
	}
	d.stop()
	fmt.Println("\nEverything that was started has been stopped.")
	if strict {
		return d.keepsPromise()
	}
	return nil
}
