// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Command nodes shows Remedy in a cluster without Cluster API: it breaks Nodes, prints what happens, and verifies it. It exits with an
// error if anything does not happen as printed. It runs in the root of the checkout. Start reading at run.
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

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/demo"
)

// interrupted is the exit code after Ctrl-C.
const interrupted = 130

func main() {
	manager := flag.String("manager", "bin/manager", "the manager")
	plugin := flag.String("plugin", "bin/kubectl-remedy", "the kubectl plugin")
	keep := flag.Bool("keep", false, "keep everything running until Ctrl-C")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A second Ctrl-C ends the program at once. All processes that it started end with it.
	context.AfterFunc(ctx, stop)
	err := run(ctx, *manager, *plugin, *keep)
	switch {
	case err != nil && ctx.Err() != nil:
		fmt.Println("\nInterrupted. Everything that was started has been stopped.")
		os.Exit(interrupted)
	case err != nil:
		fmt.Fprintf(os.Stderr, "\ndemo-nodes: %v\n", err)
		os.Exit(1)
	}
	fmt.Println("\nEverything that was started has been stopped.")
}

const introduction = `Remedy also monitors Nodes in a cluster without Cluster API. A NodeHealthCheck decides when a Node is unhealthy, and
Remedy creates a request for a remediation provider, here one with the kinds of fence-agents-remediation, which
reboots servers.

This demo runs etcd, kube-apiserver and Remedy as processes on this machine. The Nodes have no kubelet: the demo sets
their condition Ready. Timeouts are seconds here, and minutes in production. Ctrl-C stops everything and removes it.
`

// run runs all parts, and stops everything at the end.
func run(ctx context.Context, manager, plugin string, keep bool) error {
	fmt.Print(introduction)
	d := &demonstration{Terminal: demo.NewTerminal(os.Stdout)}
	defer d.stop()
	path, err := filepath.Abs(plugin)
	if err != nil {
		return err
	}
	d.Path = []string{filepath.Dir(path)}
	for _, part := range []func(context.Context) error{
		func(ctx context.Context) error { return d.create(ctx, manager) }, d.apply, d.rebootNode, d.breakMostNodes,
	} {
		if err := d.explained(part(ctx)); err != nil {
			return err
		}
	}
	if keep {
		d.Heading("Everything keeps running until Ctrl-C")
		fmt.Printf("In another terminal:\n\n  export KUBECONFIG=%s PATH=%s:$PATH\n  kubectl get nodes,rnhc\n  kubectl remedy status -A\n"+
			"  kubectl remedy explain node/worker-1\n  kubectl describe rnhc workers\n", d.Kubeconfig, strings.Join(d.Path, ":"))
		<-ctx.Done()
	}
	return nil
}
