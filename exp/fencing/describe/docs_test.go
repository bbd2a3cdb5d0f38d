// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
)

// The page for users has every reason, metric and event, and the output of an example.
func TestDocs_Names_AreOnThePage(t *testing.T) {
	read := func(g *WithT, path ...string) string {
		text, err := os.ReadFile(filepath.Join(path...))
		g.Expect(err).ToNot(HaveOccurred())
		return string(text)
	}
	page := read(NewWithT(t), "..", "..", "..", "docs", "fencing.md")
	for name, test := range map[string]struct {
		file, pattern string
		// least is how many names there are at least, so that the pattern is one that finds them.
		least int
	}{
		"reasons": {"../lifecycle/reasons.go", `Reason\w+ += "(\w+)"`, 30},
		"metrics": {"../controller/metrics.go", `"(remedy_\w+)"`, 6},
		"events":  {"../controller/events.go", `corev1\.EventType\w+, "(\w+)"`, 10},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found := regexp.MustCompile(test.pattern).FindAllStringSubmatch(read(g, test.file), -1)
			g.Expect(len(found)).To(BeNumerically(">=", test.least))
			for _, match := range found {
				g.Expect(page).To(MatchRegexp("(?m)^\\| `"+match[1]+"`"), "docs/fencing.md has no row for "+match[1])
			}
		})
	}
	NewWithT(t).Expect(page).To(ContainSubstring(read(NewWithT(t), "testdata", "waiting-for-off.golden.txt")))
}
