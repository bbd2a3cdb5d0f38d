// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/pkg/errors"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// KernelDumpAgent is the agent that waits for the message of a kernel that has crashed.
const KernelDumpAgent = "fence_kdump"

var (
	agentPattern = regexp.MustCompile(`^fence_[a-z0-9_]+$`)
	keyPattern   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
	// reservedKeys are parameters that run programs, write files, print secrets, change the action, or answer OFF for other plugs.
	reservedKeys = regexp.MustCompile(`^(action|help|version|missing_as_off|plug_separator|verbose.*|debug.*|.*_script|.*_path)$`)
	variable     = regexp.MustCompile(`\$\([^)]*\)?`)
	// nodeText is all that a Node can bring into a parameter.
	nodeText = regexp.MustCompile(`^[A-Za-z0-9:/._-]{1,256}$`)
)

// addMethods adds the methods of the profile. One that cannot be used is an error only if a step uses it.
func (p *Plan) addMethods(profile *fencingv1.FenceProfile, row *fencingv1.FenceProfileNode, node Node) error {
	if row == nil {
		row = &fencingv1.FenceProfileNode{}
	}
	p.Methods = map[fencingv1.MethodName]fencingv1.FenceMethod{}
	failures := map[fencingv1.MethodName]error{}
	for _, method := range profile.Spec.Methods {
		resolved, err := resolveMethod(profile.Spec.Image, method.DeepCopy(), row, node)
		if failures[method.Name] = err; err == nil {
			p.Methods[method.Name] = *resolved
		}
	}
	for _, name := range slices.Sorted(maps.Keys(row.Parameters)) {
		if _, has := failures[fencingv1.MethodName(name)]; !has {
			return errors.Errorf("the row has parameters for %q, which is not a method", name)
		}
	}
	for _, methods := range p.Levels {
		dumps := func(name fencingv1.MethodName) bool { return p.Methods[name].Agent == KernelDumpAgent }
		switch {
		case len(methods) == 0:
			// All methods of a level answer OFF if there are none.
			return errors.New("a level of powerManagement has no methods")
		case len(methods) > 1 && slices.ContainsFunc(methods, dumps):
			return errors.Errorf("a method with %s needs a level of its own: it does not switch the Node off", KernelDumpAgent)
		}
	}
	used := slices.Concat(p.Isolation, p.Run, slices.Concat(p.Levels...))
	if len(used) == 0 {
		return errors.New("there is no method to use: isolation, run and powerManagement are empty (mode Check does not use run)")
	}
	for _, name := range append(used, p.Recovery...) {
		if err, has := failures[name]; err != nil {
			return errors.Wrapf(err, "method %s cannot be used", name)
		} else if !has {
			return errors.Errorf("there is no method %s", name)
		}
	}
	for _, name := range p.Isolation {
		if p.Methods[name].Agent == KernelDumpAgent {
			return errors.Errorf("method %s isolates nothing: use %s in a level of powerManagement", name, KernelDumpAgent)
		}
	}
	for _, name := range slices.Concat(p.Run, p.Recovery) {
		if p.Methods[name].PodTemplate == nil {
			return errors.Errorf("method %s cannot run: agents only switch, so it needs a podTemplate", name)
		}
	}
	return p.overlap()
}

// overlap returns which method two steps use. Admission sees the steps of the profile or of the request, not both.
func (p *Plan) overlap() error {
	steps := map[fencingv1.MethodName]string{}
	for _, step := range []struct {
		name    string
		methods []fencingv1.MethodName
	}{{"isolation", p.Isolation}, {"run", p.Run}, {"powerManagement", slices.Concat(p.Levels...)}, {"recovery", p.Recovery}} {
		for _, name := range step.methods {
			if other, used := steps[name]; used && other != step.name {
				return errors.Errorf("method %s is in %s and in %s: each method can be in one step", name, other, step.name)
			}
			steps[name] = step.name
		}
	}
	return nil
}

