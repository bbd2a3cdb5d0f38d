// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

var worker = profile.Node{Vouched: true, Name: "worker-1", ProviderID: "metal3://hosts/1f0c", Labels: map[string]string{"type": "compute"}}

type (
	fenceProfile  = fencingv1.FenceProfile
	nodeFenceSpec = fencingv1.NodeFenceSpec
	names         = []fencingv1.MethodName
	levels        = []fencingv1.PowerLevel
	profiles      = []fenceProfile
)

func level(methods ...fencingv1.MethodName) fencingv1.PowerLevel {
	return fencingv1.PowerLevel{Methods: methods}
}

// rack is a profile of Cluster prod with an IPMI device, a switch, and a Job that collects logs.
func rack(name string, change ...func(*fenceProfile)) fencingv1.FenceProfile {
	rack := fencingv1.FenceProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: fencingv1.FenceProfileSpec{
		ClusterName: "prod", Image: "agents:4.12",
		Methods: []fencingv1.FenceMethod{
			{Name: "ipmi", Agent: "fence_ipmilan", Parameters: fencingv1.Parameters{"lanplus": "1", "ip": "10.0.0.1"}, SecretName: "bmc"},
			{Name: "fc", Agent: "fence_brocade", Image: "agents:fc", Timeout: &remedyv1.Duration{Duration: metav1.Duration{Duration: time.Minute}}},
			{Name: "logs", PodTemplate: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "logs", Image: "logs:1"}},
			}}},
		},
		Isolation: names{"fc"}, Run: names{"logs"}, PowerManagement: levels{level("ipmi")},
		Nodes: []fencingv1.FenceProfileNode{{Name: "worker-1"}},
	}}
	for _, change := range change {
		change(&rack)
	}
	return rack
}

func noRows(p *fenceProfile) { p.Spec.Nodes = nil }

func selecting(value string) func(*fenceProfile) {
	return func(p *fenceProfile) {
		noRows(p)
		p.Spec.NodeSelector = &remedyv1.Selector{MatchLabels: map[string]remedyv1.LabelValue{"type": remedyv1.LabelValue(value)}}
	}
}

func deleting(p *fenceProfile) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func otherCluster(p *fenceProfile) { p.Spec.ClusterName = "test" }

func withProviderID(id string) func(*fenceProfile) {
	return func(p *fenceProfile) { p.Spec.Nodes[0].ProviderID = id }
}

