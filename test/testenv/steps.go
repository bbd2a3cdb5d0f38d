// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/manifests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// root is the checkout, and clusterAPI the folder of Cluster API's definitions.
var (
	root       = sync.OnceValues(func() (string, error) { return assets.ModuleDir(context.Background(), assets.ModulePath) })
	clusterAPI = sync.OnceValues(func() (string, error) { return controlplane.ClusterAPICRDs(context.Background()) })
)

// AdminClient keeps the administrator's client in a variable.
func AdminClient(admin *client.Client) Step {
	return func(_ context.Context, e *Environment) error {
		*admin = e.API
		return nil
	}
}

// RemedyKinds installs the kinds of config/crd.
func RemedyKinds(_ context.Context, e *Environment) error {
	folder, err := root()
	if err != nil {
		return err
	}
	return e.InstallCRDs(filepath.Join(folder, "config", "crd", "bases"))
}

// ClusterAPIKinds installs kinds of Cluster API by their plurals, or all if there are none.
func ClusterAPIKinds(plurals ...string) Step {
	return func(_ context.Context, e *Environment) error {
		folder, err := clusterAPI()
		if err != nil {
			return err
		}
		if len(plurals) == 0 {
			return e.InstallCRDs(folder)
		}
		files := make([]string, 0, len(plurals))
		for _, plural := range plurals {
			files = append(files, clusterAPIFile(folder, plural))
		}
		return e.InstallCRDs(files...)
	}
}

func clusterAPIFile(folder, plural string) string {
	return filepath.Join(folder, "cluster.x-k8s.io_"+plural+".yaml")
}

// ClusterAPIKind reads a definition of Cluster API, for a test that changes it.
func ClusterAPIKind(plural string) (*apiextensionsv1.CustomResourceDefinition, error) {
	folder, err := clusterAPI()
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(clusterAPIFile(folder, plural))
	if err != nil {
		return nil, errors.WithStack(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	return crd, errors.WithStack(yaml.UnmarshalStrict(content, crd))
}

// RemediationKinds installs the requests and templates of remediators.
func RemediationKinds(kinds ...remediator.Kind) Step {
	return func(_ context.Context, e *Environment) error {
		var crds []*apiextensionsv1.CustomResourceDefinition
		for _, kind := range kinds {
			crds = append(crds, kind.CRDs()...)
		}
		return e.InstallCRDObjects(crds...)
	}
}

// Namespaces creates namespaces.
func Namespaces(names ...string) Step {
	return func(ctx context.Context, e *Environment) error {
		for _, name := range names {
			err := e.API.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
			if client.IgnoreAlreadyExists(err) != nil {
				return errors.Wrapf(err, "failed to create Namespace %s", name)
			}
		}
		return nil
	}
}

// Manifests creates the objects of the files that match a pattern below config.
func Manifests(pattern string) Step {
	return func(ctx context.Context, e *Environment) error {
		folder, err := root()
		if err != nil {
			return err
		}
		files, err := filepath.Glob(filepath.Join(folder, "config", pattern))
		if err != nil || len(files) == 0 {
			return errors.Errorf("no manifests match config/%s (%v)", pattern, err)
		}
		for _, file := range files {
			objects, err := manifests.Read(file)
			if err != nil {
				return err
			}
			for _, object := range objects {
				if err := client.IgnoreAlreadyExists(e.API.Create(ctx, object)); err != nil {
					return errors.Wrapf(err, "failed to create what %s holds", file)
				}
			}
		}
		return nil
	}
}

// ManagerRoles creates the namespace of the manager, and gives its ServiceAccount the permissions of config/rbac, and no others.
func ManagerRoles(ctx context.Context, e *Environment) error {
	if err := Namespaces(instance.Namespace)(ctx, e); err != nil {
		return err
	}
	return Manifests("rbac/*.yaml")(ctx, e)
}

// Kustomization applies a kustomization, which uses files of config.
func Kustomization(folder string) Step {
	return func(ctx context.Context, e *Environment) error {
		checkout, err := root()
		if err != nil {
			return err
		}
		objects, err := manifests.Render(ctx, e.Kubectl, filepath.Join(checkout, "config"), folder)
		for _, object := range objects {
			if err == nil {
				err = e.API.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership)
			}
		}
		return err
	}
}
