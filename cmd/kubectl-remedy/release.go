// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/uninstall"
)

// changes is the help of the commands that change something.
const changes = "Each line of output is one change. A line with the prefix 'left:' names what could not be removed or " +
	"read, and the cause.\n" +
	"Run the command again to continue.\n\nExit codes: 0 if nothing is left, 1 if something is left or has failed."

func releaseCommand(c *connection) *cobra.Command {
	var dryRun bool
	command := &cobra.Command{
		Use: "release [NAME] [-n NAMESPACE]", Short: "Release MachineHealthChecks of Cluster API to its controller",
		Long: "Release one MachineHealthCheck of Cluster API that Remedy has adopted, or all of a namespace, to Cluster " +
			"API's controller.\n\n" + changes,
		Example: "  kubectl remedy release workers -n team-a   # one MachineHealthCheck of Cluster API\n" +
			"  kubectl remedy release -n team-a           # all of them in a namespace",
		Args: func(command *cobra.Command, args []string) error {
			switch {
			case slices.Contains(args, ""):
				return invalid("the name is empty: set a name, or omit it to release all MachineHealthChecks of the namespace")
			case len(args) > 1:
				return invalid("accepts at most one name: unexpected %q", args[1:])
			case len(args) == 0 && !command.Flags().Changed("namespace"):
				return invalid("missing scope: set a name or --namespace. kubectl remedy uninstall releases all of them")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			u, namespace, err := newUninstaller(c, command, dryRun)
			if err != nil {
				return err
			}
			return u.Release(command.Context(), namespace, append(args, "")[0])
		},
	}
	command.Flags().BoolVar(&dryRun, "dry-run", false, "only print the changes")
	return command
}

func uninstallCommand(c *connection) *cobra.Command {
	var dryRun bool
	command := &cobra.Command{
		Use: "uninstall", Short: "Stop the manager and remove all annotations, finalizers, conditions and requests",
		Long: "Stop the manager, release all MachineHealthChecks of Cluster API, and remove all annotations, finalizers, conditions and " +
			"requests of Remedy from the\n" +
			"management cluster and all workload clusters, before or after the manager is uninstalled.\n\n" + changes,
		Args: func(command *cobra.Command, args []string) error {
			if command.Flags().Changed("namespace") {
				return invalid("--namespace cannot be used: kubectl remedy uninstall is for the management cluster and all workload clusters")
			}
			return noArguments(command, args)
		},
		RunE: func(command *cobra.Command, _ []string) error {
			u, _, err := newUninstaller(c, command, dryRun)
			if err != nil {
				return err
			}
			return u.All(command.Context())
		},
	}
	command.Flags().BoolVar(&dryRun, "dry-run", false, "only print the changes")
	return command
}

func newUninstaller(c *connection, command *cobra.Command, dryRun bool) (*uninstall.Uninstaller, string, error) {
	config, namespace, err := c.config()
	if err != nil {
		return nil, "", err
	}
	management, err := uninstall.NewCluster("the management cluster", config)
	return &uninstall.Uninstaller{
		Management: management, DryRun: dryRun, Out: command.OutOrStdout(), Clock: clock.RealClock{}, Timeouts: uninstall.DefaultTimeouts,
	}, namespace, err
}