func TestResolve_Profiles_OneIsChosen(t *testing.T) {
	everything := func(p *fenceProfile) { p.Spec.NodeSelector = &remedyv1.Selector{} }
	generated := func(p *fenceProfile) { p.Labels = map[string]string{fencingv1.NodeRemedyLabel: "a"} }
	for name, row := range map[string]struct {
		name, cluster string
		profiles      profiles
		chosen        string
		problem       string
	}{
		"none": {cluster: "prod", problem: "no FenceProfile of Cluster prod has a row"},
		"row":  {cluster: "prod", profiles: profiles{rack("a")}, chosen: "a"},
		"row before selector": {
			cluster: "prod", profiles: profiles{rack("a", selecting("compute")), rack("b")},
			chosen: "b",
		},
		"selector": {
			cluster: "prod", profiles: profiles{rack("a", noRows), rack("b", selecting("compute"))},
			chosen: "b",
		},
		"selector of all": {cluster: "prod", profiles: profiles{rack("a", noRows, everything)}, chosen: "a"},
		"selector of others": {
			cluster: "prod", profiles: profiles{rack("b", selecting("storage"))},
			problem: "no FenceProfile",
		},
		"two rows": {
			cluster: "prod", profiles: profiles{rack("b"), rack("a")},
			problem: "FenceProfiles a, b match",
		},
		"two selectors": {
			cluster: "prod", profiles: profiles{rack("a", noRows, everything), rack("b", selecting("compute"))},
			problem: "FenceProfiles a, b match",
		},
		"other cluster":       {cluster: "prod", profiles: profiles{rack("a", otherCluster)}, problem: "no FenceProfile"},
		"Node of the manager": {profiles: profiles{rack("a")}, problem: "no FenceProfile of the cluster of the manager"},
		"two rows, one named": {cluster: "prod", name: "b", profiles: profiles{rack("b"), rack("a")}, chosen: "b"},
		"named, without a row": {
			cluster: "prod", name: "a", profiles: profiles{rack("a", noRows)},
			problem: "FenceProfile a of Cluster prod does not exist, or has neither",
		},
		"named, other cluster": {
			cluster: "prod", name: "a", profiles: profiles{rack("a", otherCluster), rack("b")},
			problem: "FenceProfile a of Cluster prod",
		},
		"named, does not exist": {
			cluster: "prod", name: "c", profiles: profiles{rack("a")},
			problem: "FenceProfile c of Cluster prod",
		},
		"being deleted":             {cluster: "prod", profiles: profiles{rack("a", deleting), rack("b")}, chosen: "b"},
		"generated":                 {cluster: "prod", profiles: profiles{rack("a", generated), rack("b")}, chosen: "b"},
		"generated, by its name":    {cluster: "prod", name: "a", profiles: profiles{rack("a", generated)}, chosen: "a"},
		"of a fence, while deleted": {cluster: "prod", name: "a", profiles: profiles{rack("a", deleting)}, chosen: "a"},
		"same provider ID": {
			cluster: "prod", profiles: profiles{rack("a", withProviderID(worker.ProviderID))},
			chosen: "a",
		},
		"selector that is not valid": {
			cluster: "prod", profiles: profiles{rack("a", selecting("?"))},
			problem: "no FenceProfile",
		},
		"selector and row of another": {
			cluster: "prod", name: "a", profiles: profiles{rack("a", selecting("compute")), rack("b")},
			chosen: "a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			plan, problem := profile.Resolve(&nodeFenceSpec{ProfileName: row.name}, row.cluster, worker, row.profiles)
			if row.problem != "" {
				g.Expect(plan).To(BeNil())
				g.Expect(problem).To(HaveValue(HaveField("Reason", profile.ReasonNotResolved)))
				g.Expect(problem.Message).To(And(ContainSubstring(row.problem), ContainSubstring("Node worker-1")))
				return
			}
			g.Expect(problem).To(BeNil())
			g.Expect(plan.ProfileName).To(Equal(row.chosen))
		})
	}
}

// A row for another machine with the same name must not switch off that machine.
func TestResolve_OtherProviderID_NodeReplaced(t *testing.T) {
	g := NewWithT(t)
	for _, id := range []string{"metal3://hosts/other", ""} {
		node := profile.Node{Name: "worker-1", ProviderID: id}
		plan, problem := profile.Resolve(&nodeFenceSpec{}, "prod", node, profiles{rack("a", withProviderID("metal3://hosts/1f0c"))})
		g.Expect(plan).To(BeNil())
		g.Expect(problem).To(HaveValue(HaveField("Reason", profile.ReasonProviderIDMismatch)))
		g.Expect(problem.Message).To(ContainSubstring("metal3://hosts/1f0c"))
	}
}

