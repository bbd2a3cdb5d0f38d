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

// alternative puts the function that holds a piece of a text there once more, under another name and with another piece, and lets it begin by asking
// whether that one is meant. False if no function holds the piece, as with tables and constants, or one that cannot hand on all that it is given.
func alternative(text, piece, other, suffix, asks string) (string, bool) {
	f, is := around(text, piece)
	if !is || !f.callable() {
		return "", false
	}
	head, args := f.named(text)
	body, at := text[f.body:f.to], strings.Index(head, f.Name.Name+"(")+len(f.Name.Name)
	begin := fmt.Sprintf("{\nif %s {\n%s\n}\n", asks, f.calls(f.Name.Name+suffix, args))
	// It stands behind everything, so that what comes first in the text is what was written.
	return text[:f.from] + head + begin + body[1:] + text[f.to:] + "\n" + head[:at] + suffix + head[at:] + strings.Replace(body, piece, other, 1) + "\n", true
}

// function is one of a text, with where it and its body begin and end.
type function struct {
	*ast.FuncDecl
	from, body, to int
	offset         func(token.Pos) int
}

// around finds the function in whose body a piece of text is.
func around(text, piece string) (function, bool) {
	files, at := token.NewFileSet(), strings.Index(text, piece)
	parsed, err := parser.ParseFile(files, "", text, parser.SkipObjectResolution)
	if err != nil {
		return function{}, false
	}
	offset := func(p token.Pos) int { return files.Position(p).Offset }
	for _, decl := range parsed.Decls {
		if f, is := decl.(*ast.FuncDecl); is && at > offset(f.Body.Lbrace) && at+len(piece) <= offset(f.Body.Rbrace) {
			return function{f, offset(f.Pos()), offset(f.Body.Lbrace), offset(f.End()), offset}, true
		}
	}
	return function{}, false
}

// callable says whether a function can hand everything that it is given to another one.
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
