// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestShare_Command_PassesItsExitCodeOn(t *testing.T) {
	for command, code := range map[string]int{
		"exit 0":        0,
		"exit 7":        7,
		"kill -KILL $$": 128 + 9,
		// The signal comes back from the process that received it.
		"trap 'exit 3' TERM; kill -TERM $PPID; while :; do sleep 0.1; done": 3,
	} {
		t.Run(command, func(t *testing.T) {
			NewWithT(t).Expect(run([]string{"--", "/bin/sh", "-c", command})).To(Equal(code))
		})
	}
}

func TestShare_WrongCall_IsRefused(t *testing.T) {
	g := NewWithT(t)
	g.Expect(run(nil)).To(Equal(usageCode))
	g.Expect(run([]string{"--"})).To(Equal(usageCode))
	g.Expect(run([]string{"/does/not/exist"})).To(Equal(failedCode))
}

// TestShare_CommandEnds_LeavesNothing: no control plane starts unless a test leases it, and the socket is removed.
func TestShare_CommandEnds_LeavesNothing(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("TMPDIR", t.TempDir())
	g.Expect(run([]string{"/bin/sh", "-c", `test -S "$REMEDY_TEST_CONTROL_PLANES"`})).To(BeZero())
	g.Expect(filepath.Glob(filepath.Join(os.TempDir(), "*"))).To(BeEmpty())
}
