// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fencing

// Package agents_test compares the parameters of the samples and of docs/fencing.md with the metadata of the real fence agents. It uses no
// device and no cloud. It needs the build tag fencing, and the packages of 'make deps-debian'. Start reading at verifyProfile.
package agents_test

import (
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/jobs"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing/bmc"
)

var (
	// newer are parameters that agents have which are newer than those of Debian.
	newer = map[string][]string{"fence_aws": {"skip_race_check"}}
	// needed are parameters that an agent cannot work without, and that its metadata has as optional.
	needed = map[string][]string{
		"fence_apc_snmp":    {"community"},
		"fence_aws":         {"region", "access_key", "secret_key"},
		"fence_azure_arm":   {"resourceGroup", "subscriptionId", "tenantId", "username", "password"},
		"fence_eaton_snmp":  {"community"},
		"fence_gce":         {"project", "zone", "serviceaccount"},
		"fence_kdump":       {"nodename"},
		"fence_openstack":   {"plug", "auth_url", "project_name", "username", "password"},
		"fence_vmware_soap": {"ssl"},
	}
)

// agent is the metadata of a fence agent.
type agent struct {
	Parameters []struct {
		Name       string `xml:"name,attr"`
		Required   string `xml:"required,attr"`
		Deprecated string `xml:"deprecated,attr"`
		Content    struct {
			Type    string `xml:"type,attr"`
			Options []struct {
				Value string `xml:"value,attr"`
			} `xml:"option"`
		} `xml:"content"`
	} `xml:"parameters>parameter"`
	Actions []agentAction `xml:"actions>action"`
}

type agentAction struct {
	Name string `xml:"name,attr"`
}

// agentNamed asks an agent for its metadata.
func agentNamed(t *testing.T, name string) (*agent, error) {
	command := exec.CommandContext(t.Context(), "/usr/sbin/"+name, "-o", "metadata")
	command.Env = []string{"PATH=" + bmc.Path(), "LC_ALL=C.UTF-8"}
	content, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s -o metadata: %w", name, err)
	}
	metadata := &agent{}
	return metadata, xml.Unmarshal(content, metadata)
}

// problems returns what keeps an agent from doing the actions of a method, which has the parameters of a Node.
func (a *agent) problems(method *fencingv1.FenceMethod, actions ...fencingv1.Action) []string {
	var found []string
	given := slices.Sorted(maps.Keys(method.Parameters))
	for _, key := range method.SecretKeys {
		given = append(given, string(key))
	}
	known := slices.Clone(newer[method.Agent])
	required := slices.Clone(needed[method.Agent])
	for _, parameter := range a.Parameters {
		name := parameter.Name
		known = append(known, name)
		switch {
		case parameter.Deprecated == "1":
			if slices.Contains(given, name) {
				found = append(found, name+" is deprecated")
			}
		case name == "port_as_ip":
			// Without plugs, its device is its address.
			required = append(required, "ip")
		case parameter.Required == "1" && name != "action":
			required = append(required, name)
		}
		value, has := method.Parameters[name]
		var options []string
		for _, option := range parameter.Content.Options {
			options = append(options, option.Value)
		}
		if has && !fits(parameter.Content.Type, options, string(value)) {
			found = append(found, fmt.Sprintf("%s=%s is not a %s", name, value, parameter.Content.Type))
		}
	}
	for _, key := range given {
		if !slices.Contains(known, key) {
			found = append(found, key+" is not a parameter")
		}
	}
	for _, key := range required {
		if !slices.Contains(given, key) {
			found = append(found, key+" is missing")
		}
	}
	for _, action := range actions {
		if !slices.Contains(a.Actions, agentAction{Name: string(action)}) {
			found = append(found, "it has no action "+string(action))
		}
	}
	return found
}

// fits returns whether an agent takes a value. Most agents only ask whether a boolean is set, and take 0 for 1.
func fits(kind string, options []string, value string) bool {
	switch kind {
	case "boolean":
		return value == "1"
	case "integer", "second":
		_, err := strconv.Atoi(value)
		return err == nil
	case "select":
		return slices.Contains(options, value)
	}
	return value != ""
}

// validator is in place of an agent. It passes on what the script of a Job sends, with another action, which uses no device.
const validator = `#!/bin/sh
input=$(cat)
[ $# = 0 ] && [ "$(printf '%%s\n' "$input" | tail -n 1)" = action=off ] || exit 99
printf '%%s\n' "$input" | sed '$s/.*/action=validate-all/' | /usr/sbin/%s
`

