// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/medik8s"
)

func convertCommand(c *connection) *cobra.Command {
	var files []string
	var all bool
	command := &cobra.Command{
		Use: "convert (-f FILE | --all)", Short: "Convert NodeHealthChecks of medik8s into those of Remedy",
		Long: "Print NodeHealthChecks of medik8s (remediation.medik8s.io) as manifests of Remedy. What differs or has no counterpart is\n" +
			"printed on stderr, and as comments in the manifests. The checks have mode: Observe. Nothing is written to the cluster.",
		Example: "  kubectl remedy convert --all > checks.yaml\n" +
			"  kubectl remedy convert -f nhc.yaml\n" +
			"  kustomize build . | kubectl remedy convert -f -",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case all && len(files) > 0:
				return invalid("--all cannot be used with --filename")
			case !all && len(files) == 0:
				return invalid("missing source: set --filename or --all")
			}
			return noArguments(nil, args)
		},
		RunE: func(command *cobra.Command, _ []string) error {
			found, mapper, err := readMedik8s(command, c, files)
			if err != nil {
				return err
			}
			return convert(found, mapper, command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	command.Flags().StringArrayVarP(&files, "filename", "f", nil, "file with the NodeHealthChecks to convert, or - for stdin; can be repeated")
	command.Flags().BoolVar(&all, "all", false, "convert all NodeHealthChecks of medik8s in the cluster")
	return command
}

// readMedik8s reads the files, or the cluster without any. Only the cluster has a mapper.
func readMedik8s(command *cobra.Command, c *connection, files []string) ([]unstructured.Unstructured, meta.RESTMapper, error) {
	if len(files) == 0 {
		config, _, err := c.config()
		if err != nil {
			return nil, nil, err
		}
		return medik8s.InCluster(command.Context(), config)
	}
	var all []unstructured.Unstructured
	for _, name := range files {
		found, others, err := readFile(command.InOrStdin(), name)
		if err != nil {
			return nil, nil, err
		}
		for i := range others {
			_, _ = fmt.Fprintf(command.ErrOrStderr(), "%s %s is not converted\n", others[i].GetKind(), others[i].GetName())
		}
		all = slices.Concat(all, found)
	}
	return all, nil, nil
}

func readFile(in io.Reader, name string) (checks, others []unstructured.Unstructured, err error) {
	if name == "-" {
		return medik8s.Documents(in, "stdin")
	}
	file, err := os.Open(name) //nolint:gosec // The user names the file.
	if err != nil {
		return nil, nil, errors.Wrap(err, "failed to open the file")
	}
	defer func() { _ = file.Close() }()
	return medik8s.Documents(file, name)
}

// convert prints the manifests. One that cannot be converted does not stop the others.
func convert(all []unstructured.Unstructured, mapper meta.RESTMapper, out, errOut io.Writer) error {
	failed := 0
	for i := range all {
		converted, err := medik8s.Convert(&all[i], mapper)
		if err != nil {
			failed++
			_, _ = fmt.Fprintln(errOut, "error: "+err.Error())
			continue
		}
		for _, note := range converted.Notes {
			_, _ = fmt.Fprintf(errOut, "NodeHealthCheck %s: %s\n", converted.Check.Name, note)
		}
		manifest, err := converted.YAML()
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "---\n%s", manifest); err != nil {
			return errors.WithStack(err)
		}
	}
	if failed > 0 {
		return errors.Errorf("%d of %d NodeHealthChecks were not converted", failed, len(all))
	}
	if len(all) == 0 {
		_, _ = fmt.Fprintln(errOut, "No NodeHealthChecks of medik8s found")
	}
	return nil
}
