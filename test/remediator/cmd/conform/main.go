// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Command conform verifies that a remediator keeps the contract of docs/remediators.md. The remediator runs in the cluster of the
// kubeconfig, and remediates the named Node several times.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator/conform"
)

// interval is the time between two reads.
const interval = time.Second

// The exit codes.
const (
	exitBroken = 1
	exitFailed = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	broken, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "conform: %v\n", err)
		os.Exit(exitFailed)
	case broken:
		os.Exit(exitBroken)
	}
}

// run reports whether a point is broken.
func run(ctx context.Context, args []string, out io.Writer) (broken bool, err error) {
	flags := flag.NewFlagSet("conform", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", os.Getenv("KUBECONFIG"), "the kubeconfig of the cluster with the remediator and the Node")
	apiVersion := flags.String("api-version", "", "the apiVersion of the template, such as example.com/v1")
	kind := flags.String("kind", "", "the kind of the template, such as RebootRemediationTemplate")
	template := flags.String("template", "", "the template, as namespace/name")
	node := flags.String("node", "", "a Node that is remediated several times")
	timeout := flags.Duration("timeout", 10*time.Minute, "how long to wait for what the remediator has to do")
	machine := flags.String("machine", "", "the Machine of the Node, as namespace/name, for a remediator that finds the owner of its request")
	nodes := flags.String("node-kubeconfig", "", "the kubeconfig of the cluster with the Node, if it is another one")
	breaks := flags.String("break", "", "a shell command that makes the Node unhealthy, for a remediator that leaves healthy Nodes alone")
	settle := flags.Duration("settle", time.Minute, "how long to wait for what the remediator must not do")
	if err := flags.Parse(args); err != nil {
		return false, errors.WithStack(err)
	}
	namespace, name, found := strings.Cut(*template, "/")
	if *apiVersion == "" || *kind == "" || *node == "" || !found {
		return false, errors.New("--api-version, --kind, --template=namespace/name and --node are required")
	}
	c, err := clientFor(*kubeconfig)
	if err != nil {
		return false, err
	}
	ofNodes := c
	if *nodes != "" {
		if ofNodes, err = clientFor(*nodes); err != nil {
			return false, err
		}
	}
	machineNamespace, machineName, _ := strings.Cut(*machine, "/")
	r := &conform.Remediator{
		Client: c, Nodes: ofNodes, Node: *node, Machine: client.ObjectKey{Namespace: machineNamespace, Name: machineName},
		Wait:     conform.Waiting(*timeout, *settle, interval),
		Template: requests.Reference{APIVersion: *apiVersion, Kind: *kind, Namespace: namespace, Name: name},
	}
	if *breaks != "" {
		r.Break = func(ctx context.Context) error {
			command := exec.CommandContext(ctx, "/bin/sh", "-c", *breaks)
			command.Stdout, command.Stderr = os.Stderr, os.Stderr
			return errors.WithStack(command.Run())
		}
	}
	err = r.Verify(ctx, func(f conform.Finding) {
		broken = broken || f.Result == conform.Broken
		_, _ = fmt.Fprintln(out, strings.TrimSpace(fmt.Sprintf("%-12s %-24s %s", f.Result, f.Point, f.Text)))
	})
	return broken, err
}

func clientFor(kubeconfig string) (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, errors.Wrap(err, "failed to read the kubeconfig")
	}
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	return c, errors.Wrap(err, "failed to create a client")
}
