// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"path/filepath"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/manifests"
)

// Grant makes the namespace and gives the manager's ServiceAccount the permissions of config/rbac, and no others.
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
		objects, err := manifests.Read(file)
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
