// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Command fencing shows how Remedy restarts Nodes through their management controllers, and releases their workload. It breaks the Nodes of
// four machines, which checks or a person have fenced, and of one that is not fenced, prints what happens, and verifies it. It exits with
// an error if anything does not happen as printed. Start reading at run.
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
		fmt.Fprintf(os.Stderr, "\ndemo-fencing: %v\n", err)
		os.Exit(1)
	}
	fmt.Println("\nEverything that was started has been stopped.")
}

const introduction = `A Node that is not Ready can still run its Pods. Remedy switches its machine off through the management
controller (BMC), lets the BMC prove that, releases its workload to other Nodes, and switches it on again. Here a person,
a MachineHealthCheck of Cluster API (in-tree), a MachineHealthCheck of Remedy and a NodeHealthCheck request that in turn.

This demo runs the real etcd, kube-apiserver, kube-controller-manager, the core manager of Cluster API and both managers
of Remedy as processes on this machine. The fence agent and IPMI are real, too: fence_ipmilan switches machines of
ipmi_sim. Only the machines behind it, their kubelets, the scheduler and the storage are played. Timeouts are seconds
here, and minutes in production. Ctrl-C stops everything and removes it.
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
	// The checks are last: a manager acts only when it has been connected to a cluster for 50 seconds.
	for _, part := range []func(context.Context) error{
		func(ctx context.Context) error { return d.create(ctx, manager) },
		d.failUnfenced, d.byHand, d.byInTreeCheck, d.byMachineHealthCheck, d.byNodeHealthCheck, d.summarize,
	} {
		if err := d.explained(part(ctx)); err != nil {
			return err
		}
	}
	if keep {
		d.Heading("Everything keeps running until Ctrl-C")
		fmt.Printf("In another terminal:\n\n  export KUBECONFIG=%s PATH=%s:$PATH\n  kubectl get nodes,machines,rnf,rfp -A\n"+
			"  kubectl remedy explain node/server-1\n", d.Kubeconfig, strings.Join(d.Path, ":"))
		<-ctx.Done()
	}
	return nil
}