// resolveMethod returns a method with its defaults and with the values of the Node.
func resolveMethod(
	image string, method *fencingv1.FenceMethod, row *fencingv1.FenceProfileNode, node Node,
) (*fencingv1.FenceMethod, error) {
	if method.Image == "" {
		method.Image = image
	}
	if secret := row.SecretNames[string(method.Name)]; secret != "" {
		method.SecretName = secret
	}
	if method.SecretName == "" {
		method.SecretKeys = nil
	} else if len(method.SecretKeys) == 0 {
		method.SecretKeys = []fencingv1.ParameterName{"username", "password"}
	}
	if method.Parameters == nil {
		method.Parameters = fencingv1.Parameters{}
	}
	maps.Copy(method.Parameters, row.Parameters[string(method.Name)])
	if method.PodTemplate != nil && node.ProviderID != "" && !IsNodeText(node.ProviderID) {
		return nil, errors.New("the provider ID of the Node has other characters than letters, digits, ':', '/', '.', '_' and '-'")
	}
	for _, key := range slices.Sorted(maps.Keys(method.Parameters)) {
		replaced, err := replaceVariables(string(method.Parameters[key]), node)
		if err != nil {
			return nil, errors.Wrapf(err, "parameter %s", key)
		}
		method.Parameters[key] = fencingv1.ParameterValue(replaced)
	}
	return method, Validate(method)
}

// replaceVariables replaces variables. Its errors do not have the text of the Node.
func replaceVariables(value string, node Node) (string, error) {
	var err error
	replaced := variable.ReplaceAllStringFunc(value, func(reference string) string {
		whole, text := node.ProviderID, node.ProviderID
		switch reference {
		case "$(nodeName)":
			whole, text = node.Name, node.Name
		case "$(providerID)":
		case "$(instanceID)":
			text = text[strings.LastIndex(text, "/")+1:]
		default:
			err = errors.Errorf("%q is not a variable: use $(nodeName), $(providerID) or $(instanceID)", reference)
			return ""
		}
		if whole == "" && !node.Vouched {
			err = errors.Errorf("%s needs a Machine with this Node: the administrators of its cluster can give a Node any provider ID", reference)
			return ""
		}
		if !IsNodeText(whole) || !IsNodeText(text) {
			err = errors.Errorf("%s is empty, or has other characters than letters, digits, ':', '/', '.', '_' and '-'", reference)
			return ""
		}
		return text
	})
	return replaced, err
}

// IsNodeText returns whether a text of a Node can be passed on.
func IsNodeText(text string) bool { return nodeText.MatchString(text) }

// Validate returns why a method cannot be used. Admission refuses the same: what reaches an agent is checked again.
func Validate(method *fencingv1.FenceMethod) error {
	switch {
	case (method.Agent == "") == (method.PodTemplate == nil):
		return errors.New("it needs either agent or podTemplate")
	case method.PodTemplate != nil && len(method.PodTemplate.Spec.Containers) == 0:
		return errors.New("its podTemplate has no containers")
	case method.Agent != "" && !agentPattern.MatchString(method.Agent):
		return errors.Errorf("%q is not an agent such as fence_ipmilan", method.Agent)
	case method.Agent != "" && method.Image == "":
		return errors.New("neither it nor its FenceProfile has an image")
	}
	keys := slices.Sorted(maps.Keys(method.Parameters))
	for _, key := range method.SecretKeys {
		keys = append(keys, string(key))
	}
	for _, key := range keys {
		// Agents read "-" as "_".
		reserved := reservedKeys.MatchString(strings.ReplaceAll(strings.ToLower(key), "-", "_"))
		// Agents read lines, and remove blanks and quotes around a value.
		value := string(method.Parameters[key])
		switch {
		case !keyPattern.MatchString(key) || reserved:
			return errors.Errorf("parameter %q is not allowed", key)
		case strings.ContainsFunc(value, unicode.IsControl):
			return errors.Errorf("parameter %s has control characters", key)
		case method.Agent != "" && (key == "plug" || key == "port") && strings.Contains(value, ","):
			// fence_apc_snmp and others switch and ask only one of them, and answer OFF.
			return errors.Errorf("parameter %s has several plugs: use a method for each of them, in the same level", key)
		case strings.TrimSpace(value) != value || strings.Trim(value, `"'`) != value:
			return errors.Errorf("parameter %s begins or ends with a blank or a quote", key)
		}
	}
	return nil
}
