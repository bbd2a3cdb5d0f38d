// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package medik8s

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"unicode"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Documents reads the checks of a file with YAML or JSON documents. Lists are read, too. The output of kustomize also has other objects.
// A file without a check is an error.
func Documents(file io.Reader, name string) (checks, others []unstructured.Unstructured, err error) {
	var all []unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(file))
	for {
		content, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, errors.Wrapf(err, "failed to read %s", name)
		}
		object := map[string]any{}
		if err := yaml.Unmarshal(content, &object); err != nil {
			return nil, nil, errors.Wrapf(err, "failed to read %s: it is not a manifest", name)
		}
		if len(object) == 0 {
			continue
		}
		one := unstructured.Unstructured{Object: object}
		if !one.IsList() {
			all = append(all, one)
			continue
		}
		list, err := one.ToList()
		if err != nil {
			return nil, nil, errors.Wrapf(err, "failed to read %s: a list in it is invalid", name)
		}
		all = append(all, list.Items...)
	}
	if len(all) == 0 {
		return nil, nil, errors.Errorf("%s has no NodeHealthCheck of %s", name, Kind.Group)
	}
	for i := range all {
		switch err := expected(all[i].GroupVersionKind()); {
		case err == nil:
			checks = append(checks, all[i])
		case all[i].GetKind() == Kind.Kind:
			return nil, nil, errors.WithMessage(err, name)
		default:
			others = append(others, all[i])
		}
	}
	if len(checks) == 0 {
		return nil, nil, errors.WithMessage(expected(all[0].GroupVersionKind()), name)
	}
	return checks, others, nil
}

// InCluster reads the checks of a cluster, with the mapper of its kinds.
func InCluster(ctx context.Context, config *rest.Config) ([]unstructured.Unstructured, meta.RESTMapper, error) {
	api, err := client.New(config, client.Options{})
	if err != nil {
		return nil, nil, errors.Wrap(err, "failed to connect to the cluster")
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(Kind.GroupVersion().WithKind(Kind.Kind + "List"))
	resource := "nodehealthchecks." + Kind.Group
	switch err := api.List(ctx, list); {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return nil, nil, errors.Errorf("this cluster does not serve %s: use --filename for manifests", resource)
	case apierrors.IsForbidden(err):
		return nil, nil, errors.Errorf("failed to list %s: you are not allowed to. Ask an administrator for the permission", resource)
	case err != nil:
		return nil, nil, errors.Wrapf(err, "failed to list %s", resource)
	}
	return list.Items, api.RESTMapper(), nil
}

// YAML returns the manifest, with the notes as comments.
func (c *Converted) YAML() ([]byte, error) {
	manifest, err := yaml.Marshal(c.Check)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	var b bytes.Buffer
	b.WriteString("# Converted from the NodeHealthCheck " + oneLine(c.Check.Name) + " of " + Kind.Group + ".\n" +
		"# With mode: Observe, Remedy only reports. Delete or pause the check of medik8s before you remove mode: Observe, because both would\n" +
		"# act on the same Nodes.\n")
	for _, note := range c.Notes {
		b.WriteString("# - " + oneLine(note) + "\n")
	}
	b.Write(bytes.TrimSpace(manifest))
	b.WriteString("\n")
	return b.Bytes(), nil
}

// oneLine replaces what ends a line, and with it a comment.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
}
