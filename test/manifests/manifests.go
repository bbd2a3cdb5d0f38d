// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests reads YAML files of Kubernetes objects.
package manifests

import (
	"bufio"
	"bytes"
	"io"
	"os"

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
