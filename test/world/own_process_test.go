// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// ownProcess is the environment variable with the name of the test that this program was started for.
const ownProcess = "WORLD_TEST_OWN_PROCESS"

// runsInOwnProcess runs a test in a process of its own, with a network namespace and a management cluster of its own, while other tests run
// here. It reports whether this is not that process: then the test has run. Where the kernel refuses network namespaces, the test runs
// here, before those that run in parallel.
func runsInOwnProcess(t *testing.T) bool {
	t.Helper()
	if isolated, _ := world.Isolated(); !isolated || os.Getenv(ownProcess) == t.Name() {
		return false
	}
	t.Parallel()
	g := NewWithT(t)
	program, err := os.Executable()
	g.Expect(err).ToNot(HaveOccurred())
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.timeout=20m", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(withoutIsolation(), ownProcess+"="+t.Name())
	output, err := cmd.CombinedOutput()
	t.Logf("%s", output)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(string(output)).To(ContainSubstring("--- PASS: "+t.Name()), "the other process has run no such test")
	return true
}

// withoutIsolation is the environment of this program for one that makes a network namespace of its own.
func withoutIsolation() []string {
	var kept []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "REMEDY_WORLD_ISOLATION=") {
			kept = append(kept, pair)
		}
	}
	return kept
}