func TestResolve_Steps_OfRequestOrProfile(t *testing.T) {
	all := profile.Plan{Isolation: names{"fc"}, Run: names{"logs"}, Levels: []names{{"ipmi"}}}
	for name, row := range map[string]struct {
		spec    fencingv1.NodeFenceSpec
		change  func(*fenceProfile)
		plan    profile.Plan
		problem string
	}{
		"of the profile": {plan: all},
		"of the request": {
			spec: nodeFenceSpec{Isolation: &names{}, Run: &names{"logs", "logs"}, PowerManagement: &levels{level("fc"), level("ipmi", "fc")}},
			plan: profile.Plan{Isolation: names{}, Run: names{"logs", "logs"}, Levels: []names{{"fc"}, {"ipmi", "fc"}}},
		},
		"isolation and power": {
			spec:    nodeFenceSpec{PowerManagement: &levels{level("ipmi"), level("fc")}},
			problem: "method fc is in isolation and in powerManagement",
		},
		"isolation and run": {spec: nodeFenceSpec{Isolation: &names{"logs"}}, problem: "method logs is in isolation and in run"},
		"run and power": {
			spec:    nodeFenceSpec{PowerManagement: &levels{level("logs")}},
			problem: "method logs is in run and in powerManagement",
		},
		"skipped": {
			spec: nodeFenceSpec{Isolation: &names{}, Run: &names{}},
			plan: profile.Plan{Isolation: names{}, Run: names{}, Levels: all.Levels},
		},
		"check": {
			spec: nodeFenceSpec{Mode: fencingv1.CheckDevices},
			plan: profile.Plan{Isolation: all.Isolation, Levels: all.Levels},
		},
		"nothing": {
			spec:    nodeFenceSpec{Isolation: &names{}, Run: &names{}, PowerManagement: &levels{}},
			problem: "there is no method to use",
		},
		"check of nothing": {
			spec:    nodeFenceSpec{Mode: fencingv1.CheckDevices, Isolation: &names{}, PowerManagement: &levels{}},
			problem: "there is no method to use",
		},
		"isolation not there": {spec: nodeFenceSpec{Isolation: &names{"san"}}, problem: "there is no method san"},
		"run not there":       {spec: nodeFenceSpec{Run: &names{"san"}}, problem: "there is no method san"},
		"power not there": {
			spec:    nodeFenceSpec{PowerManagement: &levels{level("ipmi", "san")}},
			problem: "there is no method san",
		},
		"level without methods": {
			spec:    nodeFenceSpec{PowerManagement: &levels{level("ipmi"), level()}},
			problem: "a level of powerManagement has no methods",
		},
		"agent cannot run":     {spec: nodeFenceSpec{Run: &names{"ipmi"}}, problem: "method ipmi cannot run"},
		"agent cannot recover": {spec: nodeFenceSpec{Recovery: names{"ipmi"}, PowerManagement: &levels{}}, problem: "method ipmi cannot run"},
		"recovery not there":   {spec: nodeFenceSpec{Recovery: names{"san"}}, problem: "there is no method san"},
		"run and recovery":     {spec: nodeFenceSpec{Recovery: names{"logs"}}, problem: "method logs is in run and in recovery"},
		"recovery": {
			spec: nodeFenceSpec{Recovery: names{"logs"}, Run: &names{}},
			plan: profile.Plan{Isolation: all.Isolation, Run: names{}, Levels: all.Levels},
		},
		"nothing but recovery": {
			spec:    nodeFenceSpec{Recovery: names{"logs"}, Isolation: &names{}, Run: &names{}, PowerManagement: &levels{}},
			problem: "there is no method to use",
		},
		"kernel dump":              {change: dumps("ipmi"), plan: all},
		"kernel dump and a device": {change: dumps("ipmi", "fc"), spec: nodeFenceSpec{Isolation: &names{}}, problem: "needs a level of its own"},
		"kernel dump isolates": {
			change:  func(p *fenceProfile) { p.Spec.Methods[1].Agent = profile.KernelDumpAgent },
			problem: "method fc isolates nothing",
		},
		"row of no method": {
			change:  func(p *fenceProfile) { p.Spec.Nodes[0].Parameters = map[string]fencingv1.Parameters{"impi": nil} },
			problem: `the row has parameters for "impi"`,
		},
		"method without image": {
			change:  func(p *fenceProfile) { p.Spec.Image = "" },
			problem: "method ipmi cannot be used: neither it nor its FenceProfile has an image",
		},
		"agent and podTemplate": {
			change:  func(p *fenceProfile) { p.Spec.Methods[2].Agent = "fence_dummy" },
			problem: "method logs cannot be used: it needs either",
		},
		"neither of them": {
			change:  func(p *fenceProfile) { p.Spec.Methods[0].Agent = "" },
			problem: "method ipmi cannot be used: it needs either",
		},
		"other program": {
			change:  func(p *fenceProfile) { p.Spec.Methods[0].Agent = "sh" },
			problem: `"sh" is not an agent`,
		},
		"podTemplate is empty": {
			change:  func(p *fenceProfile) { p.Spec.Methods[2].PodTemplate.Spec.Containers = nil },
			problem: "its podTemplate has no containers",
		},
		"secret runs a program": {
			change:  func(p *fenceProfile) { p.Spec.Methods[0].SecretKeys = []fencingv1.ParameterName{"password_script"} },
			problem: `"password_script" is not allowed`,
		},
		"unused and not useable": {
			spec:   nodeFenceSpec{Isolation: &names{}},
			change: func(p *fenceProfile) { p.Spec.Methods[1].Agent = "sh" },
			plan:   profile.Plan{Isolation: names{}, Run: all.Run, Levels: all.Levels},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			from := rack("a")
			if row.change != nil {
				row.change(&from)
			}
			before := from.DeepCopy()
			plan, problem := profile.Resolve(&row.spec, "prod", worker, profiles{from})
			g.Expect(from).To(Equal(*before), "the profile is not changed")
			if row.problem != "" {
				g.Expect(plan).To(BeNil())
				g.Expect(problem).To(HaveValue(HaveField("Reason", profile.ReasonNotResolved)))
				g.Expect(problem.Message).To(And(HavePrefix("FenceProfile a, Node worker-1: "), ContainSubstring(row.problem)))
				return
			}
			g.Expect(problem).To(BeNil())
			g.Expect([]any{plan.Isolation, plan.Run, plan.Levels}).To(Equal([]any{row.plan.Isolation, row.plan.Run, row.plan.Levels}))
		})
	}
}

