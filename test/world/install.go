// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"path/filepath"
	"runtime/debug"

	"github.com/pkg/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client"
)

// install is 'clusterctl init', with its library or its program: the inventory, the namespaces, the roles and the definitions are what a user would have.
func (w *World) install(ctx context.Context) error {
	// Three megabytes of YAML become very many small objects, which all stay until the end: to look for garbage in between only takes time.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	configuration, err := w.repository.configuration(ctx, filepath.Join(w.Dir, "clusterctl.yaml"))
	if err != nil {
		return err
	}
	w.Clusterctl, err = client.New(ctx, "", client.InjectConfig(configuration))
	if err != nil {
		return errors.Wrap(err, "clusterctl's library does not start")
	}
	if w.options.ClusterctlProgram {
		w.Clusterctl = program{Client: w.Clusterctl, world: w}
	}
	options := client.InitOptions{Kubeconfig: client.Kubeconfig{Path: w.Kubeconfig}}
	for _, p := range w.options.installed() {
		name := p.name + ":" + p.version
		switch p.kind { //nolint:exhaustive // there are no others here.
		case clusterctlv1.CoreProviderType:
			options.CoreProvider = name
		case clusterctlv1.BootstrapProviderType:
			options.BootstrapProviders = append(options.BootstrapProviders, name)
		case clusterctlv1.ControlPlaneProviderType:
			options.ControlPlaneProviders = append(options.ControlPlaneProviders, name)
		default:
			options.InfrastructureProviders = append(options.InfrastructureProviders, name)
		}
	}
	if _, err := w.Clusterctl.Init(ctx, options); err != nil {
		return errors.Wrap(err, "clusterctl init failed")
	}
	return w.readNamespaces(ctx)
}

// readNamespaces reads from clusterctl's inventory where each provider is.
func (w *World) readNamespaces(ctx context.Context) error {
	inventory := &metav1.PartialObjectMetadataList{}
	inventory.SetGroupVersionKind(clusterctlv1.GroupVersion.WithKind("ProviderList"))
	if err := w.Client.List(ctx, inventory); err != nil {
		return errors.Wrap(err, "failed to list the providers that clusterctl has installed")
	}
	for i := range inventory.Items {
		for _, p := range w.options.installed() {
			if inventory.Items[i].Name == p.label {
				w.namespaces[p.process] = inventory.Items[i].Namespace
			}
		}
	}
	return nil
}
