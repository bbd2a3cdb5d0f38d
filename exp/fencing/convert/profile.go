// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pkg/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// maxRows is how many rows a FenceProfile can have.
const maxRows = 256

// placeholder is the name that the document writes instead of that of a Node.
const placeholder = "[NODE_NAME]"

// lifecycle are methods that every fence does itself.
var lifecycle = map[string]string{
	"mark-unschedulable": "a fence taints its Node, and removes the taint at the end",
	"cordon":             "a fence taints its Node, and removes the taint at the end",
	"uncordon":           "a fence taints its Node, and removes the taint at the end",
	"clean-pods":         "a fence removes the Pods of its Node when the Node is proven off",
}

// convertProfiles converts a row for each ConfigMap fence-config-NODE. Rows with the same methods are in one FenceProfile.
func convertProfiles(all []*unstructured.Unstructured) (converted []*Converted, failures []error) {
	templates, used := map[string]*unstructured.Unstructured{}, map[string]bool{}
	fail := func(one *unstructured.Unstructured, err error) {
		failures = append(failures, errors.WithMessagef(err, "failed to convert ConfigMap %s", one.GetName()))
	}
	for _, one := range all {
		switch name := one.GetName(); {
		case !strings.HasPrefix(name, templatePrefix):
		case templates[name] != nil:
			fail(one, errors.New("it is listed twice: keep one of them"))
		default:
			templates[name] = one
		}
	}
	names, groups := map[string]bool{}, map[string]*Converted{}
	for _, one := range all {
		if strings.HasPrefix(one.GetName(), templatePrefix) {
			continue
		}
		r := &row{reader: &reader{}, templates: templates, used: used, config: one}
		spec := r.convert()
		if len(spec.Nodes) == 1 && names[spec.Nodes[0].Name] {
			r.fail("another ConfigMap is for the Node %s, too: keep one of them", spec.Nodes[0].Name)
		}
		if r.err != nil {
			fail(one, r.err)
			continue
		}
		nodes := spec.Nodes
		names[nodes[0].Name] = true
		spec.Nodes = nil
		key, err := json.Marshal(spec)
		if err != nil {
			fail(one, err)
			continue
		}
		group := groups[string(key)]
		if group == nil || len(group.Object.(*fencingv1.FenceProfile).Spec.Nodes) == maxRows {
			group = &Converted{Object: newProfile(len(converted), spec)}
			groups[string(key)] = group
			converted = append(converted, group)
		}
		to := group.Object.(*fencingv1.FenceProfile)
		to.Spec.Nodes = append(to.Spec.Nodes, nodes...)
		group.Sources = append(group.Sources, "ConfigMap "+one.GetName())
		for _, note := range r.Notes {
			group.Notes.Add("%s", note)
		}
	}
	for _, one := range all {
		if name := one.GetName(); templates[name] == one && !used[name] {
			fail(one, errors.New("no ConfigMap fence-config-NODE that was converted uses it: convert them together"))
		}
	}
	return converted, failures
}

func newProfile(number int, spec *fencingv1.FenceProfileSpec) *fencingv1.FenceProfile {
	name := "fence-config"
	if number > 0 {
		name = fmt.Sprintf("%s-%d", name, number+1)
	}
	return &fencingv1.FenceProfile{
		TypeMeta:   metav1.TypeMeta{APIVersion: fencingv1.GroupVersion.String(), Kind: "FenceProfile"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: *spec,
	}
}

// row is the conversion of the ConfigMap of one Node.
type row struct {
	*reader
	templates map[string]*unstructured.Unstructured
	used      map[string]bool
	config    *unstructured.Unstructured
	// definitions are the properties of methods such as fc-off.
	definitions map[string]map[string]string
	spec        fencingv1.FenceProfileSpec
}

// convert returns a profile with one row.
func (r *row) convert() *fencingv1.FenceProfileSpec {
	r.Add("It is for the Nodes of the cluster that the fencing manager runs in. For another cluster, set clusterName, and the namespace to " +
		"that of the Cluster")
	top := r.fields("", r.config.Object)
	top.take("apiVersion")
	top.take("kind")
	name := r.metadata(top).Name
	data := top.object("data")
	config := r.properties("config.properties", data.text("config.properties"))
	node := nodeName(r.reader, name, config["node_name"])
	r.spec.Nodes = []fencingv1.FenceProfileNode{{Name: node}}
	r.definitions = map[string]map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(data.values)) {
		if name, is := strings.CutPrefix(key, methodPrefix); is {
			r.definitions[name] = r.properties(key, data.text(key))
		}
	}
	data.end()
	top.end()
	isolation, power := r.step(config, "isolation"), r.step(config, "power_management")
	for _, base := range isolation {
		if slices.Contains(power, base) {
			r.fail("%s is in isolation and in power_management: keep it in one of them", base)
		}
		r.spec.Isolation = append(r.spec.Isolation, fencingv1.MethodName(base))
		r.Add("If %s cuts a Node off from storage, set its storageClasses. Then Pods with volumes of these classes are removed without a proof "+
			"that the Node is off", base)
	}
	level := fencingv1.PowerLevel{}
	for _, base := range power {
		level.Methods = append(level.Methods, fencingv1.MethodName(base))
	}
	if len(power) > 0 {
		r.spec.PowerManagement = []fencingv1.PowerLevel{level}
	}
	used := slices.Concat(isolation, power)
	if len(used) == 0 {
		r.fail("no method switches off: name one in isolation or power_management of config.properties, such as ipmi-off")
	}
	for _, base := range used {
		r.method(base)
	}
	r.step(config, "recovery", used...)
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if !slices.Contains([]string{"node_name", "isolation", "power_management", "recovery"}, key) {
			r.Add("%s of config.properties has no counterpart and is omitted", key)
		}
	}
	r.unused(used)
	return &r.spec
}

