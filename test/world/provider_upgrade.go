// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"os/exec"
	"path/filepath"

	"github.com/pkg/errors"
	clusterctl "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
)

// Version is the version of Remedy that a world begins with.
const Version = ourVersion

// Release adds a version of Remedy to the repository of clusterctl, and returns a manager of the same sources that reports this version.
func (w *World) Release(ctx context.Context, version string) (manager string, err error) {
	if err := w.repository.release(ctx, version); err != nil {
		return "", err
	}
	root, err := assets.ModuleDir(ctx, assets.ModulePath)
	if err != nil {
		return "", err
	}
	manager = filepath.Join(w.Dir, "manager-"+version)
	linked := "-s -w -X " + assets.ModulePath + "/internal/version.released=" + version
	// With the flags of the Makefile, nothing is compiled again.
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags=fieldsv1string", "-ldflags", linked, "-o", manager, ".")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return manager, errors.Wrapf(err, "the manager of %s does not build: %s", version, out)
}

// UpgradeRemedy is 'clusterctl upgrade apply --infrastructure remedy:<version>', also to an older version. Then the given manager runs with
// the arguments of the new Deployment; without one, the manager that the world began with runs.
func (w *World) UpgradeRemedy(ctx context.Context, version, manager string) error {
	w.say("installing Remedy %s with clusterctl", version)
	process, err := w.process(Remedy)
	if err != nil {
		return err
	}
	// clusterctl scales the old Deployment to zero, and waits for its Pods, before it deletes anything.
	if process.Running() {
		if err := process.Stop(); err != nil {
			return err
		}
	}
	err = w.Clusterctl.ApplyUpgrade(ctx, clusterctl.ApplyUpgradeOptions{
		Kubeconfig: clusterctl.Kubeconfig{Path: w.Kubeconfig}, InfrastructureProviders: []string{remedy.name + ":" + version},
	})
	if err != nil {
		return errors.Wrap(err, "clusterctl upgrade apply failed")
	}
	if manager == "" {
		manager = w.manager
	}
	if process.path, err = w.group.Wrap(Remedy, manager); err != nil {
		return err
	}
	if err := w.readRemedyDeployment(ctx, w.processes[Remedy]); err != nil {
		return err
	}
	return w.Restart(ctx, Remedy)
}
