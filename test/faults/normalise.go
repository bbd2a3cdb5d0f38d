// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"
)

var (
	timePattern = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
	uidPattern  = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
)

// Normalise writes objects down so that two runs of the same story can be compared. What the API server gives out goes: resourceVersion,
// uid, generation, managedFields. Times become <time> and UIDs <uid>, wherever they are; a generated name ends with a star, and the given
// names become <1>, <2> and so on. Objects are sorted.
func Normalise(objects []client.Object, names ...string) (string, error) {
	texts := make([]string, 0, len(objects))
	for _, object := range objects {
		text, err := normalised(object, names)
		if err != nil {
			return "", err
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return strings.Join(texts, "---\n"), nil
}

func normalised(object client.Object, names []string) (string, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return "", errors.Wrapf(err, "the object %s cannot be written down", object.GetName())
	}
	content = runtime.DeepCopyJSON(content)
	// A typed object from a client has no kind; of kinds that are not registered, only the fields are compared.
	if gvk, err := apiutil.GVKForObject(object, scheme.Scheme); err == nil {
		content["apiVersion"], content["kind"] = gvk.ToAPIVersionAndKind()
	}
	if metadata, is := content["metadata"].(map[string]any); is {
		for _, given := range []string{"resourceVersion", "uid", "generation", "managedFields", "creationTimestamp", "selfLink"} {
			delete(metadata, given)
		}
		if prefix, generated := metadata["generateName"].(string); generated {
			metadata["name"] = prefix + "*"
		}
	}
	text, err := yaml.Marshal(rewritten(content, func(text string) string {
		text = timePattern.ReplaceAllString(text, "<time>")
		return renamed(uidPattern.ReplaceAllString(text, "<uid>"), names)
	}))
	return string(text), errors.Wrapf(err, "the object %s cannot be written down", object.GetName())
}

// rewritten is the same value with other words.
func rewritten(value any, rewrite func(string) string) any {
	switch value := value.(type) {
	case string:
		return rewrite(value)
	case []any:
		for i := range value {
			value[i] = rewritten(value[i], rewrite)
		}
	case map[string]any:
		made := make(map[string]any, len(value))
		for key, inner := range value {
			made[rewrite(key)] = rewritten(inner, rewrite)
		}
		return made
	}
	return value
}

// renamed replaces names, the longest first: one may be part of another.
func renamed(text string, names []string) string {
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(len(names[b]), len(names[a])), cmp.Compare(a, b))
	})
	for _, i := range order {
		if names[i] != "" {
			text = strings.ReplaceAll(text, names[i], fmt.Sprintf("<%d>", i+1))
		}
	}
	return text
}

// difference shows two texts from the first to the last line in which they differ.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	end := 0
	for end < len(a)-start && end < len(b)-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	var out strings.Builder
	for _, line := range a[max(0, start-around):start] {
		out.WriteString("  " + line + "\n")
	}
	for _, line := range a[start : len(a)-end] {
		out.WriteString("- " + line + "\n")
	}
	for _, line := range b[start : len(b)-end] {
		out.WriteString("+ " + line + "\n")
	}
	for _, line := range a[len(a)-end : min(len(a), len(a)-end+around)] {
		out.WriteString("  " + line + "\n")
	}
	return out.String()
}

// around is how many lines are shown before and after a difference.
const around = 5
