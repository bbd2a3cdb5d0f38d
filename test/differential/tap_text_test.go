// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// String is one line about a note.
func (n *note) String() string {
	switch {
	case n.read && n.after == nil:
		return fmt.Sprintf("%s reads %s %s: there is none", n.who, n.resource, n.name)
	case n.read:
		return fmt.Sprintf("%s reads %s %s at %s", n.who, n.resource, n.name, n.after.GetResourceVersion())
	case n.after == nil:
		return fmt.Sprintf("%s: %s %s was deleted", n.who, n.resource, n.name)
	}
	return fmt.Sprintf("%s: %s %s at %s%s", n.who, n.resource, n.name, n.after.GetResourceVersion(), n.difference())
}

// difference is what a write has changed.
func (n *note) difference() string {
	before, after := lines(n.before), lines(n.after)
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if now, is := after[key]; !is {
			fmt.Fprintf(&text, "\n      - %s: %s", key, before[key])
		} else if now != before[key] {
			fmt.Fprintf(&text, "\n      ~ %s: %s, and now %s", key, before[key], now)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if _, was := before[key]; !was && n.before != nil {
			fmt.Fprintf(&text, "\n      + %s: %s", key, after[key])
		}
	}
	return text.String()
}

// lines is an object as one value for each path. What changes with every write is left out.
func lines(o *unstructured.Unstructured) map[string]string {
	all := map[string]string{}
	if o == nil {
		return all
	}
	object := o.DeepCopy()
	object.SetManagedFields(nil)
	object.SetResourceVersion("")
	flatten(all, "", object.Object)
	return all
}

func flatten(all map[string]string, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, one := range value {
			flatten(all, path+"."+key, one)
		}
	case []any:
		for i, one := range value {
			key := fmt.Sprint(i)
			if of, is := one.(map[string]any); is && of["type"] != nil {
				key = fmt.Sprint(of["type"])
			}
			flatten(all, path+"."+key, one)
		}
	default:
		all[strings.TrimPrefix(path, ".")] = fmt.Sprint(value)
	}
}
