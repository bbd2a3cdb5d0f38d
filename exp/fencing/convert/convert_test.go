// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/convert"
)

var update = flag.Bool("update", false, "write golden files")

// document are the files in testdata. The first three are the YAML of the document.
var document = []string{"configuration", "bare_metal", "cloud", "rack"}

func input(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return string(content)
}

// The API server accepts what the document's YAML becomes. Each edit is a comment in the manifest.
func TestConvert_Document_MatchesGolden(t *testing.T) {
	for _, name := range document {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			converted, failures := read(input(t, name))
			g.Expect(failures).To(BeEmpty())
			for _, one := range converted {
				content, err := one.YAML()
				g.Expect(err).ToNot(HaveOccurred())
				g.Expect(dryRun(t, content)).To(Succeed())
			}
			text, golden := printed(g, converted, failures), filepath.Join("testdata", name+".golden")
			if *update {
				g.Expect(os.WriteFile(golden, []byte(text), 0o600)).To(Succeed())
				g.Expect(os.Chmod(golden, 0o644)).To(Succeed())
			}
			written, err := os.ReadFile(golden)
			g.Expect(err).ToNot(HaveOccurred())
			g.Expect(text).To(Equal(string(written)), "run go test ./exp/fencing/convert -update")
			g.Expect(text).ToNot(ContainSubstring("hunter2"), "a password must not be copied")
		})
	}
}

func sample(g Gomega, name string, into client.Object) {
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "samples", "fencing", name))
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(yaml.UnmarshalStrict(content, into)).To(Succeed())
}

// asRead is an object as it is read from its manifest.
func asRead(g Gomega, one *convert.Converted, into client.Object) {
	content, err := one.YAML()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(yaml.UnmarshalStrict(content, into)).To(Succeed())
}

// The sample is the document's Configuration, converted. Only a person can define the remedy that the document names and defines nowhere.
func TestConvert_Configuration_IsTheSample(t *testing.T) {
	g := NewWithT(t)
	converted, failures := read(input(t, "configuration"))
	g.Expect(failures).To(BeEmpty())
	remedy, expected := &fencingv1.NodeRemedy{}, &fencingv1.NodeRemedy{}
	asRead(g, converted[0], remedy)
	sample(g, "noderemedy.yaml", expected)
	remedy.Spec.RemedyConfigs = append(remedy.Spec.RemedyConfigs, fencingv1.RemedyConfig{
		Name: "storage-fence", Fence: &fencingv1.NodeFenceSpec{ProfileName: "bare-metal", PowerManagement: &[]fencingv1.PowerLevel{}},
	})
	g.Expect(remedy.Name).To(Equal(expected.Name))
	same(g, remedy, expected)
}

// The sample is the document's ConfigMap, converted. Only a person has the devices, the Secrets, the image, the class and the Node.
func TestConvert_BareMetal_IsTheSample(t *testing.T) {
	g := NewWithT(t)
	converted, failures := read(input(t, "bare_metal"))
	g.Expect(failures).To(BeEmpty())
	profile, expected := &fencingv1.FenceProfile{}, &fencingv1.FenceProfile{}
	asRead(g, converted[0], profile)
	sample(g, "bare_metal.yaml", expected)
	profile.Name, profile.Spec.Image, profile.Spec.Nodes[0].Name = "bare-metal", "registry.example.com/fence-agents:4.12", "worker-1"
	fc, eaton := &profile.Spec.Methods[0], &profile.Spec.Methods[1]
	fc.Parameters, fc.SecretName = fencingv1.Parameters{"ip": "10.0.0.5", "ssh": "1"}, "brocade"
	fc.StorageClasses = []fencingv1.StorageClassName{"fc-gold"}
	eaton.Parameters, eaton.SecretName = fencingv1.Parameters{"ip": "10.0.0.6"}, "eaton"
	same(g, profile, expected)
}

// same compares fields, as JSON has them.
func same(g Gomega, got, expected client.Object) {
	one, err := runtime.DefaultUnstructuredConverter.ToUnstructured(got)
	g.Expect(err).ToNot(HaveOccurred())
	other, err := runtime.DefaultUnstructuredConverter.ToUnstructured(expected)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(one).To(Equal(other))
}