func TestResolve_Methods_HaveDefaultsAndValuesOfRow(t *testing.T) {
	g := NewWithT(t)
	from := rack("a", func(p *fenceProfile) {
		p.Spec.Methods[0].Parameters["note"] = "$(nodeName) $(providerID) $(instanceID)"
		p.Spec.Nodes[0].Parameters = map[string]fencingv1.Parameters{"ipmi": {"ip": "10.0.0.11", "cipher": "3"}, "fc": {"plug": "$(instanceID)"}}
		p.Spec.Nodes[0].SecretNames = map[string]string{"ipmi": "bmc-worker-1"}
	})
	plan, problem := profile.Resolve(&nodeFenceSpec{}, "prod", worker, profiles{from})
	g.Expect(problem).To(BeNil())
	ipmi, fc := plan.Methods["ipmi"], plan.Methods["fc"]
	g.Expect(ipmi.Parameters).To(Equal(fencingv1.Parameters{
		"lanplus": "1", "ip": "10.0.0.11", "cipher": "3", "note": "worker-1 metal3://hosts/1f0c 1f0c",
	}))
	g.Expect(ipmi.Image).To(Equal("agents:4.12"))
	g.Expect(ipmi.SecretName).To(Equal("bmc-worker-1"))
	g.Expect(ipmi.SecretKeys).To(Equal([]fencingv1.ParameterName{"username", "password"}))
	g.Expect(fc.Image).To(Equal("agents:fc"))
	g.Expect(fc.Parameters).To(Equal(fencingv1.Parameters{"plug": "1f0c"}))
	g.Expect(fc.SecretKeys).To(BeEmpty(), "it has no Secret")
	g.Expect(plan.Timeout("ipmi")).To(Equal(2 * time.Minute))
	g.Expect(plan.Timeout("fc")).To(Equal(time.Minute))
	g.Expect(plan.Timeout("san")).To(Equal(2*time.Minute), "no such method")
}

