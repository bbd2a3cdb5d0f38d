// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	clusterctl "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
)

// RunClusterctl runs the program clusterctl with the configuration of this world, without a network and without the files of the user. An
// error has what it printed.
func (w *World) RunClusterctl(ctx context.Context, args ...string) (string, error) {
	paths, err := assets.FindClusterAPI(ctx)
	if err != nil {
		return "", err
	}
	home := filepath.Join(w.Dir, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", errors.Wrap(err, "failed to make a home folder for clusterctl")
	}
	isolated := []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "GOPROXY=off", "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "PATH=/none"}
	out, err := runWith(ctx, isolated, paths[assets.Clusterctl], append(args, "--config="+filepath.Join(w.Dir, "clusterctl.yaml"))...)
	return string(out), err
}

// program is the program clusterctl where tests of the world use the library, and the library for the rest.
type program struct {
	clusterctl.Client
	world *World
}

func (p program) run(ctx context.Context, kubeconfig clusterctl.Kubeconfig, args ...string) error {
	_, err := p.world.RunClusterctl(ctx, append(args, "--kubeconfig="+kubeconfig.Path)...)
	return err
}

func repeated(flag string, values []string) []string {
	flags := make([]string, 0, len(values))
	for _, value := range values {
		flags = append(flags, flag+"="+value)
	}
	return flags
}

// Init returns no components: the program prints their names only.
func (p program) Init(ctx context.Context, o clusterctl.InitOptions) ([]clusterctl.Components, error) {
	args := []string{"init"}
	if o.CoreProvider != "" {
		args = append(args, "--core="+o.CoreProvider)
	}
	args = append(args, repeated("--bootstrap", o.BootstrapProviders)...)
	args = append(args, repeated("--control-plane", o.ControlPlaneProviders)...)
	return nil, p.run(ctx, o.Kubeconfig, append(args, repeated("--infrastructure", o.InfrastructureProviders)...)...)
}

// ApplyUpgrade upgrades infrastructure providers only.
func (p program) ApplyUpgrade(ctx context.Context, o clusterctl.ApplyUpgradeOptions) error {
	return p.run(ctx, o.Kubeconfig, append([]string{"upgrade", "apply"}, repeated("--infrastructure", o.InfrastructureProviders)...)...)
}

// Delete deletes infrastructure providers only.
func (p program) Delete(ctx context.Context, o clusterctl.DeleteOptions) error {
	return p.run(ctx, o.Kubeconfig, append([]string{"delete"}, repeated("--infrastructure", o.InfrastructureProviders)...)...)
}

// Move moves one namespace.
func (p program) Move(ctx context.Context, o clusterctl.MoveOptions) error {
	return p.run(ctx, o.FromKubeconfig, "move", "--to-kubeconfig="+o.ToKubeconfig.Path, "--namespace="+o.Namespace)
}
