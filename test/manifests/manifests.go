// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests reads YAML files of Kubernetes objects.
package manifests

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"regexp"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Read reads all the objects of a file.
func Read(path string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	objects, err := Parse(content)
	return objects, errors.Wrapf(err, "failed to read %s", path)
}

// Parse reads all the objects of a text. What has no kind is left out: it is for kustomize.
func Parse(content []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, errors.WithStack(err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, errors.WithStack(err)
		}
		if object.GetKind() != "" {
			objects = append(objects, object)
		}
	}
}

// variable is one of clusterctl, with its default.
var variable = regexp.MustCompile(`\$\{[A-Z_]+:=([^}]*)\}`)

// Render returns the objects of a kustomization in the folder config of this repository, with the defaults of variables. It opens all files
// there, because the go command caches the result of a test by the files that the test opens, and does not see those that kubectl opens.
func Render(ctx context.Context, kubectl, config, kustomization string) ([]*unstructured.Unstructured, error) {
	files := os.DirFS(config)
	if err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		_, err = fs.ReadFile(files, path)
		return err
	}); err != nil {
		return nil, errors.WithStack(err)
	}
	rendered, err := exec.CommandContext(ctx, kubectl, "kustomize", kustomization).Output()
	if err != nil {
		return nil, errors.Wrapf(err, "failed to render %s", kustomization)
	}
	objects, err := Parse(variable.ReplaceAll(rendered, []byte("$1")))
	if err == nil && len(objects) == 0 {
		err = errors.Errorf("%s is empty", kustomization)
	}
	return objects, err
}
