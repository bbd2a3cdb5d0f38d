//go:build houserules

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package houserules_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// What docs/threat-model.md promises is shown by the tests that it names.
func TestThreatModel_NamedTests_Exist(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile(filepath.Join(root, "docs", "threat-model.md"))
	g.Expect(err).ToNot(HaveOccurred())
	namedTests := regexp.MustCompile("`(Test[A-Z]\\w*)`").FindAllStringSubmatch(string(text), -1)
	g.Expect(len(namedTests)).To(BeNumerically(">", 20))
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	exist := map[string]bool{}
	g.Expect(filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range declared.FindAllStringSubmatch(string(source), -1) {
			exist[match[1]] = true
		}
		return err
	})).To(Succeed())
	for _, test := range namedTests {
		g.Expect(exist).To(HaveKey(test[1]))
	}
}

// Every test of an attack prints what happened, and make test lists the outcomes. The guards of bench-guard print by themselves. The test
// of the manager performs no attack.
func TestThreatModel_EachAttack_PrintsOutcome(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join(root, "test", "attacks", "*_test.go"))
	g.Expect(err).ToNot(HaveOccurred())
	attack := regexp.MustCompile(`^Test\w+\(`)
	noAttack := regexp.MustCompile(`^Test(Guard_|Manager_|Main\()`)
	tests := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		g.Expect(err).ToNot(HaveOccurred())
		for _, function := range strings.Split(string(source), "\nfunc ")[1:] {
			if !attack.MatchString(function) || noAttack.MatchString(function) {
				continue
			}
			tests++
			g.Expect(function).To(MatchRegexp(`\b(refused|outcome)\(`), file)
		}
	}
	g.Expect(tests).To(BeNumerically(">", 20))
}
