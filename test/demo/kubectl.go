// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

// kubectl runs commands as an administrator, and shows them as a person would type them.
type kubectl struct {
	path, dir string
}

func newKubectl(cp *controlplane.ControlPlane) (*kubectl, error) {
	dir, err := os.MkdirTemp("", "remedy-demo-")
	if err != nil {
		return nil, errors.WithStack(err)
	}
	k := &kubectl{path: cp.Kubectl, dir: dir}
	return k, cp.WriteKubeconfig(controlplane.User{Name: "admin", Groups: []string{"system:masters"}}, k.kubeconfig())
}

func (k *kubectl) kubeconfig() string { return filepath.Join(k.dir, "kubeconfig") }

func (k *kubectl) clean() { _ = os.RemoveAll(k.dir) }

// run shows a command and what it prints.
func (k *kubectl) run(ctx context.Context, args ...string) error {
	out, err := k.output(ctx, args)
	return errors.Wrapf(err, "kubectl failed: %s", out)
}

// refused shows a command that must not succeed.
func (k *kubectl) refused(ctx context.Context, args ...string) error {
	if _, err := k.output(ctx, args); err == nil {
		return errors.New("this should have been refused")
	}
	return nil
}

func (k *kubectl) output(ctx context.Context, args []string) (string, error) {
	fmt.Printf("\n  $ kubectl %s\n", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, k.path, append([]string{"--kubeconfig", k.kubeconfig()}, args...)...)
	out, err := cmd.CombinedOutput()
	text := strings.TrimRight(string(out), "\n")
	fmt.Printf("  %s\n", strings.ReplaceAll(text, "\n", "\n  "))
	return text, errors.WithStack(err)
}
