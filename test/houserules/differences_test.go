//go:build houserules

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// named are the words in a text that are marked as code, and what of them are tests and folders.
var (
	named  = regexp.MustCompile("`([^`]+)`")
	aTest  = regexp.MustCompile(`^Test[A-Z]\w*$`)
	folder = regexp.MustCompile(`^(controllers|internal|test)/[a-z0-9/]+$`)
)

// proofs are the tests that a text names, with their folder: those before the folder, back to the folder
// before. A test for which no folder is named has the folder "".
func proofs(text string) [][2]string {
	var found [][2]string
	var tests []string
	told := true
	for _, match := range named.FindAllStringSubmatch(text, -1) {
		switch word := match[1]; {
		case aTest.MatchString(word):
			if told {
				tests, told = nil, false
			}
			tests = append(tests, word)
		case folder.MatchString(word):
			for _, test := range tests {
				found = append(found, [2]string{word, test})
			}
			told = true
		}
	}
	if !told {
		for _, test := range tests {
			found = append(found, [2]string{"", test})
		}
	}
	return found
}

// TestEveryDifferenceNamesTestsThatExist: what docs/differences.md promises is held to by the tests that it names, under every heading.
func TestEveryDifferenceNamesTestsThatExist(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile(filepath.Join(root, "docs", "differences.md"))
	g.Expect(err).ToNot(HaveOccurred())
	sections := regexp.MustCompile(`(?m)^## `).Split(string(text), -1)
	g.Expect(len(sections)).To(BeNumerically(">", 20))
	for _, section := range sections[1:] {
		heading, rest, _ := strings.Cut(section, "\n")
		tests := proofs(rest)
		g.Expect(tests).ToNot(BeEmpty(), "no test is named for %q", heading)
		for _, proof := range tests {
			g.Expect(proof[0]).ToNot(BeEmpty(), "%q does not name the folder of %s", heading, proof[1])
			g.Expect(testsIn(t, proof[0])).To(ContainElement(proof[1]), "%q names %s in %q", heading, proof[1], proof[0])
		}
	}
}

// testsIn are the tests in the files of a folder.
func testsIn(t *testing.T, dir string) []string {
	t.Helper()
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	g.Expect(err).ToNot(HaveOccurred())
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		g.Expect(err).ToNot(HaveOccurred())
		for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			names = append(names, match[1])
		}
	}
	return names
}
