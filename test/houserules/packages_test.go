//go:build houserules

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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

// The sentence of a package comment on where to start, the names in it, and those that are checked anywhere.
var (
	startSentence = regexp.MustCompile(`\b[Ss]tart (?:reading )?((?:at|with|in) .*?)(?:\. |\.$|$)`)
	startName     = regexp.MustCompile(`^(?:at|with|in) (\w[\w./]*)|(?:\bat|\bwith|\band|\bas|,) ([A-Z]\w*(?:\.\w+)?)`)
	anyName       = regexp.MustCompile(`\b[a-z][\w/]*\.go\b|\b[A-Z]\w+\.[A-Z]\w+\b`)
)

// missingNames returns the names of code and files in a package comment that do not exist.
func missingNames(comment string, exists func(string) bool) []string {
	comment = strings.Join(strings.Fields(comment), " ")
	names := anyName.FindAllString(comment, -1)
	for _, sentence := range startSentence.FindAllStringSubmatch(comment, -1) {
		for _, match := range startName.FindAllStringSubmatch(sentence[1], -1) {
			names = append(names, match[1]+match[2])
		}
	}
	return slices.DeleteFunc(names, exists)
}

func TestPackageComments_Names_Exist(t *testing.T) {
	files, comments, declared := tracked(t), map[string]string{}, map[string]bool{}
	for _, file := range files {
		if dir := path.Dir(file); path.Ext(file) == ".go" {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ParseComments)
			NewWithT(t).Expect(err).ToNot(HaveOccurred())
			comments[dir] += parsed.Doc.Text()
			ast.Inspect(parsed, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					declared[dir+" "+n.Name.Name] = true
				case *ast.TypeSpec:
					declared[dir+" "+n.Name.Name] = true
				case *ast.Field: // of a struct, or a method of an interface
					declared[dir+" "+fmt.Sprint(n.Names)] = true
				}
				return true
			})
		}
	}
	for dir, comment := range comments {
		for _, name := range missingNames(comment, func(name string) bool {
			unknown := func(part string) bool { return !declared[dir+" "+part] && !declared[dir+" ["+part+"]"] }
			return slices.Contains(files, name) || slices.Contains(files, path.Join(dir, name)) ||
				!slices.ContainsFunc(strings.Split(name, "."), unknown)
		}) {
			t.Errorf("the package comment of %s names %s, which does not exist", dir, name)
		}
	}
}

func TestMissingNames_BrokenRule_IsReported(t *testing.T) {
	missing := func(comment string) []string {
		return missingNames(comment, func(name string) bool { return name == "Known" })
	}
	g := NewWithT(t)
	g.Expect(missing("Is. Start at On in a.go, which does,\nat Known and\nOff. Then Why.")).To(ConsistOf("On", "Off", "a.go"))
	g.Expect(missing("Has Nodes. Start reading at run, then\nread b/c.go. Clusters.Get does.")).To(ConsistOf("run", "b/c.go", "Clusters.Get"))
}
