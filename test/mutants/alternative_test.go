//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// alternative adds a copy of the function that contains a piece of a text. The copy has another name and another piece, and the original
// calls the copy where the condition is true. A table or a constant outside of functions becomes a variable that an init function sets.
// With a name, the piece is one of the function of this name. Alternative returns false for any other piece, and for a function with unnamed parameters, which cannot be passed on.
func alternative(text, name, piece, other, suffix, condition string) (string, bool) {
	parsed, offset := parse(text)
	begin, end := within(text, name)
	at := begin + strings.Index(text[begin:end], piece)
	for _, decl := range parsed.Decls {
		if at < offset(decl.Pos()) || at+len(piece) > offset(decl.End()) {
			continue
		}
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			f := function{decl, offset(decl.Pos()), offset(decl.Body.Lbrace), offset(decl.End()), offset}
			if at > f.body && f.callable() {
				return f.alternative(text, piece, other, suffix, condition), true
			}
		case *ast.GenDecl:
			if spec, is := decl.Specs[0].(*ast.ValueSpec); is && len(decl.Specs) == 1 && spec.Type == nil {
				// The table loses its fixed length, because a mutant may remove a row.
				from, to := offset(decl.Pos()), offset(decl.End())
				value := strings.Replace(text[offset(spec.Pos()):to], "= [...]", "= []", 1)
				assigned := "\nfunc init() {\nif " + condition + " {\n" + strings.Replace(value, piece, other, 1) + "\n}\n}\n"
				return text[:from] + "var " + value + text[to:] + assigned, true
			}
		}
	}
	return "", false
}

// within is where a function is in a text; the whole text for an empty name.
func within(text, name string) (begin, end int) {
	parsed, offset := parse(text)
	for _, decl := range parsed.Decls {
		if f, is := decl.(*ast.FuncDecl); is && f.Name.Name == name {
			return offset(f.Pos()), offset(f.End())
		}
	}
	return 0, len(text)
}

func parse(text string) (*ast.File, func(token.Pos) int) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "", text, parser.SkipObjectResolution)
	if err != nil {
		panic(err)
	}
	return parsed, func(p token.Pos) int { return files.Position(p).Offset }
}

// function is a function of a text, with the offsets of its beginning, its body and its end.
type function struct {
	*ast.FuncDecl
	from, body, to int
	offset         func(token.Pos) int
}

func (f function) alternative(text, piece, other, suffix, condition string) string {
	head, args := f.named(text)
	body, at := text[f.body:f.to], strings.Index(head, f.Name.Name+"(")+len(f.Name.Name)
	begin := fmt.Sprintf("{\nif %s {\n%s\n}\n", condition, f.calls(f.Name.Name+suffix, args))
	// The copy comes last, so that the first match in the text stays the original.
	return text[:f.from] + head + begin + body[1:] + text[f.to:] + "\n" + head[:at] + suffix + head[at:] + strings.Replace(body, piece, other, 1) + "\n"
}

// callable reports whether a function can pass all its parameters to another one.
func (f function) callable() bool {
	return !slices.ContainsFunc(f.Type.Params.List, func(field *ast.Field) bool { return len(field.Names) == 0 })
}

// receiver is how its receiver is called, if that has no name of its own.
const receiver = "receiver"

// named is the head of a function in which its receiver and every parameter have a name, and the names of these.
func (f function) named(text string) (head string, args []string) {
	head = text[f.from:f.body]
	if f.Recv != nil && len(f.Recv.List[0].Names) == 0 {
		at := f.offset(f.Recv.List[0].Pos()) - f.from
		head = head[:at] + receiver + " " + head[at:]
	}
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

// calls is what to do so that another function is called instead of this one, on the same receiver.
func (f function) calls(name string, args []string) string {
	called := name + "(" + strings.Join(args, ", ") + ")"
	if f.Recv != nil {
		of := receiver
		if names := f.Recv.List[0].Names; len(names) > 0 {
			of = names[0].Name
		}
		called = of + "." + called
	}
	if f.Type.Results == nil {
		return called + "\nreturn"
	}
	return "return " + called
}
