// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Kubectl is the beginning of a command line, for another terminal, with a kubeconfig of this world:
// it goes into the world's network namespace first.
func (w *World) Kubectl(kubeconfig string) string {
	return strings.Join(append(enter(), w.Plane.Kubectl, "--kubeconfig", kubeconfig), " ")
}

// Shell is a command line, for another terminal, of a shell in which kubectl reaches the management cluster and finds its plugins in a
// folder.
func (w *World) Shell(plugins string) string {
	path := fmt.Sprintf("PATH=%s:%s:$PATH", plugins, filepath.Dir(w.Plane.Kubectl))
	return strings.Join(append(enter(), "env", "KUBECONFIG="+w.Kubeconfig, path, "bash"), " ")
}

// enter is the beginning of a command line that goes into the network namespace of this program.
func enter() []string {
	if is, _ := Isolated(); !is {
		return nil
	}
	words := []string{"nsenter", fmt.Sprintf("--target=%d", os.Getpid()), "--net"}
	if os.Getuid() != 0 {
		words = append(words, "--user", "--preserve-credentials")
	}
	return words
}
