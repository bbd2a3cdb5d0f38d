//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// patient is where tests say how long they wait.
const patient = playground + "/main_test.go"

// waits are how long they do here. What leads to what a sabotage keeps from coming may take its time on a busy machine; what it keeps from coming is not
// waited for that long.
var waits = map[string]string{
	"const patience = 10 * time.Minute\n": "const patience = 2 * time.Minute\n",
	"const suspense = patience\n":         "const suspense = 12 * time.Second\n",
}

// timedOut is how a test begins to say that it has waited for something in vain.
const timedOut = "Timed out after "

// inVain is what a test says that has waited for what a sabotage keeps from coming. A test waits for that, and says these words of it, once.
func inVain(awaited string) string { return timedOut + `.*\s+` + awaited }

const playground = "controllers/machinehealthcheck"

// TestTheStoriesOfFaultsSeeWhatIsWrong does each sabotage of the shell in turn, in one program that holds all of them.
func TestTheStoriesOfFaultsSeeWhatIsWrong(t *testing.T) {
	g := NewWithT(t)
	module, err := filepath.Abs(root)
	g.Expect(err).ToNot(HaveOccurred())
	s := newSwitches(t, module)
	for i, m := range shell {
		s.add(i+1, m.mutant)
	}
	text := s.read(patient)
	for from, to := range waits {
		text = s.replace(text, from, to)
	}
	s.put(patient, text)
	s.tellLess()
	s.put(playground+"/sabotaged_test.go", driver())
	g.Expect(t.Failed()).To(BeFalse())
	out := s.run()
	g.Expect(out).To(ContainSubstring("every sabotage was done"), "%s", out)
	for i, m := range shell {
		t.Run(m.test+": "+filepath.Base(m.file)+": "+m.from+" becomes "+m.to, func(t *testing.T) {
			g := NewWithT(t)
			_, seen, red := strings.Cut(out, fmt.Sprintf("--- FAIL: TestSabotaged/%d ", i+1))
			g.Expect(red).To(BeTrue(), "it survives")
			seen, _, _ = strings.Cut(seen, "\n    --- FAIL: ")
			t.Log(seen)
			g.Expect(seen).To(MatchRegexp(m.sees), "it is seen by something else")
			if !strings.HasPrefix(m.sees, timedOut) {
				g.Expect(seen).ToNot(ContainSubstring(timedOut), "it waits for what leads to what it sees")
			}
		})
	}
}

// tellLess leaves out what a sabotage does not need of a story that is told for each write: the writes before the one that tells, and after it.
func (s *switches) tellLess() {
	s.t.Helper()
	const (
		file   = "test/faults/scenario.go"
		each   = "for n, at := range clean.chapters {\n"
		failed = "report.Failures = append(report.Failures, Failure{n + 1, report.Writes[n], fault, run.writes, run.err})\n"
	)
	text := s.replace(s.read(file), each, each+"if int64(n) < switched.After.Load() {\ncontinue\n}\n")
	s.put(file, importing(s.replace(text, failed, failed+"return report\n")))
}

// driver runs each of these tests with its sabotage.
func driver() string {
	var text strings.Builder
	text.WriteString("package machinehealthcheck_test\n\nimport (\n\t\"fmt\"\n\t\"testing\"\n\n\t\"" + moduleName + "/" + switched + "\"\n)\n\n")
	text.WriteString("func TestSabotaged(t *testing.T) {\n")
	for i, m := range shell {
		// A test that plays beside others plays beside nobody here: who begins it waits for it.
		fmt.Fprintf(&text, "\tswitched.On.Store(%d)\n\tswitched.After.Store(%d)\n\tt.Run(\"%d\", func(t *testing.T) { t.Run(%q, %s) })\n", i+1, m.after, i+1, m.test, m.test)
	}
	text.WriteString("\tfmt.Println(\"every sabotage was done\")\n}\n")
	return text.String()
}

// run compiles the program and runs it.
func (s *switches) run() string {
	s.t.Helper()
	binary := filepath.Join(s.compile("fieldsv1string,long", playground), "machinehealthcheck.test")
	ctx, cancel := context.WithTimeout(s.t.Context(), 25*time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, binary, "-test.run", "^TestSabotaged$", "-test.timeout", "25m")
	run.Dir = filepath.Join(s.module, playground)
	// It ends with an error, because tests fail.
	out, _ := run.CombinedOutput()
	return string(out)
}
