//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// timeouts is the file with the timeouts of the tests.
const timeouts = "test/stage/main.go"

// shorter are their timeouts here. A mutant prevents only the outcome of its test. What leads to it may take long on a busy machine.
var shorter = map[string]string{
	"const Timeout = 10 * time.Minute\n": "const Timeout = 2 * time.Minute\n",
	"const OutcomeTimeout = Timeout\n":   "const OutcomeTimeout = 12 * time.Second\n",
}

// timedOut is the begin of the output of a test whose wait timed out.
const timedOut = "Timed out after "

// inVain is the output of a test whose wait timed out because of a mutant. The test has these words for that wait, once.
func inVain(awaited string) string { return timedOut + `.*\s+` + awaited }

// suite is a package with tests, and how many processes share its mutants.
type suite struct {
	folder    string
	processes int
}

// suites are the packages whose tests see the mutants of the shell. Their processes mostly wait, but each of them starts API servers of its
// own.
var suites = []suite{{"internal/healthcheck", 2}, {"controllers/intree", 1}, {"controllers/machinehealthcheck", 1}}

// shellPart is the environment variable that chooses the mutants of the shell to run: a part from 0 to 2, or all of them if it is empty or
// "all".
const shellPart = "SHELL_PART"

// shellParts is the number of parts. Mutant i belongs to part i modulo this number.
const shellParts = 3

// shellNumbers returns the indexes of the mutants of a part.
func shellNumbers(part string) ([]int, error) {
	number := -1
	if part != "" && part != "all" {
		var err error
		if number, err = strconv.Atoi(part); err != nil || number < 0 || number >= shellParts {
			return nil, fmt.Errorf("invalid %s %q: use all or a number from 0 to %d", shellPart, part, shellParts-1)
		}
	}
	var numbers []int
	for i := range shell {
		if number < 0 || i%shellParts == number {
			numbers = append(numbers, i)
		}
	}
	return numbers, nil
}

func TestShellParts_Together_AreAllMutants(t *testing.T) {
	g := NewWithT(t)
	all, err := shellNumbers("")
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(all).To(HaveLen(len(shell)))
	g.Expect(shellNumbers("all")).To(Equal(all))
	var together []int
	for part := range shellParts {
		numbers, err := shellNumbers(strconv.Itoa(part))
		g.Expect(err).ToNot(HaveOccurred())
		together = append(together, numbers...)
	}
	g.Expect(together).To(ConsistOf(all))
	for _, wrong := range []string{"3", "-1", "one"} {
		_, err = shellNumbers(wrong)
		g.Expect(err).To(HaveOccurred())
	}
}

// TestTheStoriesOfFaultsSeeWhatIsWrong compiles one program with all mutants of the shell, and runs the mutants of one part in a few
// processes.
func TestTheStoriesOfFaultsSeeWhatIsWrong(t *testing.T) {
	g := NewWithT(t)
	numbers, err := shellNumbers(os.Getenv(shellPart))
	g.Expect(err).ToNot(HaveOccurred())
	module, err := filepath.Abs(root)
	g.Expect(err).ToNot(HaveOccurred())
	s := newSwitches(t, module)
	for i, m := range shell {
		s.add(i+1, m.mutant)
	}
	text := s.read(timeouts)
	for from, to := range shorter {
		text = s.replace(text, from, to)
	}
	s.put(timeouts, text)
	s.tellLess()
	tests := s.bySuite()
	for folder, numbers := range tests {
		s.put(folder+"/mutants_test.go", driver(folder, numbers))
	}
	g.Expect(t.Failed()).To(BeFalse())
	out := s.run(tests, numbers)
	for _, i := range numbers {
		m := shell[i]
		t.Run(m.test+": "+filepath.Base(m.file)+": "+m.from+" becomes "+m.to, func(t *testing.T) {
			g := NewWithT(t)
			_, seen, red := strings.Cut(out, fmt.Sprintf("--- FAIL: %s/%d ", driverTest, i+1))
			g.Expect(red).To(BeTrue(), "it survives")
			seen, _, _ = strings.Cut(seen, "\n    --- FAIL: ")
			t.Log(seen)
			g.Expect(seen).To(MatchRegexp(m.sees), "it is seen by something else")
			if !strings.HasPrefix(m.sees, timedOut) {
				g.Expect(seen).ToNot(ContainSubstring(timedOut), "it waits for what leads to what it sees")
			}
		})
	}
	fmt.Printf("mutants of the shell: part %s, %d of %d\n", cmp.Or(os.Getenv(shellPart), "all"), len(numbers), len(shell))
}