// validate runs the container of a Job with the agent, which validates what it gets. It returns what the agent reports.
func validate(t *testing.T, g Gomega, method fencingv1.FenceMethod) string {
	method.Parameters = maps.Clone(method.Parameters)
	for _, key := range newer[method.Agent] {
		delete(method.Parameters, key)
	}
	job, err := jobs.Build(jobs.Request{
		Fence: types.NamespacedName{Namespace: "default", Name: "worker-1"}, FenceUID: "1f0c2a3b-0000", ProfileName: "profile",
		Action: fencingv1.FenceAction{Sequence: 1, Method: method.Name, Action: fencingv1.ActionOff}, Method: method,
	})
	if err != nil {
		return err.Error()
	}
	folder := t.TempDir()
	write := func(name, content string, mode os.FileMode) {
		path := filepath.Join(folder, name)
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(content), mode)).To(Succeed())
	}
	pod := job.Spec.Template
	write("parameters", pod.Annotations[jobs.ParametersAnnotation], 0o600)
	for _, key := range method.SecretKeys {
		write("secrets/"+string(key), "a-secret", 0o600)
	}
	write("bin/"+method.Agent, fmt.Sprintf(validator, method.Agent), 0o700)
	args := append(slices.Clone(pod.Spec.Containers[0].Command), pod.Spec.Containers[0].Args...)
	command := exec.CommandContext(t.Context(), args[0], args[1:]...)
	command.Env = []string{
		"PATH=" + filepath.Join(folder, "bin") + ":" + bmc.Path(), "LC_ALL=C.UTF-8", "PYTHONWARNINGS=ignore",
		"REMEDY_DIR=" + folder, "REMEDY_TERMINATION_LOG=" + filepath.Join(folder, "message"),
	}
	log, err := command.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%v: %s", err, log)
	}
	return strings.TrimSpace(string(log))
}

type edit = func(*fencingv1.FenceMethod)

func set(key, value string) edit {
	return func(m *fencingv1.FenceMethod) { m.Parameters[key] = fencingv1.ParameterValue(value) }
}

func unset(key string) edit {
	return func(m *fencingv1.FenceMethod) { delete(m.Parameters, key) }
}

func use(agent string, parameters fencingv1.Parameters, secretKeys ...fencingv1.ParameterName) edit {
	return func(m *fencingv1.FenceMethod) { m.Agent, m.Parameters, m.SecretKeys = agent, parameters, secretKeys }
}

func withToken(m *fencingv1.FenceMethod) { m.SecretKeys = append(m.SecretKeys, "token") }

// wrongMethods are edits of a method, what the comparison finds, and what the agent itself reports. It reports nothing if it only needs a
// parameter for an action.
var wrongMethods = []struct {
	name             string
	edit             edit
	found, validated string
}{
	{"right", func(*fencingv1.FenceMethod) {}, "", ""},
	{"unknown-key", set("plugs", "1"), "plugs is not a parameter", "unknown option 'plugs"},
	{"unknown-secret-key", withToken, "token is not a parameter", "'token"},
	{"deprecated", set("port", "1b2c"), "port is deprecated", ""},
	{"no-plug", unset("plug"), "plug is missing", "You have to enter plug"},
	{"no-address", unset("ip"), "ip is missing", "You have to enter fence address"},
	{"no-tls", unset("ssl"), "ssl is missing", ""},
	{"no-user", func(m *fencingv1.FenceMethod) { m.SecretKeys = m.SecretKeys[1:] }, "username is missing", "You have to set login name"},
	{"boolean", set("ssl", "0"), "ssl=0 is not a boolean", ""},
	{"number", set("power_timeout", "1m"), "power_timeout=1m is not a second", "not a valid time"},
	{"empty", set("plug", ""), "plug= is not a string", ""},
	{"reserved", set("gnutlscli_path", "/x"), "", "is not allowed"},
	{"two-plugs", set("plug", "3,4"), "", "has several plugs"},
	{
		"option", use("fence_ilo5", fencingv1.Parameters{"ip": "127.0.0.1", "privlvl": "root"}, "username", "password"),
		"privlvl=root is not a select", "valid choice for --privlvl",
	},
	{"no-address-of-bmc", use("fence_ilo5", nil, "username", "password"), "ip is missing", "You have to enter fence address"},
	{"action", use("fence_kdump", fencingv1.Parameters{"nodename": "127.0.0.1"}), "it has no action status", ""},
}

// Each rule finds what it is for.
func TestAgent_WrongMethod_IsFound(t *testing.T) {
	t.Parallel()
	for _, test := range wrongMethods {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			method := fencingv1.FenceMethod{
				Name: "vcenter", Agent: "fence_vmware_soap", Image: "agents:4.12",
				Parameters: fencingv1.Parameters{"ip": "127.0.0.1", "plug": "1b2c", "ssl": "1"},
				SecretName: "vsphere", SecretKeys: []fencingv1.ParameterName{"username", "password"},
			}
			test.edit(&method)
			metadata, err := agentNamed(t, method.Agent)
			g.Expect(err).ToNot(HaveOccurred())
			found := strings.Join(metadata.problems(&method, fencingv1.ActionOff, fencingv1.ActionStatus), ", ")
			g.Expect(found).To(Equal(test.found))
			if report := validate(t, g, method); test.validated == "" {
				g.Expect(report).To(BeEmpty())
			} else {
				g.Expect(report).To(ContainSubstring(test.validated))
			}
		})
	}
	_, err := agentNamed(t, "fence_no_such_agent")
	NewWithT(t).Expect(err).To(HaveOccurred())
}