// nodeName returns the name of the Node.
func nodeName(r *reader, name, written string) string {
	suffix := strings.TrimPrefix(name, configPrefix)
	if written != "" && written != suffix {
		r.Add("The row is for node_name, which is not the end of the name of the ConfigMap")
	} else if written == "" {
		written = suffix
	}
	if written == placeholder {
		r.Add("Replace the name node-name in nodes by that of the Node: %s is no valid name", placeholder)
		return "node-name"
	}
	if !dnsName.MatchString(written) || len(written) > 253 {
		r.fail("node_name is not the name of a Node: use lower case letters, digits, '-' and '.', as kubectl get nodes prints it")
	}
	return written
}

// step returns the methods of a step that switch off. What switches on is implied by what was switched off.
func (r *row) step(config map[string]string, step string, off ...string) (bases []string) {
	var on []string
	for _, name := range strings.FieldsFunc(config[step], func(c rune) bool { return c == ' ' || c == ',' || c == '\t' }) {
		does, builtIn := lifecycle[name]
		base, action := r.split(name)
		switch {
		case !shortName.MatchString(name):
			r.fail("%s of config.properties has an invalid name: use lower case letters, digits and '-'", step)
		case r.definitions[name] == nil && builtIn:
			r.Add("%s in %s is omitted: %s", name, step, does)
		case r.definitions[name] == nil && assumed[name].Agent == "":
			r.fail("%s names %s, which is defined nowhere: add the key %s%s to the ConfigMap", step, name, methodPrefix, name)
		case action == "on":
			on = append(on, base)
		case step == "recovery":
			r.fail("recovery names %s, which switches off: remove it", name)
		case !slices.Contains(bases, base):
			bases = append(bases, base)
			if action != "off" {
				r.Add("%s switches off. When that is proven, and the Pods are removed, it switches on", base)
			}
		}
	}
	for _, base := range on {
		if slices.Contains(slices.Concat(bases, off), base) {
			r.Add("%s-on in %s is implied: what was switched off is switched on", base, step)
		} else {
			r.Add("%s-on in %s is omitted: neither it nor a step before switches %s off", base, step, base)
		}
	}
	return bases
}

// split returns the method and the action of a name such as fc-off.
func (r *row) split(name string) (base, action string) {
	base, action = name, r.definitions[name]["action"]
	for _, suffix := range []string{"off", "on"} {
		if before, is := strings.CutSuffix(name, "-"+suffix); is && (action == "" || action == suffix) {
			return before, suffix
		}
	}
	switch action {
	case "", "reboot", "off", "on":
	default:
		r.fail("%s%s has another action than on, off and reboot", methodPrefix, name)
	}
	return base, action
}

// unused notes methods that no step names.
func (r *row) unused(used []string) {
	for _, name := range slices.Sorted(maps.Keys(r.definitions)) {
		if base, _ := r.split(name); !slices.Contains(used, base) {
			r.Add("%s%s is omitted: no step switches it off", methodPrefix, name)
		}
	}
}