func resolveParameter(key, value string, node profile.Node) (*profile.Plan, *profile.Problem) {
	from := rack("a", func(p *fenceProfile) {
		p.Spec.Methods[0].Parameters[key] = fencingv1.ParameterValue(value)
		// A podTemplate is refused for its own reasons.
		p.Spec.Run = nil
	})
	return profile.Resolve(&nodeFenceSpec{}, "prod", node, profiles{from})
}

func TestResolve_Parameters_HostileOnesAreRefused(t *testing.T) {
	for _, row := range []struct {
		key, value string
		allowed    bool
	}{
		{"plug", "3", true},
		{"plug", "3,4", false},
		{"port", "3,4", false},
		{"plug_separator", ";", false},
		{"plug-separator", ";", false},
		{"systems_uri", "/redfish/v1/Systems/1", true},
		{"ssh-options", "-c aes", true},
		{"note", `a "b" c`, true},
		{"note", "", true},
		{"note", "$5", true},
		{"note", "größe", true},
		{"actions", "x", true},
		{"scripts", "x", true},
		{"action", "on", false},
		{"ACTION", "on", false},
		{"help", "1", false},
		{"Version", "1", false},
		{"verbose", "1", false},
		{"verbose_level", "9", false},
		{"verbose-level", "9", false},
		{"debug", "/x", false},
		{"debug-file", "/x", false},
		{"password_script", "/x", false},
		{"password-script", "/x", false},
		{"Passwd_Script", "/x", false},
		{"ipmitool_path", "/x", false},
		{"ipmitool-path", "/x", false},
		{"", "x", false},
		{"a=b", "x", false},
		{"a b", "x", false},
		{"a\nb", "x", false},
		{"#a", "x", false},
		{"note", "a\nip=b", false},
		{"note", "a\rip=b", false},
		{"note", "a\x00", false},
		{"note", "a\u0085b", false},
		{"note", "a\tb", false},
		{"note", " a", false},
		{"note", "a\u00a0", false},
		{"note", `"a"`, false},
		{"note", `a'`, false},
		{"note", "$(hostname)", false},
		{"note", "$()", false},
		{"note", "$(nodeName", false},
		{"note", "$(nodename)", false},
	} {
		t.Run(fmt.Sprintf("%q=%q", row.key, row.value), func(t *testing.T) {
			_, problem := resolveParameter(row.key, row.value, worker)
			NewWithT(t).Expect(problem == nil).To(Equal(row.allowed), "%v", problem)
		})
	}
}

func TestResolve_HostileNode_VariableIsRefused(t *testing.T) {
	for _, row := range []struct {
		value, id string
		allowed   bool
	}{
		{"$(providerID)", "aws:///region-1a/i-0abc", true},
		{"$(instanceID)", "i-0abc", true},
		{"x", "$(touch x)", true},
		{"$(providerID)", "", false},
		{"$(instanceID)", "", false},
		{"$(instanceID)", "aws://i-0/", false},
		{"$(instanceID)", "$(touch x)/i-0", false},
		{"$(providerID)", "i-0\naction=on", false},
		{"$(providerID)", "i 0", false},
		{"$(providerID)", "$(nodeName)", false},
		{"$(providerID)", string(make([]byte, 257)), false},
		{"$(instanceID)", "a/\u202eb", false},
	} {
		t.Run(fmt.Sprintf("%s of %q", row.value, row.id), func(t *testing.T) {
			_, problem := resolveParameter("plug", row.value, profile.Node{Name: "worker-1", ProviderID: row.id, Vouched: true})
			NewWithT(t).Expect(problem == nil).To(Equal(row.allowed), "%v", problem)
		})
	}
	hostile := profile.Node{Name: "worker-1", ProviderID: "$(REMEDY_DIR)", Vouched: true}
	_, problem := profile.Resolve(&nodeFenceSpec{}, "prod", hostile, profiles{rack("a")})
	NewWithT(t).Expect(problem).To(HaveValue(HaveField("Message", ContainSubstring("method logs cannot be used: the provider ID"))))
}
