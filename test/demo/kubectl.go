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

// kubectl runs commands as an administrator, and prints them as they are typed.
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

// run prints a command and its output.
func (k *kubectl) run(ctx context.Context, args ...string) error {
	out, err := k.output(ctx, args)
	return errors.Wrapf(err, "kubectl failed: %s", out)
}

// runRejected prints a command and its output. It returns an error if the command succeeds.
func (k *kubectl) runRejected(ctx context.Context, args ...string) error {
	if _, err := k.output(ctx, args); err == nil {
		return errors.New("the API server should have rejected this")
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
