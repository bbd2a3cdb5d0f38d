// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

var (
	dnsName   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	parameter = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
	secretKey = regexp.MustCompile(`(?i)pass|secret|token|community|credential|key|pwd`)
	// renamed are former names of parameters of agents.
	renamed = map[string]string{"ipaddr": "ip", "address": "ip", "login": "username", "passwd": "password", "port": "plug"}
)

// assumed are what names of the document mean if the input does not define them.
var assumed = map[string]fencingv1.FenceMethod{
	templatePrefix + "fc-switch-brocade": {Agent: "fence_brocade", SecretName: "fc-switch-brocade"}, //nolint:gosec // The name of a Secret.
	templatePrefix + "eaton-pdu": {
		Agent: "fence_eaton_snmp", SecretName: "eaton-pdu", SecretKeys: []fencingv1.ParameterName{"community"},
	},
	"restart-instance": {
		Agent: "fence_aws", Parameters: fencingv1.Parameters{"plug": "$(instanceID)", "skip_race_check": "1"},
		SecretName: "aws", SecretKeys: []fencingv1.ParameterName{"access_key", "secret_key"},
	},
}

// properties reads lines of KEY=VALUE.
func (r *reader) properties(where, text string) map[string]string {
	all := map[string]string{}
	for i, line := range strings.Split(text, "\n") {
		key, value, is := strings.Cut(strings.TrimSpace(line), "=")
		switch key = strings.TrimSpace(key); {
		case key == "" && !is, strings.HasPrefix(key, "#"):
			continue
		case !is || !parameter.MatchString(key):
			r.fail("line %d of %s is not KEY=VALUE", i+1, where)
			continue
		}
		if _, twice := all[key]; twice {
			r.fail("%s has %s twice: keep one of them", where, key)
		}
		all[key] = strings.TrimSpace(value)
	}
	return all
}

// template returns a method with the parameters that all Nodes have.
func (r *row) template(name string) fencingv1.FenceMethod {
	from := r.templates[name]
	if from == nil {
		method := assumed[name]
		method.Parameters = maps.Clone(method.Parameters)
		if method.Agent == "" {
			r.fail("a method names a template that is not in the input: convert the ConfigMap %sNAME together with this one", templatePrefix)
			return method
		}
		r.Add("%s is not in the input: agent %s is assumed, and the Secret %s/%s with the keys %s. Replace them, and set the other "+
			"parameters of the agent, such as ip or region", name, method.Agent, namespace, method.SecretName, keyList(method.SecretKeys))
		return method
	}
	r.used[name] = true
	top := r.fields(name, from.DeepCopy().Object)
	top.take("apiVersion")
	top.take("kind")
	r.metadata(top)
	data := top.object("data")
	all := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(data.values)) {
		properties := map[string]string{key: data.text(key)}
		if strings.HasSuffix(key, ".properties") {
			properties = r.properties(data.at(key), properties[key])
		}
		for key := range properties {
			if _, twice := all[key]; twice {
				r.fail("%s has %s twice: keep one of them", name, key)
			}
		}
		maps.Copy(all, properties)
	}
	top.end()
	for _, key := range []string{"name", "must_sucess", "must_success"} { //nolint:misspell // So it is written.
		if _, has := all[key]; has {
			r.Add("%s of %s has no counterpart and is omitted", key, name)
			delete(all, key)
		}
	}
	method := fencingv1.FenceMethod{Agent: all["agent_name"]}
	delete(all, "agent_name")
	method.Parameters, method.SecretKeys = r.parameters(all)
	if len(method.SecretKeys) > 0 {
		method.SecretName = strings.TrimPrefix(name, templatePrefix)
		r.secret(method.SecretName, method.SecretKeys)
	}
	return method
}

