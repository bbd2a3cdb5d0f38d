// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

// hostile draws text of a Node: any, or pieces that mean something to shells, agents or Kubernetes.
func hostile() *rapid.Generator[string] {
	pieces := rapid.SampledFrom([]string{
		"aws:///", "i-0", "/", "$(", ")", "nodeName", "`", "'", `"`, "\n", "\r", "\x00", "action=on", " ", "#", "..", "$$", "\u2028",
	})
	return rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOfN(pieces, 0, 6), func(s []string) string { return strings.Join(s, "") }))
}

// No text of a Node reaches a parameter, but for its name and provider ID where the profile asks for them, and only if they are plain.
func TestResolve_AnyNode_NoTextReachesParameters(t *testing.T) {
	plain := regexp.MustCompile(`\A<[A-Za-z0-9:/._-]{1,256}>\z`)
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		value := rapid.SampledFrom([]string{"<fixed>", "<$(nodeName)>", "<$(providerID)>", "<$(instanceID)>"}).Draw(t, "value")
		node := profile.Node{Vouched: true, Name: "worker-1", ProviderID: hostile().Draw(t, "provider ID"), Labels: map[string]string{
			"type": hostile().Draw(t, "label"), "remedy.cluster.x-k8s.io/parameters": "canary",
		}}
		plan, problem := resolveParameter("plug", value, node)
		if problem != nil {
			g.Expect(plan).To(BeNil())
			g.Expect(value).To(ContainSubstring("ID"), "only the provider ID can be refused")
			return
		}
		for _, method := range plan.Methods {
			for key, got := range method.Parameters {
				if key != "plug" {
					g.Expect(string(got)).To(BeElementOf("1", "10.0.0.1"))
					continue
				}
				g.Expect(plain.MatchString(string(got))).To(BeTrue(), "%q", got)
				if value == "<fixed>" {
					g.Expect(string(got)).To(Equal(value))
				}
			}
		}
	})
}

// What Validate allows is one line for an agent, and not one that an agent changes or that sets an action.
func TestValidate_AnyParameter_IsOneLineForAgent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, value := hostile().Draw(t, "key"), hostile().Draw(t, "value")
		method := fencingv1.FenceMethod{Name: "ipmi", Agent: "fence_ipmilan", Image: "agents:1"}
		method.Parameters = fencingv1.Parameters{key: fencingv1.ParameterValue(value)}
		if profile.Validate(&method) != nil {
			return
		}
		line := key + "=" + value
		g := NewWithT(t)
		g.Expect(strings.FieldsFunc(line+".", func(r rune) bool { return strings.ContainsRune("\n\r\v\f\x1c\x1d\x1e\u0085", r) })).To(HaveLen(1))
		g.Expect(strings.TrimSpace(line)).To(Equal(line))
		g.Expect(line).ToNot(HavePrefix("#"))
		g.Expect(strings.ToLower(key)).ToNot(Equal("action"))
	})
}
