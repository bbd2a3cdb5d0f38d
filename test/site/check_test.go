// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package site_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/site"
)

// builtSite and repository are the environment variables that 'make site' sets.
const (
	builtSite  = "REMEDY_SITE"
	repository = "REMEDY_SITE_REPOSITORY"
	checkout   = "../.."
)

// The pages, links and entries of the built site are counted, so a site without them fails.
func TestSite_Links_LeadSomewhere(t *testing.T) {
	if os.Getenv(builtSite) == "" {
		t.Skipf("%s is not set: run 'make site'", builtSite)
	}
	g := NewWithT(t)
	report, err := site.Check(site.Built{Dir: os.Getenv(builtSite), Repository: os.Getenv(repository), Checkout: checkout})
	g.Expect(err).ToNot(HaveOccurred())
	for _, problem := range report.Problems {
		t.Error(problem)
	}
	g.Expect(report.Pages).To(BeNumerically(">", 30))
	g.Expect(report.Links).To(BeNumerically(">", 1000))
	g.Expect(len(report.Entries)).To(BeNumerically(">", 300))
	g.Expect(report.Entries).To(HaveKeyWithValue("docs/reasons.html#escalationexhausted", "EscalationExhausted"), "a reason")
	t.Logf("%d pages, %d links, %d entries of the search index", report.Pages, report.Links, len(report.Entries))
}

// Each problem is one of a small site that otherwise has none.
func TestCheck_BrokenSite_IsReported(t *testing.T) {
	const (
		index   = `window.searchIndex = [{"url":"index.html"},{"url":"docs/a.html#one"}];`
		foreign = "is loaded from another host"
		lost    = "has no such anchor"
		noFile  = "is no file of the repository"
	)
	for name, test := range map[string]struct{ file, content, address, problem string }{
		"none":         {"index.html", `<a href="docs/a.html#one">a</a> <a href="docs/">b</a> <a href="https://example.org/x">c</a>`, "", ""},
		"page":         {"index.html", `<a href="docs/none.html">a</a>`, "docs/none.html", "does not exist"},
		"anchor":       {"index.html", `<a href="docs/a.html#none">a</a>`, "docs/a.html#none", lost},
		"own anchor":   {"docs/b.html", `<a href="#none">a</a>`, "#none", lost},
		"absolute":     {"index.html", `<a href="/docs/a.html">a</a>`, "/docs/a.html", "is absolute: the site can be below a path of its host"},
		"repository":   {"index.html", `<a href="https://example.org/r/blob/main/x">a</a>`, "https://example.org/r/blob/main/x", noFile},
		"script":       {"index.html", `<script src="https://example.org/a.js"></script>`, "https://example.org/a.js", foreign},
		"style sheet":  {"index.html", `<link rel="stylesheet" href="//example.org/a.css">`, "//example.org/a.css", foreign},
		"image":        {"index.html", `<img src="https://example.org/a.png">`, "https://example.org/a.png", foreign},
		"image set":    {"index.html", `<img srcset="docs/a.html 1x, https://example.org/a.png 2x">`, "https://example.org/a.png", foreign},
		"font":         {"site.css", `@font-face { src: url("https://example.org/a.woff2") }`, "https://example.org/a.woff2", foreign},
		"import":       {"site.css", `@import "https://example.org/a.css";`, "https://example.org/a.css", foreign},
		"style":        {"index.html", `<p style="background: url(https://example.org/a.png)">`, "https://example.org/a.png", foreign},
		"search index": {"search-index.js", `window.searchIndex = [{"url":"docs/a.html#none"}];`, "docs/a.html#none", lost},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			dir := t.TempDir()
			put := func(file, content string) {
				g.Expect(os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o750)).To(Succeed())
				g.Expect(os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600)).To(Succeed())
			}
			put("index.html", "home")
			put("docs/index.html", "list")
			put("docs/a.html", `<h1 id="one">A</h1>`)
			put("search-index.js", index)
			put(test.file, test.content)
			report, err := site.Check(site.Built{Dir: dir, Repository: "https://example.org/r", Checkout: checkout})
			g.Expect(err).ToNot(HaveOccurred())
			if test.problem == "" {
				g.Expect(report.Problems).To(BeEmpty())
				return
			}
			g.Expect(report.Problems).To(ConsistOf(test.file + ": " + test.address + " " + test.problem))
		})
	}
}
