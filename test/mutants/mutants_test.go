//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mutants proves that the tests can fail: each mutant sabotages one line, and the test that guards it must go red.
package mutants_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// mutant replaces one piece of one file, and names the test that must see it.
type mutant struct {
	file, from, to string
	test           string
}

const root = "../.."

func TestNoMutantSurvives(t *testing.T) {
	g := NewWithT(t)
	module, err := filepath.Abs(root)
	g.Expect(err).ToNot(HaveOccurred())
	for _, m := range slices.Concat(health, remediation) {
		t.Run(filepath.Base(m.file)+": "+m.from+" becomes "+m.to, func(t *testing.T) {
			g := NewWithT(t)
			path := filepath.Join(module, m.file)
			original, err := os.ReadFile(path)
			g.Expect(err).ToNot(HaveOccurred())
			g.Expect(strings.Count(string(original), m.from)).To(Equal(1), "the code has changed: write the mutant anew")
			dir := t.TempDir()
			sabotaged := filepath.Join(dir, "sabotaged.go")
			g.Expect(os.WriteFile(sabotaged, []byte(strings.Replace(string(original), m.from, m.to, 1)), 0o600)).To(Succeed())
			overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: sabotaged}})
			g.Expect(err).ToNot(HaveOccurred())
			file := filepath.Join(dir, "overlay.json")
			g.Expect(os.WriteFile(file, overlay, 0o600)).To(Succeed())

			cmd := exec.Command("go", "test", "-count=1", "-overlay", file, "-run", "^"+m.test+"$", "./"+filepath.Dir(m.file), "-rapid.nofailfile")
			cmd.Dir = module
			out, err := cmd.CombinedOutput()
			g.Expect(string(out)).ToNot(ContainSubstring("no tests to run"))
			g.Expect(string(out)).ToNot(ContainSubstring("build failed"), "a mutant must compile, or it proves nothing: %s", out)
			g.Expect(err).To(HaveOccurred(), "it survives %s", m.test)
			g.Expect(string(out)).To(ContainSubstring("--- FAIL: " + m.test))
		})
	}
}

// TestEveryFileThatDecidesHasAMutant: a new gate, rule or formula needs a sabotage, too.
func TestEveryFileThatDecidesHasAMutant(t *testing.T) {
	var files []string
	for _, pure := range []string{"health", "remediation"} {
		found, err := filepath.Glob(filepath.Join(root, "internal", pure, "*.go"))
		NewWithT(t).Expect(err).ToNot(HaveOccurred())
		NewWithT(t).Expect(found).ToNot(BeEmpty())
		files = append(files, found...)
	}
	sabotaged := map[string]bool{}
	for _, m := range slices.Concat(health, remediation) {
		sabotaged[filepath.Base(m.file)] = true
	}
	// These hold types and a picture, and decide nothing.
	plain := map[string]bool{"doc.go": true, "policy.go": true}
	for _, file := range files {
		name := filepath.Base(file)
		if !strings.HasSuffix(name, "_test.go") && !plain[name] && !sabotaged[name] {
			t.Errorf("%s decides something, and no mutant sabotages it", name)
		}
	}
}
