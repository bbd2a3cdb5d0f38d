//go:build houserules

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
)

// maxFiles is how many files a package of the product may have, without its tests.
const maxFiles = 18

// largePackages are the packages that may have more files: none.
var largePackages []string

// tooManyFiles reports the packages of the product that have more files than allowed, and the exceptions that are not needed.
func tooManyFiles(files, exceptions []string) []string {
	counts := map[string]int{}
	for _, file := range files {
		if regexp.MustCompile(`^(internal|controllers)/.*\.go$`).MatchString(file) && !strings.HasSuffix(file, "_test.go") {
			counts[path.Dir(file)]++
		}
	}
	var problems []string
	for dir, count := range counts {
		if count > maxFiles && !slices.Contains(exceptions, dir) {
			problems = append(problems, fmt.Sprintf("%s has %d files, at most %d are allowed: split the package", dir, count, maxFiles))
		}
	}
	for _, dir := range exceptions {
		if counts[dir] <= maxFiles {
			problems = append(problems, fmt.Sprintf("%s has %d files: remove it from largePackages", dir, counts[dir]))
		}
	}
	slices.Sort(problems)
	return problems
}

// maxAdapterLines is how many lines an adapter of a kind of checks may have, without its tests.
const maxAdapterLines = 900

// tooManyLines reports the adapters that have more lines than allowed.
func tooManyLines(lines map[string]int) []string {
	var problems []string
	for dir, count := range lines {
		if count > maxAdapterLines {
			problems = append(problems, fmt.Sprintf("%s has %d lines, at most %d are allowed: what every kind needs is in internal/healthcheck",
				dir, count, maxAdapterLines))
		}
	}
	slices.Sort(problems)
	return problems
}

func TestAdapters_Lines_AreAtMost900(t *testing.T) {
	g := NewWithT(t)
	lines := map[string]int{}
	for _, file := range tracked(t) {
		if regexp.MustCompile(`^controllers/[^/]+/[^/]+\.go$`).MatchString(file) && !strings.HasSuffix(file, "_test.go") {
			content, err := os.ReadFile(filepath.Join("..", "..", file))
			g.Expect(err).ToNot(HaveOccurred())
			lines[path.Dir(file)] += strings.Count(string(content), "\n")
		}
	}
	g.Expect(lines).To(HaveKey("controllers/machinehealthcheck"))
	g.Expect(tooManyLines(lines)).To(BeEmpty())
}

func TestTooManyLines_BrokenRule_IsReported(t *testing.T) {
	g := NewWithT(t)
	g.Expect(tooManyLines(map[string]int{"controllers/a": 900})).To(BeEmpty())
	g.Expect(tooManyLines(map[string]int{"controllers/a": 901})).To(ConsistOf(ContainSubstring("controllers/a has 901 lines")))
}

func TestPackages_TooManyFiles_AreExceptions(t *testing.T) {
	NewWithT(t).Expect(tooManyFiles(tracked(t), largePackages)).To(BeEmpty())
}

func TestTooManyFiles_BrokenRule_IsReported(t *testing.T) {
	g := NewWithT(t)
	of := func(dir string, count int) []string {
		files := make([]string, 0, 2*count)
		for i := range count {
			files = append(files, fmt.Sprintf("%s/file%d.go", dir, i), fmt.Sprintf("%s/file%d_test.go", dir, i))
		}
		return files
	}
	g.Expect(tooManyFiles(slices.Concat(of("internal/a", 18), of("test/b", 30)), nil)).To(BeEmpty())
	g.Expect(tooManyFiles(of("internal/a", 19), nil)).To(ConsistOf("internal/a has 19 files, at most 18 are allowed: split the package"))
	g.Expect(tooManyFiles(of("internal/a", 19), []string{"internal/a"})).To(BeEmpty())
	g.Expect(tooManyFiles(of("internal/a", 18), []string{"internal/a"})).To(ConsistOf("internal/a has 18 files: remove it from largePackages"))
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
