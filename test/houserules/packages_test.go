//go:build houserules

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
)

// maxFiles is how many files a package of the product may have, and maxAdapterLines how many lines an adapter, without tests.
const (
	maxFiles        = 18
	maxAdapterLines = 900
)

func TestPackages_Size_IsLimited(t *testing.T) {
	g := NewWithT(t)
	files, lines := map[string]int{}, map[string]int{}
	for _, file := range tracked(t) {
		if !regexp.MustCompile(`^(internal|controllers)/.*\.go$`).MatchString(file) || strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, file))
		g.Expect(err).ToNot(HaveOccurred())
		files[path.Dir(file)]++
		lines[path.Dir(file)] += strings.Count(string(content), "\n")
	}
	g.Expect(files).To(HaveKey("internal/healthcheck"))
	g.Expect(lines).To(HaveKey("controllers/machinehealthcheck"))
	for dir, count := range files {
		g.Expect(count).To(BeNumerically("<=", maxFiles), "%s has too many files: split the package", dir)
	}
	for dir, count := range lines {
		if path.Dir(dir) == "controllers" {
			g.Expect(count).To(BeNumerically("<=", maxAdapterLines), "%s has too many lines: internal/healthcheck is for every kind", dir)
		}
	}
}

// longLine is the first line of a Go file in a folder that is too long for the linter, or empty.
func longLine(t *testing.T, files []string, dir string) string {
	t.Helper()
	g := NewWithT(t)
	for _, file := range files {
		if path.Dir(file) != dir || !strings.HasSuffix(file, ".go") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, file))
		g.Expect(err).ToNot(HaveOccurred())
		for line := range strings.Lines(string(content)) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 140 {
				return line
			}
		}
	}
	return ""
}

// TestLineLength_Exceptions_AreNeeded: the packages that .golangci.yml excludes from lll have long lines.
func TestLineLength_Exceptions_AreNeeded(t *testing.T) {
	g := NewWithT(t)
	config, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	g.Expect(err).ToNot(HaveOccurred())
	files := tracked(t)
	exceptions := regexp.MustCompile(`\{path: '\^(?:(.*)/)?\[\^/\]\+\$', linters: \[lll\]\}`).FindAllStringSubmatch(string(config), -1)
	g.Expect(exceptions).To(HaveLen(strings.Count(string(config), "linters: [lll]")))
	for _, exception := range exceptions {
		dir := path.Clean(exception[1])
		g.Expect(longLine(t, files, dir)).ToNot(BeEmpty(), "%s has no line over 140 columns: remove its exception from .golangci.yml", dir)
	}
}
