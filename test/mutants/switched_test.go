//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
)

// switchText says which sabotage is on. It is said from outside, as some functions run before everything else.
const switchText = `import "os"

var switched = os.Getenv("` + sabotageIsOn + `")
`

// sabotageIsOn names the environment variable with the number of the sabotage.
const sabotageIsOn = "SABOTAGE"

// switchedMutant is a sabotage within a function.
type switchedMutant struct {
	number int
	mutant
}

// switchable notes a mutant in the copy of its package that holds all those that sabotage a function, and says what that copy is called. Tables and
// constants are not switched.
func (f *farm) switchable(pure string, number int, m mutant) (name string, is bool) {
	base := path.Base(m.file)
	text := f.files[pure][base]
	if found, within := f.around(text, m.from); !within || !found.callable() {
		return "", false
	}
	if f.switched[pure] == nil {
		f.switched[pure] = map[string][]switchedMutant{}
	}
	f.switched[pure][base] = append(f.switched[pure][base], switchedMutant{number, m})
	return "switched_" + path.Base(pure), true
}

// function is one of a file, with where it and its body begin and end.
type function struct {
	*ast.FuncDecl
	from, body, to int
	offset         func(token.Pos) int
}

// around finds the function in whose body a piece of text is.
func (f *farm) around(text, piece string) (function, bool) {
	files, at := token.NewFileSet(), strings.Index(text, piece)
	parsed, err := parser.ParseFile(files, "", text, parser.SkipObjectResolution)
	NewWithT(f.t).Expect(err).ToNot(HaveOccurred())
	offset := func(p token.Pos) int { return files.Position(p).Offset }
	for _, decl := range parsed.Decls {
		if found, is := decl.(*ast.FuncDecl); is && at > offset(found.Body.Lbrace) && at+len(piece) <= offset(found.Body.Rbrace) {
			return function{found, offset(found.Pos()), offset(found.Body.Lbrace), offset(found.End()), offset}, true
		}
	}
	return function{}, false
}

// sabotaged are the files of a package with all of its sabotages: every function that has any is there once more for each of them, and begins by asking
// which of them is on.
func (f *farm) sabotaged(pure string) map[string]string {
	texts := map[string]string{"switched.go": "package " + path.Base(pure) + "\n\n" + switchText}
	for base, text := range f.files[pure] {
		more := ""
		for _, m := range f.switched[pure][base] {
			// What was put in before does not change what is looked for: it stands before the bodies, and behind everything.
			found, _ := f.around(text, m.from)
			name := fmt.Sprintf("%s%d", found.Name.Name, m.number)
			head, args := found.named(text)
			body := text[found.body:found.to]
			at := found.offset(found.Name.Pos()) - found.from
			more += "\n" + head[:at] + name + head[at+len(found.Name.Name):] + strings.Replace(f.original(base, pure, m.mutant), m.from, m.to, 1) + "\n"
			text = text[:found.from] + head + fmt.Sprintf("{\nif switched == \"%d\" {\n%s\n}\n", m.number, call(found.FuncDecl, name, args)) + body[1:] + text[found.to:]
		}
		texts[base] = text + more
	}
	return texts
}

// original is the body of the function that a mutant sabotages, as it was written.
func (f *farm) original(base, pure string, m mutant) string {
	text := f.files[pure][base]
	found, _ := f.around(text, m.from)
	return text[found.body:found.to]
}

// callable says whether a function can hand everything that it is given to another one.
func (f function) callable() bool {
	fields := f.Type.Params.List
	if f.Recv != nil {
		fields = slices.Concat(f.Recv.List, fields)
	}
	return !slices.ContainsFunc(fields, func(field *ast.Field) bool { return len(field.Names) == 0 })
}

// named is the head of a function in which every parameter has a name, and these names.
func (f function) named(text string) (head string, args []string) {
	head = text[f.from:f.body]
	for _, field := range f.Type.Params.List {
		for _, name := range field.Names {
			called := name.Name
			if called == "_" {
				called = fmt.Sprintf("unused%d", len(args))
				// Those that come later are further to the right, so that this one is found where it was, moved by what was put in before it.
				at := len(head) - (f.body - f.offset(name.Pos()))
				head = head[:at] + called + head[at+1:]
			}
			args = append(args, called)
		}
		if _, more := field.Type.(*ast.Ellipsis); more {
			args[len(args)-1] += "..."
		}
	}
	return head, args
}
