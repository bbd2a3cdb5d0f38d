// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-remedy is the kubectl plugin that kubectl runs as `kubectl remedy`. It explains decisions, converts and releases checks,
// and uninstalls Remedy.
//
// It only parses the command line: packages diagnose, medik8s and uninstall do the work. Start at run.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: "+err.Error())
		os.Exit(1)
	}
}

// invalid returns the error for an invalid command line.
func invalid(format string, args ...any) error {
	return errors.Errorf(format+"\nSee 'kubectl remedy --help' for help and examples", args...)
}

// run runs the command line.
func run(ctx context.Context, args []string, out, errOut io.Writer) error {
	root := &cobra.Command{
		Use: "kubectl-remedy", Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl remedy"},
		Short: "Explain why a Machine or Node is (not) being remediated, release checks, and uninstall Remedy",
		Long: "Explain why a Machine or Node is (not) being remediated, release MachineHealthChecks to Cluster API's " +
			"controller, and uninstall Remedy.\n\n" +
			"Exit codes: 0 for success, 1 if something has failed or is left, or if the command line is invalid.",
		SilenceUsage: true, SilenceErrors: true, Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return invalid("missing command: explain, status, history, convert, release, uninstall or version")
			}
			return invalid("unknown command %q", args[0])
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return invalid("%s", err) })
	root.SetOut(out)
	root.SetErr(errOut)
	root.SetArgs(args)
	c := newConnection(root.PersistentFlags())
	root.PersistentPreRunE = func(command *cobra.Command, _ []string) error { return checkEmptyFlags(command.Flags()) }
	root.AddCommand(explainCommand(c), statusCommand(c), historyCommand(c), convertCommand(c), releaseCommand(c), uninstallCommand(c),
		versionCommand(out))
	return root.ExecuteContext(ctx)
}

func versionCommand(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(out, version.String())
			return errors.WithStack(err)
		},
	}
}

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return invalid("unexpected argument %q", strings.Join(args, " "))
	}
	return nil
}
