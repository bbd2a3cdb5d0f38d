//go:build houserules

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// medik8sRules is the table of the rules of medik8s' NodeHealthCheck.
const medik8sRules = "test/medik8s-rules.md"

// lettered are the rules that have parts. The first one has only parts.
var lettered = map[int][]string{50: {"50a", "50b", "50c", "50d", "50e", "50f"}, 59: {"59", "59a", "59b"}}

// tableRows are the cells of the rows of all tables of a page, without their headings.
func tableRows(text string) [][]string {
	var rows [][]string
	for _, table := range regexp.MustCompile(`(?m)^\|[-|]+\|\n((?:\|.*\|\n)+)`).FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(table[1]) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// unproven reports what is wrong with a cell: it names tests that exist, or links a section that exists.
func unproven(cell string, sections []string, tests func(dir string) []string) string {
	found := false
	for _, link := range pageLink.FindAllStringSubmatch(cell, -1) {
		found = true
		if link[1] != "../docs/differences.md" || !slices.Contains(sections, link[2]) {
			return "there is no section " + link[1] + link[2]
		}
	}
	for _, proof := range proofs(cell) {
		found = true
		if proof[0] == "" || !slices.Contains(tests(proof[0]), proof[1]) {
			return fmt.Sprintf("there is no %s in %q", proof[1], proof[0])
		}
	}
	if !found {
		return "it names no test and no difference"
	}
	return ""
}

// Every rule of medik8s, and every behavior that its tests verify, has a test of Remedy or is an intended difference.
func TestMedik8sRules_EachRow_NamesTestOrDifference(t *testing.T) {
	g := NewWithT(t)
	page, err := os.ReadFile(filepath.Join(root, medik8sRules))
	g.Expect(err).ToNot(HaveOccurred())
	differences, err := os.ReadFile(filepath.Join(root, "docs", "differences.md"))
	g.Expect(err).ToNot(HaveOccurred())
	sections := anchors(string(differences))
	var rules, want []string
	for _, row := range tableRows(string(page)) {
		g.Expect(unproven(row[len(row)-1], sections, func(dir string) []string { return testsIn(t, dir) })).To(BeEmpty(), "%q", row[0])
		if len(row) == 3 {
			rules = append(rules, row[0])
		}
	}
	for i := 1; i <= 70; i++ {
		if parts, found := lettered[i]; found {
			want = append(want, parts...)
		} else {
			want = append(want, fmt.Sprint(i))
		}
	}
	g.Expect(rules).To(Equal(want))
}

func TestUnproven_Cell_NeedsTestOrSection(t *testing.T) {
	g := NewWithT(t)
	g.Expect(tableRows("| a | b |\n|---|---|\n| 1 | x |\n| 2 | y |\n\ntext\n\n| c |\n|---|\n| z |\n")).
		To(Equal([][]string{{"1", "x"}, {"2", "y"}, {"z"}}))
	check := func(cell string) string {
		return unproven(cell, []string{"#a-section"}, func(string) []string { return []string{"TestOne"} })
	}
	g.Expect(check("`TestOne` in `test/a`; [A section](../docs/differences.md#a-section)")).To(BeEmpty())
	g.Expect(check("`TestTwo` in `test/a`")).To(Equal(`there is no TestTwo in "test/a"`))
	g.Expect(check("`TestOne`")).To(Equal(`there is no TestOne in ""`))
	g.Expect(check("[Other](../docs/differences.md#other)")).To(Equal("there is no section ../docs/differences.md#other"))
	g.Expect(check("[Other](../docs/faq.md#a-section)")).To(Equal("there is no section ../docs/faq.md#a-section"))
	g.Expect(check("later")).To(Equal("it names no test and no difference"))
}
