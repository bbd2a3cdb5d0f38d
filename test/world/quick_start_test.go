// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

const quickStart = "../../docs/quick-start.md"

// The sections of the page with commands that do not run here: they need Docker, start the world, or delete it.
var notRun = []string{"With kind and Docker", "A build of a checkout", "Without Docker", "A Node of kind", "Clean up"}

var (
	fence = regexp.MustCompile("(?s)\n```([a-z]*)\n(.*?)\n```\n")
	// What differs in every run: names that Kubernetes generates, times, ages, and UIDs.
	generated = regexp.MustCompile(`\bquick-workers(-[a-z0-9]{5})+\b`)
	timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	age       = regexp.MustCompile(`\b(\d+[hms])+\b`)
	padding   = regexp.MustCompile(`[ \t]+`)
)

// command is a block of commands of the page and the output that the page shows.
type command struct{ script, output string }

// commandsOf returns the manifest of the page and the commands that run here.
func commandsOf(page string) (manifest string, commands []command) {
	for _, section := range regexp.MustCompile(`(?m)^#+ `).Split(page, -1) {
		title, _, _ := strings.Cut(section, "\n")
		for _, skipped := range notRun {
			if title == skipped {
				section = ""
			}
		}
		for _, block := range fence.FindAllStringSubmatch(section, -1) {
			switch {
			case block[1] == "yaml":
				manifest = block[2]
			case block[1] == "sh":
				commands = append(commands, command{script: block[2]})
			case len(commands) > 0:
				commands[len(commands)-1].output = block[2]
			}
		}
	}
	return manifest, commands
}

// normalized is output without what differs in every run.
func normalized(output string) string {
	output = generated.ReplaceAllString(output, "GENERATED")
	output = timestamp.ReplaceAllString(output, "TIME")
	output = age.ReplaceAllString(output, "AGE")
	lines := strings.Split(strings.TrimSpace(output), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(padding.ReplaceAllString(line, " "))
	}
	return strings.Join(lines, "\n")
}

// A reader runs the commands of the page in one shell, in the order of the page, and sees the output of the page.
func TestQuickStart_Commands_PrintTheOutputOfThePage(t *testing.T) {
	t.Parallel()
	keepsItsMemory(t)
	g := NewWithT(t)
	page, err := os.ReadFile(quickStart)
	g.Expect(err).ToNot(HaveOccurred())
	manifest, commands := commandsOf(string(page))
	g.Expect(manifest).ToNot(BeEmpty())
	g.Expect(len(commands)).To(BeNumerically(">", 5))

	w := theWorld(t)
	c := ownCluster(t, world.Shape{Name: "quick", Workers: 3})
	t.Cleanup(func() { _ = c.Delete(context.Background()) })
	plugin, err := w.Plugin(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	folder := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(folder, "check.yaml"), []byte(manifest), 0o600)).To(Succeed())
	script := "set -eu -o pipefail\n"
	for i, command := range commands {
		script += fmt.Sprintf("echo '=== %d'\n%s\n", i, command.script)
	}
	shell := exec.CommandContext(t.Context(), "bash", "-c", script)
	shell.Dir = folder
	shell.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig, "PATH="+strings.Join([]string{filepath.Dir(plugin), filepath.Dir(w.Plane.Kubectl), os.Getenv("PATH")}, ":"))
	begin := time.Now()
	output, err := shell.CombinedOutput()
	t.Logf("the commands took %s\n%s", time.Since(begin).Round(time.Second), output)
	g.Expect(err).ToNot(HaveOccurred(), string(output))
	for i, command := range commands {
		_, printed, _ := strings.Cut(string(output), fmt.Sprintf("=== %d\n", i))
		printed, _, _ = strings.Cut(printed, fmt.Sprintf("=== %d\n", i+1))
		// "..." on the page stands for lines that it leaves out.
		for part := range strings.SplitSeq(normalized(command.output), "\n...\n") {
			g.Expect(normalized(printed)).To(ContainSubstring(part), "output of:\n%s\n%s", command.script, printed)
		}
	}
}
