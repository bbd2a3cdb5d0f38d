//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// switches are the sources with both: every function that is sabotaged is there once more for each sabotage, and begins by asking which of them is
// to be done. So one program holds them all, and one pair of API servers is enough for them.
type switches struct {
	t           *testing.T
	module, dir string
	// replaced are the files that the compiler reads instead of others.
	replaced map[string]string
	// changed are the files with their sabotages.
	changed map[string]string
}

// switched is the package that knows which sabotage is on. It exists in the overlay only.
const switched = "internal/switched"

func newSwitches(t *testing.T, module string) *switches {
	s := &switches{t: t, module: module, dir: t.TempDir(), replaced: map[string]string{}, changed: map[string]string{}}
	s.put(switched+"/switched.go", "package switched\n\nimport \"sync/atomic\"\n\n// On is the sabotage that is done, and After how many writes of its story are sound.\nvar On, After atomic.Int64\n")
	return s
}

// put lets the compiler read this text as a file.
func (s *switches) put(file, text string) {
	s.t.Helper()
	place := filepath.Join(s.dir, fmt.Sprintf("%d-%s", len(s.replaced), filepath.Base(file)))
	NewWithT(s.t).Expect(os.WriteFile(place, []byte(text), 0o600)).To(Succeed())
	s.replaced[filepath.Join(s.module, file)] = place
}

func (s *switches) read(file string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.module, file))
	NewWithT(s.t).Expect(err).ToNot(HaveOccurred())
	return string(text)
}

// replace changes a piece of a text for good.
func (s *switches) replace(text, from, to string) string {
	s.t.Helper()
	NewWithT(s.t).Expect(strings.Count(text, from)).To(Equal(1), "the code has changed: %s", from)
	return strings.Replace(text, from, to, 1)
}

// add adds a sabotage under a number.
func (s *switches) add(number int, m mutant) {
	s.t.Helper()
	text := s.read(m.file)
	if n := strings.Count(text, m.from); n != 1 {
		s.t.Errorf("the code of %s has changed: write this mutant anew, as it is there %d times: %s", m.file, n, m.from)
		return
	}
	if _, known := s.changed[m.file]; !known {
		s.changed[m.file] = text
	}
	changed, is := alternative(s.changed[m.file], m.from, m.to, strconv.Itoa(number), fmt.Sprintf("switched.On.Load() == %d", number))
	if !is {
		s.t.Errorf("%s: no function has this: %s", m.file, m.from)
		return
	}
	s.changed[m.file] = changed
}

// overlay is what the compiler is told to read.
func (s *switches) overlay() map[string]string {
	s.t.Helper()
	for file, text := range s.changed {
		s.put(file, importing(text))
	}
	return s.replaced
}

// importing lets a file import what is on, before all others.
func importing(text string) string {
	clause := strings.Index(text, "\npackage ") + 1
	end := clause + strings.Index(text[clause:], "\n")
	return text[:end] + "\n\nimport \"" + moduleName + "/" + switched + "\"\n" + text[end:]
}

const moduleName = "github.com/cluster-api-remedy/cluster-api-provider-remedy"
