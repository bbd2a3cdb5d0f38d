// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"path/filepath"
	"runtime/debug"

	"github.com/pkg/errors"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client"
)

// install is 'clusterctl init', with its library: the inventory, the namespaces, the roles and the definitions are what a user would have.
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
	components, err := w.Clusterctl.Init(ctx, options)
	if err != nil {
		return errors.Wrap(err, "clusterctl init failed")
	}
	for _, c := range components {
		for _, p := range w.options.installed() {
			if c.ManifestLabel() == p.label {
				w.namespaces[p.process] = c.TargetNamespace()
			}
		}
	}
	return nil
}