// profileOf is a ConfigMap of a Node with one method.
func profileOf(node, method string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fence-config-" + node + "}\n" +
		"data:\n  config.properties: |\n    power_management=ipmi-off\n  fence-method-ipmi-off: |\n    " +
		strings.ReplaceAll(method, "\n", "\n    ") + "\n---\n"
}

const (
	use       = "template=fence-method-template-a"
	template  = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fence-method-template-a}\ndata: {agent_name: fence_ipmilan}\n---\n"
	configure = "apiVersion: node-remedy/v1alpha\nkind: Configuration\n"
	threshold = "thresholdConfigs: [{nodeConditionType: Ready, nodeConditionStatus: Unknown, nodeConditionPeriod: 5m, remedy1: [{name: a}]}]\n"
	pod       = "spec: {containers: [{name: a, image: b}]}"
)

// Rows with the same methods are in one FenceProfile, and an error is about one object.
func TestConvert_OneInvalid_OthersAreConverted(t *testing.T) {
	g := NewWithT(t)
	converted, failures := read(template + profileOf("worker-1", use+"\nip=1") + profileOf("NodeA", use) + profileOf("worker-2", use+"\nip=2"))
	g.Expect(failures).To(ConsistOf(MatchError(HavePrefix("failed to convert ConfigMap fence-config-NodeA: node_name is not the name"))))
	g.Expect(converted).To(HaveLen(1))
	nodes := converted[0].Object.(*fencingv1.FenceProfile).Spec.Nodes
	g.Expect(nodes).To(HaveExactElements(HaveField("Name", "worker-1"), HaveField("Name", "worker-2")))
	g.Expect(nodes[1].Parameters).To(HaveKeyWithValue("ipmi", fencingv1.Parameters{"ip": "2"}))
}

// The order of remedies is that of their numbers, not that of their text. A YAML list can have a Configuration, too.
func TestConvert_Remedies_AreInOrder(t *testing.T) {
	g := NewWithT(t)
	text := strings.ReplaceAll(configure+"nodeSelector: \"type in (a, b),!c\"\n"+threshold, "\n", "\n  ")
	text = "- " + strings.Replace(text, "remedy1: [{name: a}]",
		"remedy10: {name: c}, remedy2: {name: b, period: 5s, clean-resources: false}, remedy1: {name: a}", 1)
	converted, failures := read(text)
	g.Expect(failures).To(BeEmpty())
	spec := converted[0].Object.(*fencingv1.NodeRemedy).Spec
	g.Expect(spec.ThresholdConfigs[0].Remedies).To(HaveExactElements(
		HaveField("Name", BeEquivalentTo("a")), HaveField("Name", BeEquivalentTo("b")), HaveField("Name", BeEquivalentTo("c"))))
	g.Expect(spec.NodeSelector.MatchExpressions).To(HaveLen(2))
	g.Expect(converted[0].Notes).To(ContainElement(ContainSubstring("period is 1m0s instead of 5s")))
}

// Every field that is not used is noted.
func TestConvert_UnknownFields_AreNoted(t *testing.T) {
	g := NewWithT(t)
	converted, failures := read(configure + "future: 1\nmetadata: {name: a, labels: {b: c}}\n" +
		"remedyConfigs: [{name: a, shell: b, podTemplate: {" + pod + "}}]\n" +
		strings.NewReplacer("[{name: a}]", "[{name: a}, {later: 1}], recovery: {name: a, b: 1}, other: 1").Replace(threshold))
	g.Expect(failures).To(BeEmpty())
	for _, field := range []string{
		"future", "remedyConfigs[0].shell", "thresholdConfigs[0].other", "thresholdConfigs[0].remedy1.later", "thresholdConfigs[0].recovery.b",
	} {
		g.Expect(converted[0].Notes).To(ContainElement(field + " has no counterpart and is omitted"))
	}
	g.Expect(converted[0].Notes).To(ContainElement(HavePrefix("Of metadata, only the name is used")))
}

