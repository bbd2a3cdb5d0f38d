// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// constraint is one requirement of the schema for one field, with a value that breaks it.
type constraint struct {
	path   []any
	name   string
	breaks func(old any) (changed any, remove bool)
	// message is part of the error.
	message string
}

func (c constraint) String() string {
	return pathString(c.path) + " " + c.name
}

// Each constraint of the schema is broken in an otherwise valid object, and the error must name its field. The valid objects have every
// field, so each constraint also accepts a value.
func TestSchema_BrokenConstraint_IsRejected(t *testing.T) {
	for kind, crd := range definitions(t) {
		prefix := map[string]string{"MachineHealthCheck": "full-machines", "NodeHealthCheck": "full-nodes"}[kind]
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		status := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]

		t.Run(kind+" spec", func(t *testing.T) {
			var found []constraint
			walk(&spec, []any{"spec"}, &found)
			examples := []*unstructured.Unstructured{example(t, prefix+"-template"), example(t, prefix+"-escalation")}
			for _, good := range examples {
				NewWithT(t).Expect(tryCreate(t.Context(), cp.API, good)).To(Succeed())
			}
			breakAll(t, found, examples, func(object *unstructured.Unstructured) error { return tryCreate(t.Context(), cp.API, object) })
		})
		t.Run(kind+" status", func(t *testing.T) {
			g := NewWithT(t)
			var found []constraint
			walk(&status, []any{"status"}, &found)
			object := example(t, prefix+"-template")
			object.SetName("status-of-all")
			cp.CreateUntilEnd(t, object)
			object.Object["status"] = example(t, prefix+"-status").Object
			write := func(changed *unstructured.Unstructured) error {
				return cp.API.Status().Update(t.Context(), changed.DeepCopy(), client.DryRunAll)
			}
			g.Expect(write(object)).To(Succeed())
			breakAll(t, found, []*unstructured.Unstructured{object}, write)
		})
	}
}

// index is how the API server names an element of a list.
var index = regexp.MustCompile(`\[\d+\]`)

func breakAll(t *testing.T, found []constraint, examples []*unstructured.Unstructured, write func(*unstructured.Unstructured) error) {
	t.Helper()
	NewWithT(t).Expect(len(found)).To(BeNumerically(">", 50), "the walk has found too little")
	for _, c := range found {
		var broken *unstructured.Unstructured
		for _, good := range examples {
			changed := good.DeepCopy()
			if change(changed.Object, c.path, c.breaks) {
				broken = changed
				break
			}
		}
		if broken == nil {
			t.Errorf("%s: no example in testdata has this field", c)
			continue
		}
		err := write(broken)
		if err == nil {
			t.Errorf("%s: accepted", c)
			continue
		}
		words := index.ReplaceAllString(err.Error(), "[]")
		if !strings.Contains(words, pathString(c.path)) || !strings.Contains(words, c.message) {
			t.Errorf("%s: rejected for another reason: %v", c, err)
		}
	}
	t.Logf("%d constraints, each broken once", len(found))
}

// walk lists the constraints of a schema. It panics on an unknown type.
func walk(s *apiextensionsv1.JSONSchemaProps, path []any, found *[]constraint) {
	add := func(name, message string, breaks func(any) (any, bool)) {
		*found = append(*found, constraint{path: append([]any{}, path...), name: name, breaks: breaks, message: message})
	}
	to := func(value any) func(any) (any, bool) { return func(any) (any, bool) { return value, false } }

	switch {
	case s.XIntOrString:
		add("int or string", "must be of type", to(true))
	case s.Type == "string" && s.Format != "":
		add("type", "must be of type "+s.Format, to(int64(42)))
	case s.Type == "string":
		add("type", "must be of type string", to(int64(42)))
	case s.Type == "integer":
		add("type", "must be of type integer", to("many"))
	case s.Type == "array", s.Type == "object":
		add("type", "must be of type "+s.Type, to("words"))
	default:
		panic(fmt.Sprintf("%v: unknown type %q", path, s.Type))
	}
	if s.MaxLength != nil {
		add("maxLength", "may not be more than", to(strings.Repeat("a", int(*s.MaxLength)+1)))
	}
	if s.MinLength != nil {
		add("minLength", "should be at least", to(""))
	}
	if s.Minimum != nil {
		add("minimum", "should be greater than or equal to", to(int64(*s.Minimum)-1))
	}
	if s.Maximum != nil {
		add("maximum", "should be less than or equal to", to(int64(*s.Maximum)+1))
	}
	if len(s.Enum) > 0 {
		add("enum", "Unsupported value", to("Nonsense"))
	}
	if s.Pattern != "" {
		add("pattern", "should match", to("-"))
	}
	if s.Format == "date-time" {
		add("format", "must be of type date-time", to("yesterday"))
	}
	if s.MinItems != nil {
		add("minItems", "should have at least", to([]any{}))
	}
	if s.MaxItems != nil {
		add("maxItems", "must have at most", func(old any) (any, bool) { return repeated(old.([]any), int(*s.MaxItems)+1), false })
	}
	if s.MaxProperties != nil {
		add("maxProperties", "must have at most", func(old any) (any, bool) { return crowded(old.(map[string]any), int(*s.MaxProperties)+1), false })
	}
	if s.XListType != nil && *s.XListType != "atomic" {
		add("no duplicates", "Duplicate value", func(old any) (any, bool) { return append(append([]any{}, old.([]any)...), old.([]any)[0]), false })
	}
	for _, name := range s.Required {
		*found = append(*found, constraint{
			path: append(append([]any{}, path...), name), name: "required", message: "Required value",
			breaks: func(any) (any, bool) { return nil, true },
		})
	}
	for name := range s.Properties {
		property := s.Properties[name]
		walk(&property, append(append([]any{}, path...), name), found)
	}
	if s.Items != nil {
		walk(s.Items.Schema, append(append([]any{}, path...), 0), found)
	}
	if s.AdditionalProperties != nil {
		walk(s.AdditionalProperties.Schema, append(append([]any{}, path...), anyKey), found)
	}
}

