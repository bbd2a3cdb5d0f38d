// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/convert"
)

// expectStrict reads each manifest with the types of the API.
func expectStrict(g Gomega, converted []*convert.Converted) {
	for _, one := range converted {
		content, err := one.YAML()
		g.Expect(err).ToNot(HaveOccurred())
		if one.Kind() == "NodeRemedy" {
			remedy := &fencingv1.NodeRemedy{}
			g.Expect(yaml.UnmarshalStrict(content, remedy)).To(Succeed(), string(content))
			g.Expect(remedy.Spec.Mode).To(BeEquivalentTo("Observe"))
		} else {
			g.Expect(yaml.UnmarshalStrict(content, &fencingv1.FenceProfile{})).To(Succeed(), string(content))
		}
	}
}

func FuzzConvert_AnyText_IsStrictOrAnError(f *testing.F) {
	for _, name := range document {
		content, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(content))
	}
	for _, text := range []string{"", "[]", "a", "{kind: Configuration, apiVersion: node-remedy/v1, metadata: 1}", "{items: [1]}", "- - []"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		converted, _ := read(text)
		expectStrict(NewWithT(t), converted)
	})
}

// Wherever a field of the document's YAML is removed, or replaced by another type, the result is valid or an error.
func TestConvert_EachFieldReplaced_IsStrictOrAnError(t *testing.T) {
	g, count := NewWithT(t), 0
	for _, name := range document {
		lines := strings.Split(input(t, name), "\n")
		for i, line := range lines {
			key, _, _ := strings.Cut(line, ":")
			for _, other := range []string{"", key + ": 1", key + ": {a: b}", key + ": [a, {b: c}, 1]", key + ": null", key + ": \"\\u2028a: b\""} {
				edited := append(append(append([]string{}, lines[:i]...), other), lines[i+1:]...)
				converted, failures := read(strings.Join(edited, "\n"))
				expectStrict(g, converted)
				g.Expect(printed(g, converted, failures)).ToNot(ContainSubstring("hunter2"), "%d %s", i, other)
				count++
			}
		}
	}
	g.Expect(count).To(BeNumerically(">", 500))
}

// A password is neither copied nor quoted, wherever it is written.
func TestConvert_Passwords_AreNotPrinted(t *testing.T) {
	const canary = "hunter2"
	for _, line := range []string{
		"password=" + canary, "passwd=" + canary, "snmp-priv-passwd=" + canary, "community=" + canary, "secret_key=" + canary, "token=" + canary,
		"API_KEY=" + canary, "password: " + canary, canary, "=" + canary, "password = \"" + canary + "\"", "verbose=" + canary,
		"action=" + canary,
		"passwd_script=" + canary, "password=a\n    password=" + canary,
	} {
		t.Run(line, func(t *testing.T) {
			g := NewWithT(t)
			inTemplate := strings.Replace(template, "{agent_name: fence_ipmilan}",
				"\n  template.properties: |\n    agent_name=fence_ipmilan\n    "+line, 1)
			for _, text := range []string{
				inTemplate + profileOf("a", use), template + profileOf("a", use+"\n"+line),
				template + strings.Replace(profileOf("a", use), "power_management", line+"\n    power_management", 1),
			} {
				converted, failures := read(text)
				g.Expect(len(converted) + len(failures)).To(BeNumerically(">", 0))
				g.Expect(printed(g, converted, failures)).ToNot(ContainSubstring(canary))
				expectStrict(g, converted)
			}
		})
	}
}
