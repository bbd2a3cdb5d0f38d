//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mutants proves that the tests can fail: each mutant sabotages one line, and the test that guards it must go red.
package mutants_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// mutant replaces one piece of one file, and names the test that must see it, or a subtest as test/subtest. Where the file contains the piece several times, function is
// the one that is changed.
type mutant struct {
	file, from, to string
	test           string
	function       string
}

// mutantIn is a mutant of a file, or of a function of a file as file:function.
func mutantIn(folder, file, from, to, test string) mutant {
	file, function, _ := strings.Cut(file, ":")
	return mutant{file: folder + "/" + file, function: function, from: from, to: to, test: test}
}

const root = "../.."

// Property tests draw ten thousand cases here: a hundred may miss what a mutant changes.
const draws = "RAPID_CHECKS=10000"

var all = slices.Concat(health, lessons, turnsAndNotes, remediation, guardMutants(), guards, lookedAt, summedUp, writtenDown, handedOver, reconciles,
	fences, releases)

// deciding are the packages that decide without reading or writing anything, and the one that has the sequence of reads and writes.
var deciding = []string{"internal/health", "internal/remediation", "internal/adoption", "internal/pipeline", "exp/fencing/lifecycle"}

func TestNoMutantSurvives(t *testing.T) {
	module, err := filepath.Abs(root)
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	s := newSwitches(t, module)
	tests := map[string][]string{}
	for i, m := range all {
		s.add(i+1, m)
		test, _, _ := strings.Cut(m.test, "/")
		if pkg := filepath.Dir(m.file); !slices.Contains(tests[pkg], test) {
			tests[pkg] = append(tests[pkg], test)
		}
	}
	NewWithT(t).Expect(t.Failed()).To(BeFalse())
	dir := s.compile("fieldsv1string", deciding...)
	run := func(t *testing.T, pkg, test string, number int) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, filepath.Join(dir, filepath.Base(pkg)+".test"), "-test.v", "-test.run", test)
		if pkg != "internal/pipeline" && pkg != "exp/fencing/lifecycle" { // They draw nothing, so their tests do not have these flags.
			cmd.Args = append(cmd.Args, "-rapid.nofailfile", "-rapid.shrinktime=0s")
		}
		cmd.Dir, cmd.Env = filepath.Join(module, pkg), append(os.Environ(), activeMutant+"="+strconv.Itoa(number), draws)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for pkg, names := range tests {
		out, err := run(t, pkg, "^("+strings.Join(names, "|")+")$", 0)
		NewWithT(t).Expect(err).ToNot(HaveOccurred(), "a test that fails without a mutant proves nothing: %s", out)
		for _, name := range names {
			NewWithT(t).Expect(out).To(ContainSubstring("--- PASS: " + name + " "))
		}
	}
	for i, m := range all {
		t.Run(filepath.Base(m.file)+": "+m.from+" becomes "+m.to, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			out, err := run(t, filepath.Dir(m.file), "^"+strings.ReplaceAll(m.test, "/", "$/^")+"$", i+1)
			g.Expect(err).To(HaveOccurred(), "it survives %s", m.test)
			g.Expect(out).To(ContainSubstring("--- FAIL: " + m.test + " "))
		})
	}
}

// TestEveryFileThatDecidesHasAMutant: a new gate, rule or formula needs a sabotage, too.
func TestEveryFileThatDecidesHasAMutant(t *testing.T) {
	sabotaged := map[string]bool{}
	for _, m := range all {
		sabotaged[m.file] = true
	}
	// These block types, names and a picture, and decide nothing.
	plain := map[string]bool{
		"doc.go": true, "policy.go": true, "situation.go": true, "decision.go": true, "names.go": true, "facts.go": true,
		"observation.go": true, "reasons.go": true,
	}
	for _, pure := range deciding {
		files, err := os.ReadDir(filepath.Join(root, pure))
		NewWithT(t).Expect(err).ToNot(HaveOccurred())
		NewWithT(t).Expect(files).ToNot(BeEmpty())
		for _, file := range files {
			name := file.Name()
			if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !plain[name] && !sabotaged[pure+"/"+name] {
				t.Errorf("%s/%s decides something, and no mutant sabotages it", pure, name)
			}
		}
	}
}
