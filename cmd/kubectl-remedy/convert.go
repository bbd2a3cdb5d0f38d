// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/convert"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/manifests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/medik8s"
)

func convertCommand(c *connection) *cobra.Command {
	var files []string
	var all bool
	command := &cobra.Command{
		Use: "convert (-f FILE | --all)", Short: "Convert checks of medik8s and configurations of the Node remedy document",
		Long: "Print objects of other projects as manifests of Remedy: NodeHealthChecks of medik8s (remediation.medik8s.io), and the\n" +
			"Configuration and the ConfigMaps (fence-config-NODE, fence-method-template-NAME) of the Node remedy document. What\n" +
			"differs or has no counterpart is printed on stderr, and as comments in the manifests. Checks and NodeRemedies have\n" +
			"mode: Observe. Nothing is written to the cluster.",
		Example: "  kubectl remedy convert --all > checks.yaml\n" +
			"  kubectl remedy convert -f nhc.yaml\n" +
			"  kubectl remedy convert -f configuration.yaml -f configmaps.yaml > fencing.yaml\n" +
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
			var p printer
			if p.out, p.errOut = command.OutOrStdout(), command.ErrOrStderr(); len(files) > 0 {
				return p.files(command.InOrStdin(), files)
			}
			config, _, err := c.config()
			if err != nil {
				return err
			}
			checks, mapper, err := medik8s.InCluster(command.Context(), config)
			if err != nil {
				return err
			}
			if len(checks) == 0 {
				_, _ = fmt.Fprintln(p.errOut, "No NodeHealthChecks of medik8s found")
			}
			return p.end(p.checks(checks, mapper))
		},
	}
	command.Flags().StringArrayVarP(&files, "filename", "f", nil, "file with the objects to convert, or - for stdin; can be repeated")
	command.Flags().BoolVar(&all, "all", false, "convert all NodeHealthChecks of medik8s in the cluster")
	return command
}

// printer prints manifests and notes. An object that cannot be converted does not stop the others.
type printer struct {
	out, errOut   io.Writer
	total, failed int
}

// files converts files. ConfigMaps of one can use those of another.
func (p *printer) files(in io.Reader, names []string) error {
	var checks, own []unstructured.Unstructured
	for _, name := range names {
		all, err := readFile(in, name)
		if err != nil {
			return err
		}
		document, rest := convert.Documents(all)
		found, others, err := medik8s.Documents(rest)
		if err != nil {
			return errors.WithMessage(err, name)
		}
		if len(found)+len(document) == 0 {
			err := errors.Errorf("%s has no NodeHealthCheck of %s", name, medik8s.Kind.Group)
			if len(others) > 0 {
				err = errors.WithMessage(medik8s.Expected(others[0].GroupVersionKind()), name)
			}
			return errors.Errorf("%s, %s", err, convert.Expected)
		}
		for i := range others {
			_, _ = fmt.Fprintf(p.errOut, "%s %s is not converted\n", others[i].GetKind(), others[i].GetName())
		}
		checks, own = append(checks, found...), append(own, document...)
	}
	err := p.checks(checks, nil)
	if err == nil {
		err = p.document(own)
	}
	return p.end(err)
}

func readFile(in io.Reader, name string) ([]unstructured.Unstructured, error) {
	if name == "-" {
		return manifests.Read(in, "stdin")
	}
	file, err := os.Open(name) //nolint:gosec // The user names the file.
	if err != nil {
		return nil, errors.Wrap(err, "failed to open the file")
	}
	defer func() { _ = file.Close() }()
	return manifests.Read(file, name)
}

func (p *printer) checks(all []unstructured.Unstructured, mapper meta.RESTMapper) error {
	p.total += len(all)
	for i := range all {
		converted, err := medik8s.Convert(&all[i], mapper)
		if err != nil {
			p.fail(err)
			continue
		}
		if err := p.print("NodeHealthCheck "+converted.Check.Name, converted.Notes, converted.YAML); err != nil {
			return err
		}
	}
	return nil
}

// document converts objects of the Node remedy document.
func (p *printer) document(all []unstructured.Unstructured) error {
	p.total += len(all)
	converted, failures := convert.Convert(all)
	for _, err := range failures {
		p.fail(err)
	}
	for _, one := range converted {
		if err := p.print(one.Kind()+" "+one.Object.GetName(), one.Notes, one.YAML); err != nil {
			return err
		}
	}
	return nil
}

func (p *printer) fail(err error) {
	p.failed++
	_, _ = fmt.Fprintln(p.errOut, "error: "+err.Error())
}

func (p *printer) print(name string, notes manifests.Notes, yaml func() ([]byte, error)) error {
	for _, note := range notes {
		_, _ = fmt.Fprintf(p.errOut, "%s: %s\n", name, note)
	}
	manifest, err := yaml()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, "---\n%s", manifest)
	return errors.WithStack(err)
}

func (p *printer) end(err error) error {
	if err == nil && p.failed > 0 {
		return errors.Errorf("%d of %d objects were not converted", p.failed, p.total)
	}
	return err
}
