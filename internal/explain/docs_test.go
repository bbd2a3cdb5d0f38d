// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
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

var update = flag.Bool("update", false, "write docs/rules.md and docs/reasons.md anew")

// The documents are made of the same words that people see: they cannot say anything else.
func TestDocs(t *testing.T) {
	for name, made := range map[string]string{"rules.md": rulesPage(tellers(t)), "reasons.md": reasonsPage()} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			path := filepath.Join(root, "docs", name)
			if *update {
				g.Expect(os.WriteFile(path, []byte(made), 0o600)).To(Succeed())
				g.Expect(os.Chmod(path, 0o644)).To(Succeed()) // a document is for everybody
				return
			}
			written, err := os.ReadFile(path)
			g.Expect(err).ToNot(HaveOccurred())
			g.Expect(string(written)).To(Equal(made), "docs/%s is out of date: run 'make generate'", name)
		})
	}
}

// teller is a story that somebody wrote down as an example.
type teller struct {
	file, text string
}

// tellers are all stories, in alphabetical order. There may be none.
func tellers(t *testing.T) []teller {
	t.Helper()
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join(root, "test", "stories", "testdata", "*.golden.txt"))
	g.Expect(err).ToNot(HaveOccurred())
	slices.Sort(files)
	all := make([]teller, 0, len(files))
	for _, file := range files {
		text, err := os.ReadFile(file)
		g.Expect(err).ToNot(HaveOccurred())
		all = append(all, teller{filepath.Base(file), string(text)})
	}
	return all
}

// examples are links to the first stories that have this reason in them; of one that ends something, those where it does.
func examples(stories []teller, word *Word) string {
	says := `\b` + regexp.QuoteMeta(word.Reason) + `\b`
	if word.Kind == Ending {
		says = `: (GiveUp|Withdraw|TakeBack|Unmark), ` + regexp.QuoteMeta(word.Reason) + `:`
	}
	tells := regexp.MustCompile(says)
	var links []string
	for _, story := range stories {
		if len(links) < 3 && tells.MatchString(story.text) {
			links = append(links, fmt.Sprintf("[%s](../test/stories/testdata/%s)", strings.TrimSuffix(story.file, ".golden.txt"), story.file))
		}
	}
	return strings.Join(links, ", ")
}

const rulesHead = `<!-- Made from the words in internal/explain: change those, and run 'make generate'. -->

# Rules

What is looked at, in this order, until there is a decision about a target: gates say whether it is judged at all, rules what is wrong with it, guards what holds
back a remediation. ` + "`status.unhealthyTargets`" + ` of a check, its events and its log say which of them it was. All reasons in alphabetical order are in [reasons](reasons.md).
`

// parts are the chapters of the page about rules.
var parts = []struct {
	title, intro string
	kind         Kind
	// before tells reasons apart that are in several chapters.
	before string
}{
	{"Gates", "The first that does not let a target pass decides. A gate either keeps a target from being judged, or lets it past all other gates.", Gate, ""},
	{"Rules", "All rules speak, so that people see every cause. The first that is met gives the target its reason. One whose time is not over yet makes it a suspect.", Rule, ""},
	{"When nothing can be said", "A target that passed all gates, and about which no rule says anything, is healthy if its Node was read. Otherwise it is undetermined, and never acted on.", Unknown, ""},
	{"Guards", "Before anything new is started for an unhealthy target, every guard is asked. The first that holds it gives the reason, and none can start anything.", Guard, ""},
	{"The last look", "Just before an act, what it rests on is read again, past all caches.", LastLook, "At last: "},
	{"Other holds", "These are about what is under way already, or could not be started.", Hold, ""},
	{"Why something ends", "A request or a mark goes for one of these reasons.", Ending, "Ended: "},
}

func rulesPage(stories []teller) string {
	var b bytes.Buffer
	b.WriteString(rulesHead)
	for _, part := range parts {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", part.title, part.intro)
		for _, word := range Vocabulary() {
			if word.Kind != part.kind {
				continue
			}
			fmt.Fprintf(&b, "\n### %s%s\n\n%s\n\n- Looks at: %s\n- What to do: %s\n", part.before, word.Reason, word.Means, word.LooksAt, word.Remedy)
			if links := examples(stories, &word); links != "" {
				fmt.Fprintf(&b, "- Example: %s\n", links)
			}
		}
		if part.kind == LastLook {
			fmt.Fprintf(&b, "\n%s\n", againAtTheLastLook())
		}
	}
	return b.String()
}

// againAtTheLastLook are guards that are asked twice.
func againAtTheLastLook() string {
	var again []string
	guards := remediation.Guards()
	for _, look := range remediation.LastLooks() {
		if slices.Contains(guards, look) && look != remediation.Paused {
			again = append(again, "`"+string(look)+"`")
		}
	}
	return "Asked once more, before the last of these: " + strings.Join(again, ", ") + "."
}

const reasonsHead = `<!-- Made from the words in internal/explain: change those, and run 'make generate'. -->

# Reasons

Every reason that a status, a condition, an event, a log line or a metric can have. What is looked at in which order is in [rules](rules.md).
Further ones may be added in later versions.

| reason | where | meaning | what to do |
|---|---|---|---|
`

// wheres say where a reason of a kind is found.
var wheres = map[Kind]string{
	Gate: "gate", Rule: "rule", Unknown: "undetermined", Guard: "hold", LastLook: "hold, at the last look", Hold: "hold", Ending: "end", Happening: "event",
}

func reasonsPage() string {
	var b bytes.Buffer
	b.WriteString(reasonsHead)
	words := Alphabetical()
	for i := 0; i < len(words); {
		word, where := words[i], []string(nil)
		// What means the same in several places is told once.
		for ; i < len(words) && words[i].Reason == word.Reason && words[i].Means == word.Means && words[i].Remedy == word.Remedy; i++ {
			where = append(where, place(&words[i]))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", word.Reason, strings.Join(where, "; "), cell(word.Means), cell(word.Remedy))
	}
	return b.String()
}

func place(word *Word) string {
	if word.Kind == Condition {
		return "condition `" + strings.Join(word.Conditions, "`, `") + "`"
	}
	return wheres[word.Kind]
}

func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

func TestAStoryIsAnExampleOfTheReasonsInIt(t *testing.T) {
	g := NewWithT(t)
	stories := []teller{{"a.golden.txt", "[Check] held: Storm"}, {"b.golden.txt", "Stormy"}, {"c.golden.txt", "Storm, Storm"}}
	g.Expect(examples(stories, &Word{Reason: "Storm", Kind: Guard})).To(Equal("[a](../test/stories/testdata/a.golden.txt), [c](../test/stories/testdata/c.golden.txt)"))
	g.Expect(examples(nil, &Word{Reason: "Storm", Kind: Guard})).To(BeEmpty())
	g.Expect(rulesPage(stories)).To(ContainSubstring("- Example: [a]"))
	g.Expect(rulesPage(nil)).ToNot(ContainSubstring("Example"))
}

// A cell of a table must stay one.
func TestThePagesAreWellFormed(t *testing.T) {
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
	for _, word := range Vocabulary() {
		g.Expect(reasonsPage()).To(ContainSubstring("| `" + word.Reason + "` | "))
		if word.Kind != Condition && word.Kind != Happening {
			g.Expect(rulesPage(nil)).To(ContainSubstring("\n### " + before[word.Kind] + word.Reason + "\n"))
		}
	}
}
