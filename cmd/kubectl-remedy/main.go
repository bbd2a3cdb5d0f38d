// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-remedy is the kubectl plugin that kubectl runs as `kubectl remedy`. It releases checks and uninstalls Remedy.
//
// It only parses the command line: package uninstall does the work. Start at run.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/uninstall"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/version"
)

// The exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubectl remedy: "+err.Error())
		os.Exit(exitCode(err))
	}
}

// usageError is an invalid command line.
type usageError struct{ error }

func exitCode(err error) int {
	if errors.As(err, &usageError{}) {
		return exitUsage
	}
	return exitFailed
}

const usage = `Release MachineHealthChecks to Cluster API's controller, and uninstall Remedy.

Usage:
  kubectl remedy release NAME [-n NAMESPACE]  release one MachineHealthCheck of Cluster API
  kubectl remedy release -n NAMESPACE         release all of them in a namespace
  kubectl remedy release --all                stop the manager, release all of them, and remove every trace of Remedy from the
                                              management cluster and all workload clusters, before or after the manager is uninstalled
  kubectl remedy version                      print the version

Each line of output is one change. A line with the prefix 'left:' names what could not be removed or read, and the cause.
Run the command again to continue.

Exit codes: 0 if nothing is left, 1 if something is left or has failed, 2 if the command line is invalid.

Flags:
`

// arguments are the parsed command line.
type arguments struct {
	flags       *pflag.FlagSet
	rules       *clientcmd.ClientConfigLoadingRules
	overrides   *clientcmd.ConfigOverrides
	all, dryRun bool
}

func newArguments() *arguments {
	a := &arguments{
		flags: pflag.NewFlagSet("kubectl remedy", pflag.ContinueOnError),
		rules: clientcmd.NewDefaultClientConfigLoadingRules(), overrides: &clientcmd.ConfigOverrides{},
	}
	f, o := a.flags, a.overrides
	f.SortFlags = false
	f.Usage = func() {}
	f.BoolVar(&a.all, "all", false, "release and uninstall in the management cluster and all of its workload clusters")
	f.BoolVar(&a.dryRun, "dry-run", false, "only print the changes")
	f.StringVarP(&o.Context.Namespace, "namespace", "n", "", "namespace of the MachineHealthChecks")
	f.StringVar(&a.rules.ExplicitPath, "kubeconfig", "", "path to the kubeconfig file to use")
	f.StringVar(&o.CurrentContext, "context", "", "name of the kubeconfig context to use")
	f.StringVar(&o.Context.Cluster, "cluster", "", "name of the kubeconfig cluster to use")
	f.StringVar(&o.Context.AuthInfo, "user", "", "name of the kubeconfig user to use")
	f.StringVarP(&o.ClusterInfo.Server, "server", "s", "", "address and port of the API server")
	f.StringVar(&o.AuthInfo.Token, "token", "", "bearer token for authentication to the API server")
	f.StringVar(&o.AuthInfo.Impersonate, "as", "", "user name to impersonate")
	f.StringArrayVar(&o.AuthInfo.ImpersonateGroups, "as-group", nil, "group to impersonate, can be repeated")
	return a
}

// run runs the command line.
func run(ctx context.Context, args []string, out io.Writer) error {
	a := newArguments()
	err := a.flags.Parse(args)
	if errors.Is(err, pflag.ErrHelp) || err == nil && a.flags.Arg(0) == "help" {
		_, err := fmt.Fprint(out, usage, a.flags.FlagUsages())
		return errors.WithStack(err)
	}
	if err != nil {
		return usageError{errors.Errorf("%s; see kubectl remedy --help", err)}
	}
	if err := a.checkEmptyFlags(); err != nil {
		return usageError{err}
	}
	c, err := parseCommand(a.flags.Args(), a.overrides.Context.Namespace, a.all)
	if err != nil {
		return usageError{err}
	}
	if c.version {
		_, err := fmt.Fprintln(out, version.String())
		return errors.WithStack(err)
	}
	return a.release(ctx, c, out)
}

func (a *arguments) release(ctx context.Context, c command, out io.Writer) error {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(a.rules, a.overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return errors.WithMessage(err, "failed to load the kubeconfig: select the management cluster with --kubeconfig or --context")
	}
	management, err := uninstall.NewCluster("the management cluster", config)
	if err != nil {
		return err
	}
	uninstaller := &uninstall.Uninstaller{
		Management: management, DryRun: a.dryRun, Out: out, Clock: clock.RealClock{}, Timeouts: uninstall.DefaultTimeouts,
	}
	if c.all {
		return uninstaller.All(ctx)
	}
	if c.namespace == "" {
		// The default namespace of the kubeconfig, as in kubectl.
		if c.namespace, _, err = loader.Namespace(); err != nil {
			return errors.WithStack(err)
		}
	}
	return uninstaller.Release(ctx, c.namespace, c.name)
}

// checkEmptyFlags rejects a flag with an empty value. A script with an unset variable would otherwise change another namespace or cluster.
func (a *arguments) checkEmptyFlags() (err error) {
	a.flags.Visit(func(f *pflag.Flag) {
		empty := f.Value.String() == ""
		if list, isList := f.Value.(pflag.SliceValue); isList {
			empty = slices.Contains(list.GetSlice(), "")
		}
		if empty {
			err = errors.Errorf("--%s is empty: set a value or omit the flag; see kubectl remedy --help", f.Name)
		}
	})
	return err
}

// command is a parsed subcommand.
type command struct {
	version, all    bool
	namespace, name string
}

func parseCommand(args []string, namespace string, all bool) (command, error) {
	switch {
	case len(args) == 0:
		return command{}, errors.New("missing command: release or version; see kubectl remedy --help")
	case len(args) == 1 && args[0] == "version":
		return command{version: true}, nil
	case args[0] != "release":
		return command{}, errors.Errorf("unknown command %q; see kubectl remedy --help", args[0])
	case slices.Contains(args[1:], ""):
		return command{}, errors.New("the name is empty: set a name, or omit it to release all MachineHealthChecks of the namespace; " +
			"see kubectl remedy --help")
	case len(args) > 2:
		return command{}, errors.Errorf("accepts at most one name: unexpected %q; see kubectl remedy --help", args[2:])
	case all && (namespace != "" || len(args) == 2):
		return command{}, errors.New("--all cannot be used with a name or --namespace; see kubectl remedy --help")
	case all:
		return command{all: true}, nil
	case len(args) == 1 && namespace == "":
		return command{}, errors.New("missing scope: set a name, --namespace or --all; see kubectl remedy --help")
	case len(args) == 2:
		return command{namespace: namespace, name: args[1]}, nil
	}
	return command{namespace: namespace}, nil
}
