// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

var update = flag.Bool("update", false, "write docs/rules.md and docs/reasons.md")

// The documents are generated from the reasons.
func TestDocs_Generated_AreUpToDate(t *testing.T) {
	for name, made := range map[string]string{"rules.md": rulesPage(allStories(t)), "reasons.md": reasonsPage()} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			path := filepath.Join(root, "docs", name)
			if *update {
				g.Expect(os.WriteFile(path, []byte(made), 0o600)).To(Succeed())
				g.Expect(os.Chmod(path, 0o644)).To(Succeed()) // documents are readable for all users
				return
			}
			written, err := os.ReadFile(path)
			g.Expect(err).ToNot(HaveOccurred())
			g.Expect(string(written)).To(Equal(made), "docs/%s is out of date: run 'make generate'", name)
		})
	}
}

// story is an example in test/stories.
type story struct {
	file, text string
}

// allStories returns all stories in alphabetical order.
func allStories(t *testing.T) []story {
	t.Helper()
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join(root, "test", "stories", "testdata", "*.golden.txt"))
	g.Expect(err).ToNot(HaveOccurred())
	slices.Sort(files)
	all := make([]story, 0, len(files))
	for _, file := range files {
		text, err := os.ReadFile(file)
		g.Expect(err).ToNot(HaveOccurred())
		all = append(all, story{filepath.Base(file), string(text)})
	}
	return all
}

// examples links the first stories with a reason. For an ending, these are stories in which a remediation ends for it.
func examples(stories []story, word *Reason) string {
	pattern := `\b` + regexp.QuoteMeta(word.Name) + `\b`
	if word.Kind == Ending {
		pattern = `: (EndStep|WithdrawRequest|CancelOwnerRemediation|RemoveConditions), ` + regexp.QuoteMeta(word.Name) + `:`
	}
	matches := regexp.MustCompile(pattern)
	var links []string
	for _, s := range stories {
		if len(links) < 3 && matches.MatchString(s.text) {
			links = append(links, fmt.Sprintf("[`%s`](../test/stories/testdata/%s)", strings.TrimSuffix(s.file, ".golden.txt"), s.file))
		}
	}
	return strings.Join(links, ", ")
}

const rulesHead = `<!-- Generated from internal/explain by 'make generate'. -->

# Rules

Remedy evaluates these in the order of this page. Gates decide whether the health of a target is evaluated, rules whether it is unhealthy,
and guards whether it is remediated. ` + "`status.unhealthyTargets`" + ` of a check, its events and its log have the reason.
[Reasons](reasons.md) lists all reasons in alphabetical order.
`

// parts are the sections of rules.md.
var parts = []struct {
	title, intro string
	kind         Kind
	// before distinguishes headings of reasons that are in several sections.
	before string
}{
	{
		"Gates", "The first gate that applies to a target decides. It prevents the rules from being evaluated, or skips all other gates.",
		Gate, "",
	},
	{"Health rules", "All rules are evaluated, so every cause is reported. The first rule that is met is the reason. " +
		"A rule whose timeout is not over makes the target suspect.", Rule, ""},
	{"Unknown health", "A target is healthy if it passed all gates, no rule applies, and its Node was read. Otherwise its health is " +
		"undetermined, and it is never remediated.", Unknown, ""},
	{
		"Guards",
		"Before a remediation is started, the guards are evaluated in this order. The first one that blocks it is the reason, and those after " +
			"it are not evaluated.",
		Guard,
		"",
	},
	{"Preflight checks", "Directly before an action, the facts that it is based on are read again, live.", Preflight, "Preflight: "},
	{"Other causes", "These block a remediation that exists, or that could not be started.", Unfinished, ""},
	{"Ends of a remediation", "A request is deleted, or owner remediation is canceled, for one of these reasons.", Ending, "Ended: "},
}