// method adds a method with the parameters of the Node.
func (r *row) method(base string) {
	off, on := r.definition(base, "off"), r.definition(base, "on")
	if off == nil {
		off = map[string]string{"template": base}
	}
	if on != nil && !maps.Equal(off, on) {
		r.fail("%s%s-off and -on differ: one method switches off and on, so give both the same template and parameters", methodPrefix, base)
	} else if on != nil {
		r.Add("%s%s-off and -on are one method: off in its step, on at the end", methodPrefix, base)
	}
	method := r.template(off["template"])
	delete(off, "template")
	method.Name = fencingv1.MethodName(base)
	own, keys := r.parameters(off)
	row := &r.spec.Nodes[0]
	if len(keys) > 0 {
		for _, key := range keys {
			if !slices.Contains(method.SecretKeys, key) {
				method.SecretKeys = append(method.SecretKeys, key)
			}
		}
		if row.SecretNames == nil {
			row.SecretNames = map[string]string{}
		}
		row.SecretNames[base] = base + "-" + row.Name
		r.secret(row.SecretNames[base], method.SecretKeys)
	}
	if len(own) > 0 {
		if row.Parameters == nil {
			row.Parameters = map[string]fencingv1.Parameters{}
		}
		row.Parameters[base] = own
	}
	r.validate(method, own)
	slices.Sort(method.SecretKeys)
	if slices.Equal(method.SecretKeys, []fencingv1.ParameterName{"password", "username"}) {
		method.SecretKeys = nil // The default.
	}
	if r.spec.Image = image; r.err == nil {
		r.Add("Replace image by a container image with /bin/sh and the agents: %s", method.Agent)
	}
	r.spec.Methods = append(r.spec.Methods, method)
}

// definition is the properties of the method for an action, or nil. The action follows from the step.
func (r *row) definition(base, action string) map[string]string {
	for _, name := range slices.Sorted(maps.Keys(r.definitions)) {
		properties := r.definitions[name]
		if found, does := r.split(name); found == base && (does == action || action == "off" && does != "on") {
			properties = maps.Clone(properties)
			delete(properties, "action")
			return properties
		}
	}
	return nil
}

// parameters separates what belongs in a Secret. The user name goes with the password.
func (r *reader) parameters(from map[string]string) (to fencingv1.Parameters, keys []fencingv1.ParameterName) {
	all := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(from)) {
		name, value := key, from[key]
		if other := renamed[strings.ToLower(key)]; other != "" {
			name = other
			r.Add("The parameter %s is %s now", key, name)
		}
		if _, twice := all[name]; twice {
			r.fail("the parameter %s is listed twice: keep one of its names", name)
		}
		all[name] = value
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if secretKey.MatchString(key) {
			keys = append(keys, fencingv1.ParameterName(key))
		}
	}
	if _, has := all["username"]; has && len(keys) > 0 {
		keys = append(keys, "username")
	}
	for key, value := range all {
		if slices.Contains(keys, fencingv1.ParameterName(key)) {
			continue
		}
		if to == nil {
			to = fencingv1.Parameters{}
		}
		to[key] = fencingv1.ParameterValue(value)
	}
	return to, keys
}

// secret notes which Secret to create.
func (r *reader) secret(name string, keys []fencingv1.ParameterName) {
	r.Add("Passwords are not copied. Create the Secret %s/%s with the keys %s: kubectl create secret generic %s -n %s, "+
		"and --from-file=KEY=FILE for each", namespace, name, keyList(keys), name, namespace)
	if !dnsName.MatchString(name) || len(name) > 253 {
		r.fail("a Secret would have an invalid name: shorten or correct the names of the template and of the Node")
	}
}

func keyList(keys []fencingv1.ParameterName) string {
	if len(keys) == 0 {
		return "username, password"
	}
	var names []string
	for _, key := range keys {
		names = append(names, string(key))
	}
	return strings.Join(names, ", ")
}

// validate verifies what the API server would. An error does not have a value.
func (r *row) validate(method fencingv1.FenceMethod, own fencingv1.Parameters) {
	if !strings.HasPrefix(method.Agent, "fence_") {
		r.fail("agent_name of the template of %s is not a fence agent, such as fence_ipmilan: write a method with a podTemplate", method.Name)
		return
	}
	method.Image, method.Parameters = image, merged(method.Parameters, own)
	if err := profile.Validate(&method); err != nil {
		r.fail("method %s: %s", method.Name, err)
	}
	if !shortName.MatchString(string(method.Name)) {
		r.fail("a method has an invalid name: use at most 40 lower case letters, digits or '-'")
	}
}

func merged(all ...fencingv1.Parameters) fencingv1.Parameters {
	to := fencingv1.Parameters{}
	for _, one := range all {
		maps.Copy(to, one)
	}
	return to
}
