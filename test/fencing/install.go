// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"context"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing/bmc"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/manifests"
)

// FencingAccount is the ServiceAccount of the fencing manager.
const FencingAccount = "remedy-fencing-manager"

// SecretName is that of the Secret with the user and the password of all management controllers.
const SecretName = "bmc"

// install applies what a release has.
func (w *World) install(ctx context.Context) error {
	if w.options.ClusterAPI {
		if err := w.installClusterAPI(ctx); err != nil {
			return err
		}
	}
	root, err := assets.ModuleDir(ctx, assets.ModulePath)
	if err != nil {
		return err
	}
	if err := client.IgnoreAlreadyExists(w.API.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}})); err != nil {
		return errors.WithStack(err)
	}
	for _, folder := range []string{"default", "fencing"} {
		config := filepath.Join(root, "config")
		objects, err := manifests.Render(ctx, w.Kubectl, config, filepath.Join(config, folder))
		if err != nil {
			return err
		}
		if err := w.apply(ctx, objects); err != nil {
			return err
		}
	}
	return w.CreateSecret(ctx, Namespace, SecretName, bmc.Password)
}

// apply creates objects, the definitions first. No controller runs Deployments.
func (w *World) apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	var definitions []*apiextensionsv1.CustomResourceDefinition
	var rest []*unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() != "CustomResourceDefinition" {
			rest = append(rest, object)
			continue
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, crd); err != nil {
			return errors.WithStack(err)
		}
		definitions = append(definitions, crd)
	}
	if err := w.InstallCRDObjects(definitions...); err != nil {
		return err
	}
	for _, object := range rest {
		err := w.API.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership)
		if err != nil {
			return errors.Wrapf(err, "failed to apply %s %s", object.GetKind(), object.GetName())
		}
	}
	return nil
}

// CreateSecret creates a Secret for management controllers.
func (w *World) CreateSecret(ctx context.Context, namespace, name, password string) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		StringData: map[string]string{"username": bmc.User, "password": password},
	}
	return errors.Wrap(w.API.Create(ctx, secret), "failed to create the Secret of management controllers")
}

// startManagers starts the managers of Remedy, each as its own ServiceAccount.
func (w *World) startManagers() error {
	if w.options.Manager == "" {
		return nil
	}
	var err error
	account, err := w.Config(controlplane.ServiceAccount(Namespace, FencingAccount))
	if err != nil {
		return err
	}
	if w.Tap, err = newTap(account); err != nil {
		return err
	}
	w.ending = append(w.ending, w.Tap.close)
	kubeconfig := filepath.Join(w.Dir, "fencing.kubeconfig")
	if err := os.WriteFile(kubeconfig, w.Tap.kubeconfig(), 0o600); err != nil {
		return errors.WithStack(err)
	}
	w.Fencing, err = w.startManager("fencing-manager", kubeconfig, "--controllers=fencing", "--feature-gates=NodeFencing=true")
	if err != nil {
		return err
	}
	w.Tap.manager = w.Fencing
	if w.options.Checks {
		kubeconfig := filepath.Join(w.Dir, "checks.kubeconfig")
		if err := w.WriteKubeconfig(controlplane.ServiceAccount(Namespace, instance.ServiceAccount), kubeconfig); err != nil {
			return err
		}
		if w.Checks, err = w.startManager("manager", kubeconfig, "--controllers=checks"); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) startManager(name, kubeconfig string, args ...string) (*Process, error) {
	health, err := w.takePort()
	if err != nil {
		return nil, err
	}
	diagnostics, err := w.takePort()
	if err != nil {
		return nil, err
	}
	p, err := w.newProcess(name, w.options.Manager, []string{"POD_NAMESPACE=" + Namespace}, append(args,
		"--kubeconfig="+kubeconfig, "--health-addr="+health.Address(), "--diagnostics-address="+diagnostics.Address(), "--v=2")...)
	if err != nil {
		return nil, err
	}
	p.ReadyURL = "http://" + health.Address() + "/readyz"
	return p, p.Start()
}
