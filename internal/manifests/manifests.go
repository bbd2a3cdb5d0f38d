// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests reads objects from files and prints them with notes, for kubectl remedy convert. It does not convert: internal/medik8s
// and exp/fencing/convert do.
//
// Start at Read.
package manifests

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/pkg/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// Notes are what differs from the source of a manifest. Each is listed once.
type Notes []string

// Add adds a note.
func (n *Notes) Add(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(*n, note) {
		*n = append(*n, note)
	}
}

// Read reads the objects of a file with YAML or JSON documents. A document is an object, a List, or a YAML list of objects.
func Read(file io.Reader, name string) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(file))
	for {
		content, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, errors.Wrapf(err, "failed to read %s", name)
		}
		var document any
		// A key that is listed twice is an error, because one of its values would be lost.
		if err := yaml.UnmarshalStrict(content, &document); err != nil {
			return nil, errors.Wrapf(err, "failed to read %s: it is not a manifest", name)
		}
		objects, err := flatten(document)
		if err != nil {
			return nil, errors.WithMessagef(err, "failed to read %s", name)
		}
		all = append(all, objects...)
	}
}

func flatten(document any) ([]unstructured.Unstructured, error) {
	switch value := document.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		one := unstructured.Unstructured{Object: value}
		if len(value) == 0 {
			return nil, nil
		}
		if !one.IsList() {
			return []unstructured.Unstructured{one}, nil
		}
		return flatten(value["items"])
	case []any:
		var all []unstructured.Unstructured
		for _, item := range value {
			objects, err := flatten(item)
			if err != nil {
				return nil, err
			}
			all = append(all, objects...)
		}
		return all, nil
	}
	return nil, errors.New("it is not a manifest")
}

// YAML returns a manifest with a header and the notes as comments.
func YAML(object any, header []string, notes Notes) ([]byte, error) {
	manifest, err := yaml.Marshal(object)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	var b bytes.Buffer
	for _, line := range header {
		b.WriteString("# " + oneLine(line) + "\n")
	}
	for _, note := range notes {
		b.WriteString("# - " + oneLine(note) + "\n")
	}
	b.Write(bytes.TrimSpace(manifest))
	b.WriteString("\n")
	return b.Bytes(), nil
}

// oneLine replaces what ends a line, and with it a comment.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
}

// Selector returns a selector of Remedy.
func Selector(from *metav1.LabelSelector) *remedyv1.Selector {
	to := &remedyv1.Selector{}
	for key, value := range from.MatchLabels {
		if to.MatchLabels == nil {
			to.MatchLabels = map[string]remedyv1.LabelValue{}
		}
		to.MatchLabels[key] = remedyv1.LabelValue(value)
	}
	for _, r := range from.MatchExpressions {
		requirement := remedyv1.SelectorRequirement{Key: r.Key, Operator: r.Operator}
		for _, value := range r.Values {
			requirement.Values = append(requirement.Values, remedyv1.LabelValue(value))
		}
		to.MatchExpressions = append(to.MatchExpressions, requirement)
	}
	return to
}