func rulesPage(stories []story) string {
	var b bytes.Buffer
	b.WriteString(rulesHead + "\n")
	for _, part := range parts {
		fmt.Fprintf(&b, "- [%s](#%s)\n", part.title, strings.ReplaceAll(strings.ToLower(part.title), " ", "-"))
	}
	for _, part := range parts {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", part.title, part.intro)
		for _, word := range Reasons() {
			if word.Kind != part.kind {
				continue
			}
			fmt.Fprintf(&b, "\n### %s%s\n\n%s\n\n- Based on: %s\n- What to do: %s\n", part.before, word.Name, word.Means, word.BasedOn,
				word.Remedy)
			if links := examples(stories, &word); links != "" {
				fmt.Fprintf(&b, "- Example: %s\n", links)
			}
		}
		if part.kind == Preflight {
			fmt.Fprintf(&b, "\n%s\n", guardsInPreflight())
		}
	}
	return b.String()
}

// guardsInPreflight names the guards that are evaluated again in the preflight check.
func guardsInPreflight() string {
	var again []string
	guards := remediation.Guards()
	for _, look := range remediation.PreflightGuards() {
		if slices.Contains(guards, look) && look != remediation.Paused {
			again = append(again, "`"+string(look)+"`")
		}
	}
	return "The preflight check evaluates these guards again, before the last of its own: " + strings.Join(again, ", ") + "."
}

const reasonsHead = `<!-- Generated from internal/explain by 'make generate'. -->

# Reasons

All reasons in status, conditions, events, log lines and metrics. [Rules](rules.md) has the order of evaluation.
Later versions may add reasons.

| reason | where | meaning | what to do |
|---|---|---|---|
`

// places are where a reason of a kind is reported.
var places = map[Kind]string{
	Gate: "gate", Rule: "rule", Unknown: "undetermined", Guard: "guard", Preflight: "guard, in a preflight check",
	Unfinished: "other cause", Ending: "end",
	EventOnly: "event",
}

func reasonsPage() string {
	var b bytes.Buffer
	b.WriteString(reasonsHead)
	words := Reasons()
	slices.SortStableFunc(words, func(a, b Reason) int { return cmp.Compare(a.Name, b.Name) })
	for i := 0; i < len(words); {
		word, where, anchor := words[i], []string(nil), ""
		if i == 0 || words[i-1].Name != word.Name {
			anchor = `<a id="` + strings.ToLower(word.Name) + `"></a>`
		}
		// A reason with the same documentation in several places is one row.
		for ; i < len(words) && words[i].Name == word.Name && words[i].Means == word.Means && words[i].Remedy == word.Remedy; i++ {
			where = append(where, place(&words[i]))
		}
		fmt.Fprintf(&b, "| `%s` | %s%s | %s | %s |\n", word.Name, anchor, strings.Join(where, "; "), cell(word.Means), cell(word.Remedy))
	}
	return b.String()
}

func place(word *Reason) string {
	if word.Kind == Condition {
		return "condition `" + strings.Join(word.Conditions, "`, `") + "`"
	}
	return places[word.Kind]
}

func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

func TestDocs_Examples_LinkStoriesWithTheReason(t *testing.T) {
	g := NewWithT(t)
	stories := []story{{"a.golden.txt", "[Check] held: Storm"}, {"b.golden.txt", "Stormy"}, {"c.golden.txt", "Storm, Storm"}}
	g.Expect(examples(stories, &Reason{Name: "Storm", Kind: Guard})).To(Equal("[`a`](../test/stories/testdata/a.golden.txt), " +
		"[`c`](../test/stories/testdata/c.golden.txt)"))
	g.Expect(examples(nil, &Reason{Name: "Storm", Kind: Guard})).To(BeEmpty())
	g.Expect(rulesPage(stories)).To(ContainSubstring("- Example: [`a`]"))
	g.Expect(rulesPage(nil)).ToNot(ContainSubstring("Example"))
}

// A cell must not contain a separator.
func TestDocs_Tables_HaveFourColumns(t *testing.T) {
	g := NewWithT(t)
	for line := range strings.Lines(reasonsPage()) {
		if strings.HasPrefix(line, "| ") {
			g.Expect(strings.Count(line, " | ")).To(Equal(3), line)
		}
	}
	before := map[Kind]string{}
	for _, part := range parts {
		before[part.kind] = part.before
	}
	for _, word := range Reasons() {
		g.Expect(reasonsPage()).To(ContainSubstring("| `" + word.Name + "` | "))
		if word.Kind != Condition && word.Kind != EventOnly {
			g.Expect(rulesPage(nil)).To(ContainSubstring("\n### " + before[word.Kind] + word.Name + "\n"))
		}
	}
}
