// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/diagnose"
)

func statusCommand(c *connection) *cobra.Command {
	var format string
	var all, follow bool
	command := &cobra.Command{
		Use: "status [-n NAMESPACE | -A]", Short: "List checks, first those that need attention",
		Long: "List MachineHealthChecks and NodeHealthChecks of Remedy, and MachineHealthChecks of Cluster API: first those that need\n" +
			"attention, with what they report.\n\n" +
			"A NodeHealthCheck is in no namespace: it is listed with those of the namespace of its Cluster. With -A, all are listed, also\n" +
			"those that monitor the cluster that they are in.",
		Args: func(command *cobra.Command, args []string) error {
			switch {
			case all && command.Flags().Changed("namespace"):
				return invalid("--all-namespaces cannot be used with --namespace")
			case follow && format != text:
				return invalid("--watch cannot be used with --output=%s", format)
			}
			return noArguments(command, args)
		},
		RunE: func(command *cobra.Command, _ []string) error {
			config, namespace, err := c.config()
			if err != nil {
				return err
			}
			if all {
				namespace = ""
			}
			cluster, err := diagnose.NewCluster(config)
			if err != nil {
				return err
			}
			out := command.OutOrStdout()
			if follow {
				return followStatus(command, cluster, namespace, out)
			}
			found, unread, err := cluster.Statuses(command.Context(), namespace)
			if err != nil {
				return err
			}
			printUnread(command, unread)
			return write(out, format, found, func() string { return statusTable(found, namespace, clock.RealClock{}.Now()) })
		},
	}
	command.Flags().BoolVarP(&all, "all-namespaces", "A", false, "list the checks of all namespaces")
	command.Flags().BoolVarP(&follow, "watch", "w", false, "print a line for each change of a check")
	addFormat(command, &format)
	return command
}

// statusTable has a line for each check, and below it what the ones that need attention report.
func statusTable(all []diagnose.CheckStatus, namespace string, now time.Time) string {
	if len(all) == 0 {
		if namespace == "" {
			return "No checks found\n"
		}
		return "No checks found in namespace " + namespace + "\n"
	}
	var b strings.Builder
	rows := [][]string{diagnose.StatusColumns}
	for i := range all {
		rows = append(rows, all[i].Row(now))
	}
	b.WriteString(aligned(rows))
	separator := "\n"
	for i := range all {
		if s := &all[i]; s.Message != "" && s.Ready != "True" {
			fmt.Fprintf(&b, "%s%s: %s\n", separator, s.Title(), s.Message)
			separator = ""
		}
	}
	return b.String()
}

// columnWidths are those of the columns of diagnose.StatusColumns.
var columnWidths = [...]int{15, 18, 20, 20, 7, 7, 9, 11, 7, 7, 7, 7, 20, 0}

// followStatus prints each change. The width of the columns is constant, because later lines are not known.
func followStatus(command *cobra.Command, cluster *diagnose.Cluster, namespace string, out io.Writer) error {
	if err := printRow(out, diagnose.StatusColumns); err != nil {
		return err
	}
	unread := func(why string) { printUnread(command, []string{why}) }
	return cluster.Watch(command.Context(), namespace, unread, func(s *diagnose.CheckStatus) error {
		return printRow(out, s.Row(clock.RealClock{}.Now()))
	})
}

func printRow(out io.Writer, row []string) error {
	var b strings.Builder
	for i, value := range row {
		fmt.Fprintf(&b, "%-*s   ", columnWidths[i], value)
	}
	_, err := fmt.Fprintln(out, strings.TrimRight(b.String(), " "))
	return errors.WithStack(err)
}

// printUnread prints what could not be read, apart from the answer.
func printUnread(command *cobra.Command, unread []string) {
	for _, why := range unread {
		command.PrintErrln("Warning: " + why)
	}
}

func historyCommand(c *connection) *cobra.Command {
	var t target
	command := &cobra.Command{
		Use: "history (machine/NAME | node/NAME) [-n NAMESPACE]", Short: "List the recorded remediations of a Machine or Node",
		Long: "List what the checks of its cluster, the Machine and its Node record about its remediations, the oldest first.\n" +
			"A check records its last ten remediations, so those of Machines and Nodes that were replaced are listed, too.",
		Args: oneTarget,
		RunE: func(command *cobra.Command, args []string) error {
			cluster, subject, err := t.subject(c, args[0])
			if err != nil {
				return err
			}
			entries, unread, err := cluster.HistoryOf(command.Context(), subject)
			printUnread(command, unread)
			if err != nil {
				return err
			}
			return write(command.OutOrStdout(), t.format, entries, func() string { return historyTable(entries) })
		},
	}
	t.addFlags(command)
	return command
}

func historyTable(entries []diagnose.Entry) string {
	if len(entries) == 0 {
		return "No remediations are recorded\n"
	}
	rows := [][]string{{"TIME", "CHECK", "MESSAGE"}}
	for _, e := range entries {
		at := "-"
		if !e.Time.IsZero() {
			at = e.Time.UTC().Format(time.RFC3339)
		}
		check := e.Check
		if check == "" {
			check = "-"
		}
		rows = append(rows, []string{at, check, e.Message})
	}
	return aligned(rows)
}

// aligned returns rows as a table.
func aligned(rows [][]string) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	_ = table.Flush()
	return b.String()
}
