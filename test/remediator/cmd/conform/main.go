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
	settle := flags.Duration("settle", time.Minute, "how long to wait for what the remediator must not do")
	if err := flags.Parse(args); err != nil {
		return false, errors.WithStack(err)
	}
	namespace, name, found := strings.Cut(*template, "/")
	if *apiVersion == "" || *kind == "" || *node == "" || !found {
		return false, errors.New("--api-version, --kind, --template=namespace/name and --node are required")
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return false, errors.Wrap(err, "failed to read the kubeconfig")
	}
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return false, errors.Wrap(err, "failed to create a client")
	}
	r := &conform.Remediator{
		Client: c, Node: *node, Wait: conform.Waiting(*timeout, *settle, interval),
		Template: requests.Reference{APIVersion: *apiVersion, Kind: *kind, Namespace: namespace, Name: name},
	}
	err = r.Verify(ctx, func(f conform.Finding) {
		broken = broken || f.Result == conform.Broken
		_, _ = fmt.Fprintln(out, strings.TrimSpace(fmt.Sprintf("%-12s %-24s %s", f.Result, f.Point, f.Text)))
	})
	return broken, err
}
