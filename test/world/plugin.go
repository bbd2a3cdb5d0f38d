// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane/assets"
)

// builtPlugin is the environment variable with the path of the kubectl plugin.
const builtPlugin = "REMEDY_WORLD_PLUGIN"

// Plugin is the kubectl plugin: the value of REMEDY_WORLD_PLUGIN; without that, it is built. kubectl finds it if its folder is in PATH.
func (w *World) Plugin(ctx context.Context) (string, error) {
	if built := os.Getenv(builtPlugin); built != "" {
		return filepath.Abs(built)
	}
	root, err := assets.ModuleDir(ctx, assets.ModulePath)
	if err != nil {
		return "", err
	}
	path := filepath.Join(w.Dir, "kubectl-remedy")
	cmd := exec.CommandContext(ctx, "go", "build", "-tags=fieldsv1string", "-o", path, "./cmd/kubectl-remedy")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return path, errors.Wrapf(err, "the kubectl plugin does not build: %s", out)
}
