//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
)

// farm makes one program of all mutants: of each package a copy that holds every sabotage of a function, of which one is on when a test runs; and for
// each sabotage of anything else a copy of its own. It is linked once, in the time that go test would need to link it for one of the mutants; and as
// it is made by the compiler itself, no build cache is filled with copies that nobody needs again.
type farm struct {
	t           *testing.T
	module, dir string
	// files are those of the packages with their texts, tests included, as they were when it began: nobody needs to stop working on them.
	files map[string]map[string]string
	// compiled says where each package is that is imported.
	compiled bytes.Buffer
	// tests are those of the program, with the functions that they are.
	tests map[string]string
	// switched are the files of those copies that hold many sabotages, by package.
	switched map[string]map[string]string
}

// mutated is the name of the test that must see a mutant, in the program.
func mutated(i int) string { return fmt.Sprintf("m%03d", i) }

// raise makes the program, and says where it is, and which of its tests shows for each mutant that the copy is sound as long as the sabotage is off.
func raise(t *testing.T, module string, mutants []mutant) (binary string, untouched []string) {
	f := &farm{t: t, module: module, dir: t.TempDir(), files: map[string]map[string]string{}, tests: map[string]string{}, switched: map[string]map[string]string{}}
	f.read(mutants)
	copies := map[string]func() error{}
	for i, m := range mutants {
		pure, whole := path.Dir(m.file), path.Base(path.Dir(m.file))
		if n := strings.Count(f.files[pure][path.Base(m.file)], m.from); n != 1 {
			t.Errorf("the code of %s has changed: write this mutant anew, as it is there %d times: %s", m.file, n, m.from)
		}
		if switched, is := f.switchable(pure, i, m); is {
			untouched = append(untouched, switched+"_"+m.test)
			f.tests[untouched[i]], f.tests[mutated(i)] = switched+"."+m.test, switched+"."+m.test
			copies[switched] = func() error { return f.copy(switched, f.switched[pure], mutant{}) }
			continue
		}
		untouched = append(untouched, whole+"_"+m.test)
		f.tests[untouched[i]], f.tests[mutated(i)] = whole+"."+m.test, mutated(i)+"."+m.test
		copies[whole] = func() error { return f.copy(whole, f.files[pure], mutant{}) }
		needed := f.needed(pure, m.test)
		copies[mutated(i)] = func() error { return f.copy(mutated(i), needed, m) }
	}
	NewWithT(t).Expect(t.Failed()).To(BeFalse())
	f.compileAll(copies)
	return f.link(copies), untouched
}

// sabotageIsOn names the environment variable with the number of the sabotage that is on. It is said from outside, as some functions run before
// everything else.
const sabotageIsOn = "SABOTAGE"

// switchable adds a mutant to the copy of its package that holds all those that sabotage a function, and says what that copy is called.
func (f *farm) switchable(pure string, number int, m mutant) (name string, is bool) {
	if f.switched[pure] == nil {
		f.switched[pure] = maps.Clone(f.files[pure])
		f.switched[pure]["switched.go"] = "package " + path.Base(pure) + "\n\nimport \"os\"\n\nvar switched = os.Getenv(\"" + sabotageIsOn + "\")\n"
	}
	base, called := path.Base(m.file), strconv.Itoa(number)
	text, is := alternative(f.switched[pure][base], m.from, m.to, called, fmt.Sprintf("switched == %q", called))
	if is {
		f.switched[pure][base] = text
	}
	return "switched_" + path.Base(pure), is
}

// read finds the packages, and what they and their tests import.
func (f *farm) read(mutants []mutant) {
	g := NewWithT(f.t)
	args := []string{"list", "-test", "-deps", "-export", "-f", `{{if and .Export (not .ForTest)}}packagefile {{.ImportPath}}={{.Export}}{{end}}`}
	for _, m := range mutants {
		pure := path.Dir(m.file)
		if f.files[pure] != nil {
			continue
		}
		f.files[pure], args = map[string]string{}, append(args, "./"+pure)
		names := f.run("go", "list", "-f", `{{join .GoFiles "\n"}}{{"\n"}}{{join .TestGoFiles "\n"}}`, "./"+pure)
		for name := range strings.FieldsSeq(names) {
			text, err := os.ReadFile(filepath.Join(f.module, pure, name))
			g.Expect(err).ToNot(HaveOccurred())
			f.files[pure][name] = string(text)
		}
	}
	f.compiled.WriteString(f.run("go", args...))
}

func (f *farm) run(name string, args ...string) string {
	cmd := exec.Command(name, args...)
	cmd.Dir = f.module
	out, err := cmd.Output()
	NewWithT(f.t).Expect(err).ToNot(HaveOccurred(), "%s %s", name, strings.Join(args, " "))
	return string(out)
}

