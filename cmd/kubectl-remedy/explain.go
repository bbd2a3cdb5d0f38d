// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/yaml"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/describe"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/diagnose"
)

// target is the target of a question, with the output format.
type target struct {
	cluster, format string
	thisCluster     bool
}

func (t *target) addFlags(command *cobra.Command) {
	command.Flags().StringVar(&t.cluster, "cluster", "",
		"name of the Cluster of the Node: for a Node without a Machine, or if several Clusters have a Node of this name")
	command.Flags().BoolVar(&t.thisCluster, "this-cluster", false, "the Node is one of the cluster that the kubeconfig selects")
	addFormat(command, &t.format)
}

// text is the default output format.
const text = "text"

func addFormat(command *cobra.Command, format *string) {
	command.Flags().StringVarP(format, "output", "o", text, "output format: text, json or yaml")
	command.PreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains([]string{text, "json", "yaml"}, *format) {
			return invalid("invalid output format %q: use text, json or yaml", *format)
		}
		return nil
	}
}

// oneTarget accepts machine/NAME or node/NAME.
func oneTarget(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return invalid("accepts one target, such as machine/NAME or node/NAME: %d are set", len(args))
	}
	_, err := parseTarget(args[0])
	return err
}

func parseTarget(argument string) (diagnose.Subject, error) {
	kind, name, _ := strings.Cut(argument, "/")
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	switch kind {
	case "machine", "machines", "ma":
		kind = "machine"
	case "node", "nodes", "no":
		kind = "node"
	default:
		name = ""
	}
	if name == "" || strings.Contains(name, "/") {
		return diagnose.Subject{}, invalid("invalid target %q: use machine/NAME or node/NAME", argument)
	}
	return diagnose.Subject{Node: kind == "node", Name: name}, nil
}

// subject connects to the management cluster.
func (t *target) subject(c *connection, argument string) (*diagnose.Cluster, diagnose.Subject, error) {
	s, err := parseTarget(argument)
	switch {
	case err != nil:
		return nil, s, err
	case t.thisCluster && t.cluster != "":
		return nil, s, invalid("--this-cluster cannot be used with --cluster")
	case t.thisCluster && !s.Node:
		return nil, s, invalid("--this-cluster cannot be used with %s: use it with node/NAME", argument)
	}
	config, namespace, err := c.config()
	if err != nil {
		return nil, s, err
	}
	s.Namespace, s.Cluster, s.ThisCluster = namespace, t.cluster, t.thisCluster
	cluster, err := diagnose.NewCluster(config)
	return cluster, s, err
}

func explainCommand(c *connection) *cobra.Command {
	var t target
	command := &cobra.Command{
		Use: "explain (machine/NAME | node/NAME) [-n NAMESPACE]", Short: "Explain why a Machine or Node is (not) being " +
			"remediated, and when it will be",
		Long: "Evaluate the checks that select a Machine or a Node as the manager does, with your own permissions, and " +
			"print the result of every\n" +
			"rule and guard. Nothing is written.\n\n" +
			"A Node is that of a Machine in the namespace, one of the Cluster that --cluster selects, or one of the cluster that the " +
			"kubeconfig\nselects.\n\n" +
			"The evaluation needs the permission to read the kubeconfig Secret of the Cluster. Without it, the command prints " +
			"what the manager reports.\n\n" +
			"If fencing is installed, the NodeFences of the Node follow: what is proven, what is missing, and how to cancel them.",
		Example: "  kubectl remedy explain machine/workers-x7k2p -n team-a\n" +
			"  kubectl remedy explain node/worker-3 -n team-a --cluster prod\n" +
			"  kubectl remedy explain node/worker-3 --this-cluster",
		Args: oneTarget,
		RunE: func(command *cobra.Command, args []string) error {
			cluster, subject, err := t.subject(c, args[0])
			if err != nil {
				return err
			}
			x, err := cluster.Explain(command.Context(), subject)
			if err != nil {
				if x = withoutChecks(subject, err); x == nil {
					return err
				}
			}
			all, err := addFences(command.Context(), c, subject, x)
			if err != nil {
				return err
			}
			return write(command.OutOrStdout(), t.format, all, all.String)
		},
	}
	t.addFlags(command)
	return command
}

// explanation is that of the checks, and the fences of the Node.
type explanation struct {
	*diagnose.Explanation `json:",inline"`

	Fences []describe.Fence `json:"fences,omitempty"`
}

func (x *explanation) String() string {
	text := x.Explanation.String()
	for i := range x.Fences {
		text += "\n" + x.Fences[i].String()
	}
	return text
}

// withoutChecks is the explanation of a Node where only fencing is installed; nil if another error has occurred.
func withoutChecks(s diagnose.Subject, err error) *diagnose.Explanation {
	if !s.Node || s.Cluster != "" || !meta.IsNoMatchError(err) {
		return nil
	}
	return &diagnose.Explanation{Node: s.Name, Responsible: []string{"The kinds of checks are not installed, so nothing remediates this Node"}}
}

// addFences adds the fences of the Node of an explanation.
func addFences(ctx context.Context, c *connection, s diagnose.Subject, x *diagnose.Explanation) (*explanation, error) {
	all := &explanation{Explanation: x}
	if x.Node == "" {
		return all, nil
	}
	config, _, err := c.config()
	if err != nil {
		return nil, err
	}
	reader, err := describe.NewReader(config)
	if err != nil {
		return nil, err
	}
	target := describe.Target{Node: x.Node, Namespace: s.Namespace}
	target.Cluster.Namespace, target.Cluster.Name, _ = strings.Cut(x.Cluster, "/")
	_, target.Machine, _ = strings.Cut(x.Machine, "/")
	var unread string
	if all.Fences, unread = describe.Find(ctx, reader, target); unread != "" {
		x.Unread = append(x.Unread, unread)
	}
	return all, nil
}

// write writes a value in a format.
func write(out io.Writer, format string, value any, asText func() string) error {
	var content []byte
	var err error
	switch format {
	case "json":
		content, err = json.MarshalIndent(value, "", "  ")
		content = append(content, '\n')
	case "yaml":
		content, err = yaml.Marshal(value)
	default:
		content = []byte(asText())
	}
	if err != nil {
		return errors.WithStack(err)
	}
	_, err = fmt.Fprint(out, string(content))
	return errors.WithStack(err)
}
