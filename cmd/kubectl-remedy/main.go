// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-remedy is what operators do by hand: kubectl runs it as `kubectl remedy`.
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
	failed = 1
	misled = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubectl remedy: "+err.Error())
		os.Exit(code(err))
	}
}

// misuse is a command line that cannot be meant.
type misuse struct{ error }

func code(err error) int {
	if errors.As(err, &misuse{}) {
		return misled
	}
	return failed
}

const usage = `kubectl remedy release gives MachineHealthChecks back to Cluster API's own controller, and takes everything of ours off a cluster.

  kubectl remedy release NAME [-n NAMESPACE]  gives one MachineHealthCheck of Cluster API back
  kubectl remedy release -n NAMESPACE         gives all of a namespace back
  kubectl remedy release --all                stops our manager, gives all back, and leaves nothing of ours behind, in the management cluster and
                                              in all workload clusters: before an uninstall, or after one that was too early
  kubectl remedy version                      says which version this is

Each line says what was done; one that begins with 'left:' says what could not be done, and why. It can be run again at any time.
Exit codes: 0 nothing is left; 1 something is left, could not be seen, or has failed; 2 the command line cannot be meant.

Flags:
`

// arguments are what a command line says.
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
	f.BoolVar(&a.all, "all", false, "the whole management cluster and all of its workload clusters")
	f.BoolVar(&a.dryRun, "dry-run", false, "only say what would be done")
	f.StringVarP(&o.Context.Namespace, "namespace", "n", "", "namespace of the checks")
	f.StringVar(&a.rules.ExplicitPath, "kubeconfig", "", "path of the kubeconfig")
	f.StringVar(&o.CurrentContext, "context", "", "context of the kubeconfig")
	f.StringVar(&o.Context.Cluster, "cluster", "", "cluster of the kubeconfig")
	f.StringVar(&o.Context.AuthInfo, "user", "", "user of the kubeconfig")
	f.StringVarP(&o.ClusterInfo.Server, "server", "s", "", "address of the API server")
	f.StringVar(&o.AuthInfo.Token, "token", "", "bearer token for the API server")
	f.StringVar(&o.AuthInfo.Impersonate, "as", "", "user to impersonate")
	f.StringArrayVar(&o.AuthInfo.ImpersonateGroups, "as-group", nil, "group to impersonate; can be given more than once")
	return a
}

// run does what the arguments say.
func run(ctx context.Context, args []string, out io.Writer) error {
	a := newArguments()
	err := a.flags.Parse(args)
	if errors.Is(err, pflag.ErrHelp) || err == nil && a.flags.Arg(0) == "help" {
		_, err := fmt.Fprint(out, usage, a.flags.FlagUsages())
		return errors.WithStack(err)
	}
	if err != nil {
		return misuse{errors.Errorf("%s; see kubectl remedy --help", err)}
	}
	if err := a.emptied(); err != nil {
		return misuse{err}
	}
	what, err := scope(a.flags.Args(), a.overrides.Context.Namespace, a.all)
	if err != nil {
		return misuse{err}
	}
	if what.version {
		_, err := fmt.Fprintln(out, version.String())
		return errors.WithStack(err)
	}
	return a.release(ctx, what, out)
}

func (a *arguments) release(ctx context.Context, what scoped, out io.Writer) error {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(a.rules, a.overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return errors.WithMessage(err, "no cluster to talk to: name the management cluster by --kubeconfig or --context")
	}
	management, err := uninstall.NewCluster("the management cluster", config)
	if err != nil {
		return err
	}
	leaver := &uninstall.Leaver{Management: management, DryRun: a.dryRun, Out: out, Clock: clock.RealClock{}, Patience: uninstall.Patient}
	if what.all {
		return leaver.All(ctx)
	}
	if what.namespace == "" {
		// As kubectl does.
		if what.namespace, _, err = loader.Namespace(); err != nil {
			return errors.WithStack(err)
		}
	}
	return leaver.Checks(ctx, what.namespace, what.name)
}

// emptied refuses a flag that was given an empty value. A script whose variable is not set would otherwise clean what is not meant: another namespace, or
// another cluster.
func (a *arguments) emptied() (err error) {
	a.flags.Visit(func(f *pflag.Flag) {
		empty := f.Value.String() == ""
		if list, is := f.Value.(pflag.SliceValue); is {
			empty = slices.Contains(list.GetSlice(), "")
		}
		if empty {
			err = errors.Errorf("--%s is empty, as that of a variable that is not set: give it a value, or leave it out; see kubectl remedy --help", f.Name)
		}
	})
	return err
}

// scoped is what is to be released, if anything is.
type scoped struct {
	version, all    bool
	namespace, name string
}

// scope says what the arguments mean.
func scope(args []string, namespace string, all bool) (scoped, error) {
	switch {
	case len(args) == 0:
		return scoped{}, errors.New("say what to do: release; see kubectl remedy --help")
	case len(args) == 1 && args[0] == "version":
		return scoped{version: true}, nil
	case args[0] != "release":
		return scoped{}, errors.Errorf("there is no %q: say release; see kubectl remedy --help", args[0])
	case slices.Contains(args[1:], ""):
		return scoped{}, errors.New("the name is empty, as that of a variable that is not set: name a check, or leave the name out for all of the namespace that -n names; see kubectl remedy --help")
	case len(args) > 2:
		return scoped{}, errors.Errorf("one check at a time: %q is too much; see kubectl remedy --help", args[2:])
	case all && (namespace != "" || len(args) == 2):
		return scoped{}, errors.New("--all is everything: leave out the name and --namespace; see kubectl remedy --help")
	case all:
		return scoped{all: true}, nil
	case len(args) == 1 && namespace == "":
		return scoped{}, errors.New("say which: the name of a check, a namespace by -n, or --all for everything; see kubectl remedy --help")
	case len(args) == 2:
		return scoped{namespace: namespace, name: args[1]}, nil
	}
	return scoped{namespace: namespace}, nil
}