// compileAll compiles the copies, as many at once as there are processors.
func (f *farm) compileAll(copies map[string]func() error) {
	f.write("importcfg", f.compiled.String())
	var wait sync.WaitGroup
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	for name, compile := range copies {
		fmt.Fprintf(&f.compiled, "packagefile %s=%s\n", name, filepath.Join(f.dir, name+".a"))
		places <- struct{}{}
		wait.Go(func() {
			if err := compile(); err != nil {
				f.t.Error(err)
			}
			<-places
		})
	}
	wait.Wait()
	NewWithT(f.t).Expect(f.t.Failed()).To(BeFalse())
}

// needed are the files of a package without those that only other tests need: the one that declares this test, and whatever declares what that one uses.
func (f *farm) needed(pure, test string) map[string]string {
	declaredIn, uses := map[string]string{}, map[string][]string{}
	needed := map[string]string{}
	for base, text := range f.files[pure] {
		if !strings.HasSuffix(base, "_test.go") {
			needed[base] = text
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), base, text, parser.SkipObjectResolution)
		NewWithT(f.t).Expect(err).ToNot(HaveOccurred())
		ast.Inspect(file, func(n ast.Node) bool {
			if name, is := n.(*ast.Ident); is {
				uses[base] = append(uses[base], name.Name)
			}
			return true
		})
		for _, declared := range declarations(file) {
			declaredIn[declared] = base
		}
	}
	for names := []string{test}; len(names) > 0; names = names[1:] {
		base, found := declaredIn[names[0]]
		if _, known := needed[base]; found && !known {
			needed[base] = f.files[pure][base]
			names = append(names, uses[base]...)
		}
	}
	return needed
}

// declarations are the names that a file declares for its package.
func declarations(file *ast.File) []string {
	var names []string
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			// A method is declared where its type is.
			if decl.Recv == nil {
				names = append(names, decl.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, spec.Name.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

// copy compiles a copy of a package under another name.
func (f *farm) copy(name string, texts map[string]string, m mutant) error {
	if err := os.Mkdir(filepath.Join(f.dir, name), 0o700); err != nil {
		return err
	}
	var files []string
	for base, text := range texts {
		if base == path.Base(m.file) {
			text = strings.Replace(text, m.from, m.to, 1)
		}
		file := filepath.Join(f.dir, name, base)
		files = append(files, file)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
	}
	slices.Sort(files)
	if out, err := f.compile(name, "importcfg", files...); err != nil {
		return fmt.Errorf("a mutant must compile, or it proves nothing: %+v: %s", m, out)
	}
	return os.RemoveAll(filepath.Join(f.dir, name))
}

// compile does not optimize: that takes longer than it saves.
func (f *farm) compile(name, importcfg string, files ...string) ([]byte, error) {
	args := []string{"-N", "-l", "-dwarf=false", "-complete", "-pack", "-p", name, "-importcfg", filepath.Join(f.dir, importcfg), "-o", filepath.Join(f.dir, name+".a")}
	return exec.Command("go", slices.Concat([]string{"tool", "compile"}, args, files)...).CombinedOutput()
}

// link makes the program: a test binary, as go test makes one, of tests from many packages.
func (f *farm) link(copies map[string]func() error) string {
	g := NewWithT(f.t)
	var text strings.Builder
	text.WriteString("package main\n\nimport (\n\t\"regexp\"\n\t\"testing\"\n\n")
	for name := range copies {
		fmt.Fprintf(&text, "\t%s %q\n", name, name)
	}
	text.WriteString(")\n\nfunc main() {\n\ttesting.Main(regexp.MatchString, []testing.InternalTest{\n")
	for name, test := range f.tests {
		fmt.Fprintf(&text, "\t\t{Name: %q, F: %s},\n", name, test)
	}
	text.WriteString("\t}, nil, nil)\n}\n")
	f.write("everything", f.compiled.String())
	out, err := f.compile("main", "everything", f.write("main.go", text.String()))
	g.Expect(err).ToNot(HaveOccurred(), "%s", out)
	binary := filepath.Join(f.dir, "mutants")
	out, err = exec.Command("go", "tool", "link", "-s", "-w", "-importcfg", filepath.Join(f.dir, "everything"), "-o", binary, filepath.Join(f.dir, "main.a")).CombinedOutput()
	g.Expect(err).ToNot(HaveOccurred(), "%s", out)
	return binary
}

func (f *farm) write(name, text string) string {
	file := filepath.Join(f.dir, name)
	NewWithT(f.t).Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
	return file
}
