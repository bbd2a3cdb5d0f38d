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

// mutant replaces one piece of one file, and names the test that must see it.
type mutant struct {
	file, from, to string
	test           string
}

const root = "../.."

// A property is asked as often as in the rest of the proof: a hundred draws now and then miss what a few of a hundred show.
const draws = "RAPID_CHECKS=10000"

var all = slices.Concat(health, lessons, turnsAndNotes, remediation, guardMutants(), guards, lookedAt, summedUp, writtenDown, handedOver)

func TestNoMutantSurvives(t *testing.T) {
	module, err := filepath.Abs(root)
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	binary, untouched := raise(t, module, all)
	run := func(test string, number int) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, binary, "-test.run", "^"+test+"$", "-rapid.nofailfile", "-rapid.shrinktime=0s")
		cmd.Dir, cmd.Env = filepath.Dir(binary), append(os.Environ(), sabotageIsOn+"="+strconv.Itoa(number), draws)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	sound := map[string]error{}
	for i, m := range all {
		t.Run(filepath.Base(m.file)+": "+m.from+" becomes "+m.to, func(t *testing.T) {
			g := NewWithT(t)
			if _, known := sound[untouched[i]]; !known {
				_, sound[untouched[i]] = run(untouched[i], -1)
			}
			g.Expect(sound[untouched[i]]).ToNot(HaveOccurred(), "a test that is red anyway proves nothing: %s", m.test)
			out, err := run(mutated(i), i)
			g.Expect(err).To(HaveOccurred(), "it survives %s", m.test)
			g.Expect(out).To(ContainSubstring("--- FAIL: " + mutated(i)))
		})
	}
}

// TestEveryFileThatDecidesHasAMutant: a new gate, rule or formula needs a sabotage, too.
func TestEveryFileThatDecidesHasAMutant(t *testing.T) {
	sabotaged := map[string]bool{}
	for _, m := range all {
		sabotaged[m.file] = true
	}
	// These hold types, names and a picture, and decide nothing.
	plain := map[string]bool{"doc.go": true, "policy.go": true, "situation.go": true, "decision.go": true, "names.go": true, "facts.go": true}
	for _, pure := range []string{"internal/health", "internal/remediation", "internal/takeover"} {
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