func TestConvert_Invalid_IsAnError(t *testing.T) {
	with := func(configs string) string { return configure + threshold + "remedyConfigs: " + configs + "\n" }
	edited := func(old, other string) string { return configure + strings.Replace(threshold, old, other, 1) }
	method := func(text string) string { return template + profileOf("a", use+"\n"+text) }
	config := func(text string) string {
		return template + strings.Replace(profileOf("a", use), "power_management=ipmi-off", text, 1)
	}
	for name, test := range map[string]struct{ text, message string }{
		"no manifest":          {"text", "it is not a manifest"},
		"list of text":         {"- a\n", "it is not a manifest"},
		"a key twice":          {configure + "nodeSelector: a=b\nnodeSelector: c=d\n", "already set"},
		"no threshold":         {configure, "thresholdConfigs is missing"},
		"threshold is text":    {configure + "thresholdConfigs: a", "thresholdConfigs must be a list"},
		"a threshold is text":  {configure + "thresholdConfigs: [a]", "thresholdConfigs[0] must have fields"},
		"no type":              {edited("nodeConditionType: Ready,", ""), "nodeConditionType is missing"},
		"status":               {edited("Unknown", "NotReady"), "must be true, false or Unknown"},
		"period":               {edited("5m", "5"), "must be text"},
		"period in words":      {edited("5m", "five"), "must be a duration such as 5m"},
		"clean":                {edited("{name: a}", "{name: a}, {clean-resourece: 1}"), "must be true or false"},
		"a name twice":         {edited("[{name: a}]", "[{name: a}], remedy2: {name: a}"), "uses the remedy a twice"},
		"two names":            {edited("[{name: a}]", "[{name: a}, {name: b}]"), "is listed twice"},
		"name of a remedy":     {edited("name: a", "name: A"), "must be a name of at most 40"},
		"selector":             {configure + "nodeSelector: a=b=c\n" + threshold, "nodeSelector is invalid"},
		"a label twice":        {configure + "nodeSelector: \"a=b,a=c\"\n" + threshold, "has a label twice"},
		"empty selector":       {configure + "nodeSelector: \"\"\n" + threshold, "nodeSelector is empty"},
		"no template":          {with("[{name: a}]"), "spec.containers is missing"},
		"template":             {with("[{name: a, podTemplate: {spec: {containers: [{name: a, imagee: b}]}}}]"), `unknown field "imagee"`},
		"defined twice":        {with("[{name: a, podTemplate: {" + pod + "}}, {name: a, podTemplate: {" + pod + "}}]"), "is defined twice"},
		"variable":             {with("[{name: a, podTemplate: {spec: {containers: [{name: a, env: [A_B]}]}}}]"), "use the form of Kubernetes"},
		"env is text":          {with("[{name: a, podTemplate: {spec: {containers: [{name: a, env: a}]}}}]"), "env must be a list"},
		"same name":            {strings.Repeat("---\n"+configure+threshold, 2), "set metadata.name of each"},
		"unused template":      {template, "no ConfigMap fence-config-NODE"},
		"missing template":     {profileOf("a", "template=fence-method-template-b"), "a template that is not in the input"},
		"template twice":       {template + template, "listed twice"},
		"no agent":             {strings.Replace(method("a=b"), "fence_ipmilan", "google-cloud", 1), "is not a fence agent"},
		"no line of a method":  {method("plug 1"), "line 2 of fence-method-ipmi-off is not KEY=VALUE"},
		"reserved":             {method("verbose=1"), `parameter "verbose" is not allowed`},
		"quote":                {method("plug=\"1\""), "begins or ends with a blank or a quote"},
		"action":               {method("action=monitor"), "another action than on, off and reboot"},
		"both names":           {method("ip=1\nipaddr=1"), "listed twice"},
		"no method":            {config("recovery=uncordon"), "no method switches off"},
		"undefined":            {config("power_management=pdu-off"), "names pdu-off, which is defined nowhere: add the key fence-method-pdu-off"},
		"name of a method":     {config("power_management=A-off"), "has an invalid name"},
		"off in recovery":      {config("power_management=ipmi-off\n    recovery=ipmi-off"), "recovery names ipmi-off, which switches off"},
		"two steps":            {config("power_management=ipmi-off\n    isolation=ipmi-off"), "is in isolation and in power_management"},
		"different on and off": {strings.Replace(method("plug=1"), "  fence-", "  fence-method-ipmi-on: plug=2\n  fence-", 1), "differ"},
		"two rows":             {template + strings.Repeat(profileOf("a", use), 2), "another ConfigMap is for the Node a"},
	} {
		t.Run(name, func(t *testing.T) {
			_, failures := read(test.text)
			NewWithT(t).Expect(failures).To(ContainElement(MatchError(ContainSubstring(test.message))))
		})
	}
}
