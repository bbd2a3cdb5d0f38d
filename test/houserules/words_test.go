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

	. "github.com/onsi/gomega"
)

// words are the words to avoid in comments, messages and docs, and their replacements. A prose linter is not used: Vale needs a C compiler
// and two minutes of CPU to build, and misspell finds single words in Go files only.
var words = []struct{ avoid, write string }{
	{`look(s|ed|ing)? after|takes? care|taken care|took care|taking care|in the care of`, "monitor, manage, reconcile"},
	{`sick|falls? ill|fell ill|fallen ill|is ill`, "unhealthy"},
	{`(fall|falls|fell|go|goes|went|is|are) silent`, "NotReady, Unknown"},
	{`asks? (a|the) remediators?|asked (a|the) remediators?`, "create a remediation request"},
	{`(asks?|asked|hands? to|handed to) (its|their|an|the) owners?`, "request owner remediation"},
	{`tak(e|es|en|ing) back|took back`, "cancel"},
	{`giv(e|es|en|ing) back|gave back|giv(e|es|ing) \w+ back`, "release, cancel"},
	{`last looks?`, "preflight check"},
	{`past (the|its|their|all|every) caches?`, "live read"},
	{`tak(e|es|en|ing) over|took over|take-overs?`, "adopt"},
	{`rights|the right to`, "permission"},
	{`(is|are|was|were|has|have) gone|lets? go|on (its|their) way out`, "no longer exists, removes its finalizer, is being deleted"},
	{`mend(s|ed|ing)?|mistakes?`, "fix, bug"},
	{`weakness(es)?`, "vulnerability"},
	{`cure[sd]?`, "remediation"},
	{`(gives?|gave|takes?|took|gets?|got|keeps?|has|loses?|lost) the lead|the lead`, "leadership"},
	{`ledgers?`, "remediation history"},
	{`strays?`, "orphaned target"},
	{`thaws|thawed`, "unpause time"},
	{`rivals?`, "competing check"},
	{`refusals?`, "rejected request"},
	{`shelf`, "store"},
	{`anew|once more`, "again"},
	{`by and by`, "with backoff"},
	{`as a rule`, "usually"},
	{`beside`, "besides, next to"},
	{`we|us|ours?`, "the manager, Remedy"},
	{`theirs|cluster api's own|core checks?`, "in-tree"},
	{`says?|said|tells?|told|hears?|heard|speaks?|spoke|knows?`, "report, set, read, return"},
	{`whoever|(some|any|every|no)(body|one)|no one`, "name the actor"},
	{`hospitals?|wards?|theatres?|patients?|tales?|arenas?|lookouts?|leash(es)?|small ?world`, "name it after what it is"},
}

// uncleanFiles are the files with these words. The list only shrinks.
var uncleanFiles = []string{"docs/performance.md"}

// avoided matches all words to avoid, each entry as a group, also where a line ends between two words.
var avoided = func() *regexp.Regexp {
	groups := make([]string, 0, len(words))
	for _, word := range words {
		groups = append(groups, "("+strings.NewReplacer("(", "(?:", " ", `(?:\s|//)+`).Replace(word.avoid)+")")
	}
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(groups, "|") + `)\b`)
}()

// findings reports the words to avoid in a text that begins at a line of a file.
func findings(file string, line int, text string) []string {
	var found []string
	for _, match := range avoided.FindAllStringSubmatchIndex(text, -1) {
		for group := range words {
			if match[2+2*group] >= 0 {
				at := line + strings.Count(text[:match[0]], "\n")
				found = append(found, fmt.Sprintf("%s:%d: %q: write %s", file, at, text[match[0]:match[1]], words[group].write))
			}
		}
	}
	return found
}

// inGo reports the words to avoid in the comments and strings of a Go file. Names are not checked.
func inGo(file string, content []byte) ([]string, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, content, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, group := range parsed.Comments {
		start, end := files.Position(group.Pos()), files.Position(group.End())
		found = append(found, findings(file, start.Line, string(content[start.Offset:end.Offset]))...)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
			found = append(found, findings(file, files.Position(text.Pos()).Line, text.Value)...)
		}
		return true
	})
	return found, nil
}

// code is what is quoted in Markdown: blocks, spans, and the targets of links.
var code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`|\\]\\([^)\n]*\\)")

// inMarkdown reports the words to avoid in a page.
func inMarkdown(file string, content []byte) []string {
	prose := code.ReplaceAllStringFunc(string(content), func(quoted string) string {
		return strings.Repeat("\n", strings.Count(quoted, "\n"))
	})
	return findings(file, 1, prose)
}

func TestWords_AllFiles_HaveNoFindings(t *testing.T) {
	g := NewWithT(t)
	unclean := map[string]bool{}
	for _, file := range tracked(t) {
		if file == "test/houserules/words_test.go" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, file))
		g.Expect(err).ToNot(HaveOccurred())
		var found []string
		switch path.Ext(file) {
		case ".go":
			found, err = inGo(file, content)
			g.Expect(err).ToNot(HaveOccurred())
		case ".md":
			found = inMarkdown(file, content)
		}
		if slices.Contains(uncleanFiles, file) {
			unclean[file] = len(found) > 0
			continue
		}
		for _, finding := range found {
			t.Error(finding)
		}
	}
	for _, file := range uncleanFiles {
		g.Expect(unclean[file]).To(BeTrue(), "%s has no findings: remove it from uncleanFiles", file)
	}
}

func TestWords_BrokenRule_IsReported(t *testing.T) {
	g := NewWithT(t)
	found, err := inGo("a.go", []byte("package a\n\n// It looks\n// after Nodes.\nconst ward = `one\ntold \"two\"`\n"))
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(found).To(Equal([]string{
		"a.go:3: \"looks\\n// after\": write monitor, manage, reconcile", `a.go:6: "told": write report, set, read, return`,
	}))
	page := "# Page\n\nSomebody [links](whoever.md) `ours`.\n\n```sh\nsay nobody\n```\n\nUs.\n"
	g.Expect(inMarkdown("a.md", []byte(page))).To(Equal([]string{
		`a.md:3: "Somebody": write name the actor`, `a.md:9: "Us": write the manager, Remedy`,
	}))
}
