// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"os"
	"strings"
)

// Kubectl is the beginning of a command line, for another terminal, with a kubeconfig of this world:
// it goes into the world's network namespace first.
func (w *World) Kubectl(kubeconfig string) string {
	words := []string{w.Plane.Kubectl, "--kubeconfig", kubeconfig}
	if is, _ := Isolated(); is {
		enter := []string{"nsenter", fmt.Sprintf("--target=%d", os.Getpid()), "--net"}
		if os.Getuid() != 0 {
			enter = append(enter, "--user", "--preserve-credentials")
		}
		words = append(enter, words...)
	}
	return strings.Join(words, " ")
}
