//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// switches are sources that contain every mutant: alternative adds its copy, and the number of the active mutant selects one. So one
// program is compiled for all mutants.
type switches struct {
	t           *testing.T
	module, dir string
	// replaced maps a file to the file that the compiler reads instead.
	replaced map[string]string
	// changed are the texts of the files with mutants.
	changed map[string]string
}

// switched is the package that holds the number of the active mutant. It exists in the overlay only.
const switched = "internal/switched"

// activeMutant is the environment variable with that number. The package reads it before any other package of the module is initialized.
const activeMutant = "MUTANT"

const switchedText = `package switched

import (
	"os"
	"strconv"
	"sync/atomic"
)

// On is the number of the active mutant. After is the number of writes of a test's story that the mutant leaves alone.
var On, After atomic.Int64

// FailFast is true if one failed subtest is enough to see the mutant.
var FailFast atomic.Bool

func init() {
	number, _ := strconv.ParseInt(os.Getenv("` + activeMutant + `"), 10, 64)
	On.Store(number)
}
`

func newSwitches(t *testing.T, module string) *switches {
	s := &switches{t: t, module: module, dir: t.TempDir(), replaced: map[string]string{}, changed: map[string]string{}}
	s.put(switched+"/switched.go", switchedText)
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

// add adds a mutant under a number, which is not 0: that is the number of the unchanged code.
func (s *switches) add(number int, m mutant) {
	s.t.Helper()
	text := s.read(m.file)
	begin, end := within(text, m.function)
	if n := strings.Count(text[begin:end], m.from); n != 1 {
		s.t.Errorf("the code of %s has changed: adapt this mutant, because the file contains it %d times: %s", m.file, n, m.from)
		return
	}
	if _, known := s.changed[m.file]; !known {
		s.changed[m.file] = text
	}
	changed, is := alternative(s.changed[m.file], m.function, m.from, m.to, strconv.Itoa(number), fmt.Sprintf("switched.On.Load() == %d", number))
	if !is {
		s.t.Errorf("%s: neither a function nor a table contains this: %s", m.file, m.from)
		return
	}
	s.changed[m.file] = changed
}

// compile compiles the tests of packages to files of a directory, <package>.test each.
func (s *switches) compile(tags string, packages ...string) string {
	s.t.Helper()
	g := NewWithT(s.t)
	for file, text := range s.changed {
		s.put(file, importing(text))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": s.replaced})
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(s.dir, "overlay.json"), overlay, 0o600)).To(Succeed())
	build := exec.CommandContext(s.t.Context(), "go", "test", "-vet=off", "-tags="+tags, "-c", "-overlay", filepath.Join(s.dir, "overlay.json"), "-o", s.dir+"/")
	for _, pkg := range packages {
		build.Args = append(build.Args, "./"+pkg)
	}
	build.Dir = s.module
	out, err := build.CombinedOutput()
	g.Expect(err).ToNot(HaveOccurred(), "a mutant must compile, or it proves nothing: %s", out)
	return s.dir
}

// importing lets a file import what is on, before all others.
func importing(text string) string {
	clause := strings.Index(text, "\npackage ") + 1
	end := clause + strings.Index(text[clause:], "\n")
	return text[:end] + "\n\nimport \"" + moduleName + "/" + switched + "\"\n" + text[end:]
}

const moduleName = "github.com/cluster-api-remedy/cluster-api-provider-remedy"