// tellLess omits what a mutant does not need: in a scenario that runs once for each write, the other writes; in a test whose subtests time
// out one after the other, the subtests after the first.
func (s *switches) tellLess() {
	s.t.Helper()
	const (
		stories = "test/faults/scenario.go"
		each    = "for n, at := range clean.chapters {\n"
		failed  = "report.Failures = append(report.Failures, Failure{n + 1, report.Writes[n], fault, run.writes, run.err})\n"

		serial   = "controllers/intree/release_test.go"
		subtests = "for name, end := range ends { //nolint:paralleltest // as above.\n"
	)
	text := s.replace(s.read(stories), each, each+"if int64(n) < switched.After.Load() {\ncontinue\n}\n")
	s.put(stories, importing(s.replace(text, failed, failed+"return report\n")))
	s.put(serial, importing(s.replace(s.read(serial), subtests, subtests+"if t.Failed() && switched.FailFast.Load() {\nbreak\n}\n")))
}

// driverTest runs the mutants whose numbers the environment variable shellMutants lists.
const (
	driverTest   = "TestShellMutants"
	shellMutants = "SHELL_MUTANTS"
	finished     = "every mutant of this process has run"
)

// bySuite returns the indexes of the mutants by the folder of the test that sees them.
func (s *switches) bySuite() map[string][]int {
	s.t.Helper()
	g := NewWithT(s.t)
	sources := map[string]string{}
	for _, one := range suites {
		files, err := filepath.Glob(filepath.Join(s.module, one.folder, "*_test.go"))
		g.Expect(err).ToNot(HaveOccurred())
		for _, file := range files {
			text, err := os.ReadFile(file)
			g.Expect(err).ToNot(HaveOccurred())
			sources[one.folder] += string(text)
		}
	}
	found := map[string][]int{}
	for i, m := range shell {
		at := slices.IndexFunc(suites, func(one suite) bool { return strings.Contains(sources[one.folder], "func "+m.test+"(") })
		g.Expect(at).To(BeNumerically(">=", 0), "no suite has %s", m.test)
		found[suites[at].folder] = append(found[suites[at].folder], i)
	}
	return found
}

// driver is the source of driverTest in a folder.
func driver(folder string, numbers []int) string {
	var text strings.Builder
	text.WriteString("package " + filepath.Base(folder) + "_test\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"strings\"\n\t\"testing\"\n\n\t\"" + moduleName + "/" + switched + "\"\n)\n\n")
	text.WriteString("func " + driverTest + "(t *testing.T) {\n\tmutants := map[string]func(){\n")
	for _, i := range numbers {
		m := shell[i]
		// A parallel test runs alone here, because t.Run returns when all subtests have ended.
		fmt.Fprintf(&text, "\t\t\"%d\": func() {\n\t\t\tswitched.On.Store(%d)\n\t\t\tswitched.After.Store(%d)\n", i+1, i+1, m.after)
		fmt.Fprintf(&text, "\t\t\tswitched.FailFast.Store(%t)\n", strings.HasPrefix(m.sees, timedOut))
		fmt.Fprintf(&text, "\t\t\tt.Run(\"%d\", func(t *testing.T) { t.Run(%q, %s) })\n\t\t},\n", i+1, m.test, m.test)
	}
	text.WriteString("\t}\n\tfor _, number := range strings.Fields(os.Getenv(\"" + shellMutants + "\")) {\n\t\tmutants[number]()\n\t}\n")
	text.WriteString("\tfmt.Println(\"" + finished + "\")\n}\n")
	return text.String()
}

// run compiles the programs, runs each in a few processes, and returns their output.
func (s *switches) run(tests map[string][]int, numbers []int) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 25*time.Minute)
	defer cancel()
	folders := make([]string, 0, len(suites))
	for _, one := range suites {
		folders = append(folders, one.folder)
	}
	binaries := s.compile("fieldsv1string,long", folders...)
	var outs []*string
	var all sync.WaitGroup
	for _, one := range suites {
		shares := make([][]string, one.processes)
		for at, i := range slices.DeleteFunc(slices.Clone(tests[one.folder]), func(i int) bool { return !slices.Contains(numbers, i) }) {
			shares[at%len(shares)] = append(shares[at%len(shares)], strconv.Itoa(i+1))
		}
		for _, share := range shares {
			if len(share) == 0 {
				continue
			}
			out := new(string)
			outs = append(outs, out)
			all.Go(func() {
				binary := filepath.Join(binaries, filepath.Base(one.folder)+".test")
				run := exec.CommandContext(ctx, binary, "-test.run", "^"+driverTest+"$", "-test.timeout", "25m")
				// A crash story meets every write here: a mutant names the one that fails.
				run.Dir, run.Env = filepath.Join(s.module, one.folder), append(os.Environ(), "FULL=1", shellMutants+"="+strings.Join(share, " "))
				// The process ends with an error, because tests fail.
				printed, _ := run.CombinedOutput()
				*out = string(printed)
			})
		}
	}
	all.Wait()
	var text strings.Builder
	for _, out := range outs {
		NewWithT(s.t).Expect(*out).To(ContainSubstring(finished), "%s", *out)
		// What follows the last mutant of one process is not about that mutant.
		text.WriteString(*out + "\n    --- FAIL: ")
	}
	return text.String()
}