// anyKey stands for the first key of a map that has free keys.
const anyKey = "*"

func repeated(list []any, length int) []any {
	long := make([]any, 0, length)
	for range length {
		long = append(long, runtime.DeepCopyJSONValue(list[0]))
	}
	return long
}

func crowded(m map[string]any, size int) map[string]any {
	large := map[string]any{}
	for n := range size {
		for _, value := range m {
			large[fmt.Sprintf("key-%d", n)] = runtime.DeepCopyJSONValue(value)
		}
	}
	return large
}

// change breaks the value at the path, and reports false if there is none.
func change(at any, path []any, breaks func(any) (any, bool)) bool {
	switch step := path[0].(type) {
	case int:
		list, ok := at.([]any)
		if !ok || len(list) == 0 {
			return false
		}
		if len(path) == 1 {
			list[step], _ = breaks(list[step])
			return true
		}
		// The elements may hold different fields.
		return slices.ContainsFunc(list, func(element any) bool { return change(element, path[1:], breaks) })
	case string:
		m, ok := at.(map[string]any)
		if !ok {
			return false
		}
		if step == anyKey {
			for key := range m {
				step = key
			}
		}
		if _, present := m[step]; !present {
			return false
		}
		if len(path) > 1 {
			return change(m[step], path[1:], breaks)
		}
		changed, remove := breaks(m[step])
		m[step] = changed
		if remove {
			delete(m, step)
		}
		return true
	}
	return false
}

func pathString(path []any) string {
	text := ""
	for _, step := range path {
		switch {
		case step == 0:
			text += "[]"
		case step == anyKey:
			// The API server names the key; the field itself is what counts here.
		case text == "":
			text = fmt.Sprint(step)
		default:
			text += "." + fmt.Sprint(step)
		}
	}
	return text
}

func TestSchema_ListsMapsAndStrings_AreBounded(t *testing.T) {
	for kind, crd := range definitions(t) {
		schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		for _, part := range []string{"spec", "status"} {
			root := schema.Properties[part]
			visit(&root, part, func(s *apiextensionsv1.JSONSchemaProps, path string) {
				where := kind + " " + path
				if s.Description == "" && !strings.HasSuffix(path, "[]") && !strings.HasSuffix(path, "{}") {
					t.Errorf("%s: no description", where)
				}
				switch {
				case s.Type == "array" && s.MaxItems == nil:
					t.Errorf("%s: a list without maxItems", where)
				case s.Type == "object" && s.AdditionalProperties != nil && s.MaxProperties == nil:
					t.Errorf("%s: a map without maxProperties", where)
				case s.Type == "string" && s.MaxLength == nil && len(s.Enum) == 0 && s.Format == "":
					t.Errorf("%s: a string without maxLength", where)
				case s.Type == "integer" && s.Minimum == nil && part == "spec":
					t.Errorf("%s: an integer without minimum", where)
				}
			})
		}
		encoded, err := json.Marshal(crd)
		NewWithT(t).Expect(err).ToNot(HaveOccurred())
		NewWithT(t).Expect(len(encoded)).To(BeNumerically("<", 256*1024), "kubectl apply keeps a copy in an annotation")
	}
}

func visit(s *apiextensionsv1.JSONSchemaProps, path string, do func(*apiextensionsv1.JSONSchemaProps, string)) {
	do(s, path)
	for name := range s.Properties {
		property := s.Properties[name]
		visit(&property, path+"."+name, do)
	}
	if s.Items != nil {
		visit(s.Items.Schema, path+"[]", do)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		visit(s.AdditionalProperties.Schema, path+"{}", do)
	}
}
