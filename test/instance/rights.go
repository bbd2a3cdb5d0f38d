// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
)

// Grant makes the namespace and gives the manager's ServiceAccount the rights of config/rbac, and no others.
func Grant(ctx context.Context, cp *controlplane.ControlPlane) error {
	c, err := cp.Client()
	if err != nil {
		return err
	}
	root, err := assets.ModuleDir(ctx, assets.ModulePath)
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if err := client.IgnoreAlreadyExists(c.Create(ctx, namespace)); err != nil {
		return errors.Wrap(err, "failed to make the namespace")
	}
	files, err := filepath.Glob(filepath.Join(root, "config", "rbac", "*.yaml"))
	if err != nil || len(files) == 0 {
		return errors.Errorf("no manifests in config/rbac (%v)", err)
	}
	for _, file := range files {
		objects, err := ReadManifests(file)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if err := client.IgnoreAlreadyExists(c.Create(ctx, object)); err != nil {
				return errors.Wrapf(err, "failed to create what %s holds", file)
			}
		}
	}
	return nil
}

// ReadManifests reads all the objects of a YAML file.
func ReadManifests(path string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	var objects []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, errors.Wrapf(err, "failed to read %s", path)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, errors.Wrapf(err, "failed to read %s", path)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
