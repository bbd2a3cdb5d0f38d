// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fencing

package agents_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

var (
	yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	separator = regexp.MustCompile(`(?m)^---$`)
	// devices are the files of samples that have one agent, and that agent.
	devices = map[string]string{
		"aws.yaml": "fence_aws", "azure.yaml": "fence_azure_arm", "brocade.yaml": "fence_brocade", "eaton.yaml": "fence_eaton_snmp",
		"gce.yaml": "fence_gce", "ilo.yaml": "fence_ilo5", "ipmi.yaml": "fence_ipmilan", "openstack.yaml": "fence_openstack",
		"redfish.yaml": "fence_redfish", "vmware.yaml": "fence_vmware_soap",
	}
	// providerIDs are what a cloud gives a machine, and the plug of its agent for that machine.
	providerIDs = map[string]struct{ providerID, plug string }{
		"fence_aws": {"aws:///eu-west-1a/i-0123456789abcdef0", "i-0123456789abcdef0"},
		"fence_azure_arm": {
			"azure:///subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/a/providers/Microsoft.Compute/virtualMachines/w-1", "w-1",
		},
		"fence_gce":         {"gce://my-project/europe-west1-b/w-1", "w-1"},
		"fence_openstack":   {"openstack:///1b2c3d4e-0000-4000-8000-000000000001", "1b2c3d4e-0000-4000-8000-000000000001"},
		"fence_vmware_soap": {"vsphere://4220d1a2-0000-4000-8000-000000000001", "4220d1a2-0000-4000-8000-000000000001"},
	}
)

// fenceProfiles are those of a text with several manifests.
func fenceProfiles(g Gomega, text string) []fencingv1.FenceProfile {
	var all []fencingv1.FenceProfile
	for _, part := range separator.Split(text, -1) {
		if object := (fencingv1.FenceProfile{}); strings.Contains(part, "\nkind: FenceProfile\n") {
			g.Expect(yaml.UnmarshalStrict([]byte(part), &object)).To(Succeed(), part)
			all = append(all, object)
		}
	}
	return all
}

// nodesOf are a Node for each row, and one that the selector selects.
func nodesOf(p *fencingv1.FenceProfile) []profile.Node {
	var nodes []profile.Node
	for _, row := range p.Spec.Nodes {
		nodes = append(nodes, profile.Node{Name: row.Name, ProviderID: row.ProviderID, Vouched: true})
	}
	if p.Spec.NodeSelector != nil {
		node := profile.Node{
			Name: "w-1", ProviderID: providerIDs[p.Spec.Methods[0].Agent].providerID, Labels: map[string]string{}, Vouched: true,
		}
		for key, value := range p.Spec.NodeSelector.MatchLabels {
			node.Labels[key] = string(value)
		}
		nodes = append(nodes, node)
	}
	return nodes
}

// verifyProfile compares each method with its agent, for each Node. It returns the agents.
func verifyProfile(t *testing.T, g Gomega, p fencingv1.FenceProfile) []string {
	nodes, agents := nodesOf(&p), map[string]*agent{}
	g.Expect(nodes).ToNot(BeEmpty(), "neither rows nor a nodeSelector")
	for i, node := range nodes {
		plan, problem := profile.Resolve(&fencingv1.NodeFenceSpec{}, p.Spec.ClusterName, node, []fencingv1.FenceProfile{p})
		g.Expect(problem).To(BeNil())
		for _, name := range slices.Concat(plan.Isolation, slices.Concat(plan.Levels...)) {
			method := plan.Methods[name]
			if method.PodTemplate != nil {
				continue
			}
			if agents[method.Agent] == nil {
				var err error
				agents[method.Agent], err = agentNamed(t, method.Agent)
				g.Expect(err).ToNot(HaveOccurred())
			}
			actions := []fencingv1.Action{fencingv1.ActionOn, fencingv1.ActionOff, fencingv1.ActionStatus}
			if method.Agent == profile.KernelDumpAgent {
				actions = []fencingv1.Action{fencingv1.ActionOff}
			}
			g.Expect(agents[method.Agent].problems(&method, actions...)).To(BeEmpty(), "method %s", name)
			if p.Spec.NodeSelector != nil {
				g.Expect(method.Parameters).To(HaveKeyWithValue("plug", fencingv1.ParameterValue(providerIDs[method.Agent].plug)))
			}
			// The keys are the same in each row.
			if i == 0 {
				g.Expect(validate(t, g, method)).To(BeEmpty(), "method %s", name)
			}
		}
	}
	return slices.Sorted(maps.Keys(agents))
}

// Agents ignore parameters that they do not have, so a wrong name in a sample can mean that nothing is switched off.
func TestSamples_Parameters_AreThoseOfTheirAgents(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	files, err := filepath.Glob("../../../config/samples/fencing/*.yaml")
	g.Expect(err).ToNot(HaveOccurred())
	missing := maps.Clone(devices)
	for _, file := range files {
		delete(missing, filepath.Base(file))
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			content, err := os.ReadFile(file)
			g.Expect(err).ToNot(HaveOccurred())
			profiles, agents := fenceProfiles(g, string(content)), []string(nil)
			for _, p := range profiles {
				agents = verifyProfile(t, g, p)
			}
			if device, has := devices[filepath.Base(file)]; has {
				g.Expect(profiles).To(HaveLen(1))
				g.Expect(agents).To(Equal([]string{device}))
			}
		})
	}
	g.Expect(missing).To(BeEmpty(), "there is no such sample")
}

func TestPages_Parameters_AreThoseOfTheirAgents(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	page, err := os.ReadFile("../../../docs/fencing.md")
	g.Expect(err).ToNot(HaveOccurred())
	count := 0
	for _, block := range yamlBlock.FindAllSubmatch(page, -1) {
		for _, p := range fenceProfiles(g, "\n"+string(block[1])) {
			count++
			t.Run(p.Name, func(t *testing.T) {
				t.Parallel()
				verifyProfile(t, NewWithT(t), p)
			})
		}
	}
	g.Expect(count).To(BeNumerically(">=", 3), "profiles of docs/fencing.md")
}
