// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build houserules

package houserules_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

var (
	pageLink    = regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)
	pageHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	pageAnchor  = regexp.MustCompile(`<a id="([^"]*)">`)
	codeBlock   = regexp.MustCompile("(?s)```.*?```")
)

// anchors are the anchors of a page, and those that GitHub gives to its headings.
func anchors(text string) []string {
	headings := pageHeading.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1)
	all := make([]string, 0, len(headings))
	for _, heading := range headings {
		all = append(all, "#"+strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(heading[1]), ""), " ", "-"))
	}
	for _, anchor := range pageAnchor.FindAllStringSubmatch(text, -1) {
		all = append(all, "#"+anchor[1])
	}
	return all
}

// Every page for users can be reached from the README, and no link of a page that can be reached leads nowhere.
func TestPages_Links_ReachAllPages(t *testing.T) {
	g := NewWithT(t)
	read := func(page string) string {
		text, err := os.ReadFile(filepath.Join(root, page))
		g.Expect(err).ToNot(HaveOccurred())
		return string(text)
	}
	reached := []string{"README.md"}
	for i := 0; i < len(reached); i++ {
		page := reached[i]
		for _, link := range pageLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(read(page), ""), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			target := page
			if link[1] != "" {
				target = filepath.Join(filepath.Dir(page), link[1])
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: %s does not exist", page, link[0])
				continue
			}
			isPage := filepath.Ext(target) == ".md"
			if isPage && link[2] != "" && !slices.Contains(anchors(read(target)), link[2]) {
				t.Errorf("%s: %s has no such anchor", page, link[0])
			}
			if isPage && !slices.Contains(reached, target) {
				reached = append(reached, target)
			}
		}
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	g.Expect(err).ToNot(HaveOccurred())
	for _, page := range pages {
		g.Expect(reached).To(ContainElement(filepath.Join("docs", filepath.Base(page))))
	}
}
