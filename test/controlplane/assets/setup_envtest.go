// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"
)

const (
	// connectLimit is how long the release index may take to answer. Without a network it fails at once;
	// behind a firewall that drops packets this is all the time that is lost.
	connectLimit = 5 * time.Second
	// downloadLimit is for the archive itself, about 100 MB.
	downloadLimit = 5 * time.Minute
)

// SetupEnvtest downloads a release of etcd, kube-apiserver and kubectl, and verifies its checksum. It is tried once.
func SetupEnvtest() Source {
	return Source{Name: "setup-envtest", Make: func(ctx context.Context, wanted []Binary, dir string, progress io.Writer) error {
		if !slices.ContainsFunc(wanted, func(b Binary) bool { return slices.Contains(Basic(), b) }) {
			return errors.Errorf("has no %s", names(wanted))
		}
		root, err := moduleRoot(ctx)
		if err != nil {
			return err
		}
		tool := filepath.Join(dir, "setup-envtest")
		build := exec.CommandContext(ctx, "go", "build", "-o", tool, "sigs.k8s.io/controller-runtime/tools/setup-envtest")
		build.Dir = filepath.Join(root, "hack", "tools", "setup-envtest")
		build.Env = buildEnv()
		build.Stderr = progress
		if err := build.Run(); err != nil {
			return errors.Wrap(err, "the tool does not build")
		}
		return download(ctx, tool, dir)
	}}
}

func download(ctx context.Context, tool, dir string) error {
	version := minor(KubernetesVersion) + ".x"
	if _, err := runLimited(ctx, connectLimit, tool, "list", version); err != nil {
		return errors.Wrap(err, "the releases cannot be reached")
	}
	releases := filepath.Join(dir, "releases")
	out, err := runLimited(ctx, downloadLimit, tool, "use", version, "--bin-dir", releases, "--print", "path")
	if err != nil {
		return errors.Wrap(err, "the download failed")
	}
	for _, binary := range Basic() {
		// Renamed out of the release's own folder to where the caller looks for it.
		if err := os.Rename(filepath.Join(strings.TrimSpace(out), string(binary)), filepath.Join(dir, string(binary))); err != nil {
			return errors.Wrap(err, "the release is incomplete")
		}
	}
	return nil
}

// runLimited runs a tool and returns what it prints; an error carries what it complained about.
func runLimited(ctx context.Context, limit time.Duration, tool string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// The whole group is ended, or a child of the tool would outlast the limit.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", errors.Errorf("no answer within %s", limit)
	}
	return stdout.String(), errors.Wrap(err, strings.TrimSpace(stderr.String()))
}
