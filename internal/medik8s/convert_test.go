// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package medik8s_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/manifests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/medik8s"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// cluster is used by no other package: the cluster has no kinds of medik8s.
var cluster = testenv.New(testenv.RemedyKinds)

func TestMain(m *testing.M) { testenv.Main(m, cluster) }

var update = flag.Bool("update", false, "write golden files")

const template = "remediationTemplate: {apiVersion: self-node-remediation.medik8s.io/v1alpha1, kind: SelfNodeRemediationTemplate, " +
	"name: self-node-remediation-automatic-strategy-template, namespace: openshift-workload-availability}"

// manifest is a check of medik8s with a spec.
func manifest(spec string) string {
	return "apiVersion: remediation.medik8s.io/v1alpha1\nkind: NodeHealthCheck\nmetadata: {name: sample}\nspec:\n  " +
		strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  ") + "\n"
}

func convert(t *testing.T, text string) (*medik8s.Converted, error) {
	t.Helper()
	all, err := manifests.Read(strings.NewReader(text), "nhc.yaml")
	if err != nil {
		return nil, err
	}
	NewWithT(t).Expect(all).To(HaveLen(1))
	return medik8s.Convert(&all[0], nil)
}

// dryRun creates a manifest in an API server that stores nothing.
func dryRun(t *testing.T, content []byte) error {
	t.Helper()
	object := &unstructured.Unstructured{}
	NewWithT(t).Expect(yaml.Unmarshal(content, &object.Object)).To(Succeed())
	return cluster.API.Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict"))
}

// The samples of medik8s, and each difference. The API server accepts every result.
func TestConvert_Samples_AreValid(t *testing.T) {
	selector := "selector: {matchExpressions: [{key: node-role.kubernetes.io/worker, operator: Exists}]}\n"
	minimum := selector + "minHealthy: 51%\n" + template
	step := func(order, timeout string) string {
		return "- {order: " + order + ", timeout: " + timeout + ", " + template + "}\n"
	}
	for name, test := range map[string]struct {
		spec  string
		notes []string
		check func(g Gomega, spec *remedyv1.NodeHealthCheckSpec)
	}{
		"minimum": {minimum, []string{"they are the default of both"}, func(g Gomega, spec *remedyv1.NodeHealthCheckSpec) {
			g.Expect(spec.MinHealthy.StrVal).To(Equal("51%"))
			g.Expect(spec.UnhealthyConditions).To(HaveLen(2))
			g.Expect(spec.RemediationTemplate.Namespace).To(Equal("openshift-workload-availability"))
		}},
		"empty selector": {"minHealthy: 51%\n" + template, []string{"it selects every Node"}, func(g Gomega, spec *remedyv1.NodeHealthCheckSpec) {
			g.Expect(*spec.Selector).To(Equal(remedyv1.Selector{}))
		}},
		"no limit": {selector + template, []string{"minHealthy is 51%"}, nil},
		"maxUnhealthy": {
			selector + "maxUnhealthy: 05%\n" + template,
			[]string{"5% of 3 Nodes are 1 for medik8s and 0 for Remedy", "counts only unhealthy Nodes"},
			func(g Gomega, spec *remedyv1.NodeHealthCheckSpec) { g.Expect(spec.MaxUnhealthy.StrVal).To(Equal("5%")) },
		},
		"number as text": {selector + "minHealthy: \"2\"\n" + template, nil, func(g Gomega, spec *remedyv1.NodeHealthCheckSpec) {
			g.Expect(spec.MinHealthy.IntValue()).To(Equal(2))
		}},
		"never healthy": {minimum + "\nhealthyDelay: -1s", []string{"recovery: Confirmed"}, func(g Gomega, spec *remedyv1.NodeHealthCheckSpec) {
			g.Expect(spec.Recovery).To(Equal(remedyv1.ConfirmedRecovery))
			g.Expect(spec.HealthyDelay).To(BeNil())
		}},
		"delays": {
			minimum + "\nhealthyDelay: 90s\nstormCooldownDuration: 60.00001s",
			[]string{"begins again", "milliseconds"},
			func(g Gomega, spec *remedyv1.NodeHealthCheckSpec) {
				g.Expect(spec.HealthyDelay.Duration.Duration.String()).To(Equal("1m30s"))
				g.Expect(spec.StormCooldownDuration.Duration.Duration.String()).To(Equal("1m0s"))
			},
		},
		"pause": {
			minimum + "\npauseRequests: [upgrade, upgrade, \"\"]",
			[]string{"block new remediations"},
			func(g Gomega, spec *remedyv1.NodeHealthCheckSpec) {
				g.Expect(spec.PauseRequests).To(Equal([]string{"upgrade"}))
			},
		},
		"conditions": {
			minimum + "\nunhealthyConditions:\n- {type: Ready, status: \"False\", duration: 1h}\n- {type: Ready, status: \"True\", duration: 1s}\n" +
				"- {type: A, status: Bad, duration: 1s}\n- {type: B, status: \"True\", duration: 9000h}",
			[]string{"Ready=True is omitted", "A=Bad is omitted", "at most a year"},
			func(g Gomega, spec *remedyv1.NodeHealthCheckSpec) { g.Expect(spec.UnhealthyConditions).To(HaveLen(2)) },
		},
		"steps": {
			selector + "minHealthy: 51%\nescalatingRemediations:\n" + step("2000", "10s") + step("-1", "300s"),
			[]string{"1 to 2", "1m instead of 10s", "multiple-templates-support"},
			func(g Gomega, spec *remedyv1.NodeHealthCheckSpec) {
				g.Expect(spec.EscalatingRemediations).To(HaveLen(2))
				g.Expect(spec.EscalatingRemediations[0].Timeout.Duration.Duration.String()).To(Equal("5m0s"))
			},
		},
		"unknown field": {minimum + "\nfuture: 1", []string{"spec.future has no counterpart"}, nil},
		"irregular plural": {
			strings.ReplaceAll(minimum, "SelfNodeRemediationTemplate", "NodePolicyTemplate"), []string{"plural of NodePolicy"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			converted, err := convert(t, manifest(test.spec))
			g.Expect(err).ToNot(HaveOccurred())
			notes := strings.Join(converted.Notes, "\n")
			for _, note := range test.notes {
				g.Expect(notes).To(ContainSubstring(note))
			}
			content, err := converted.YAML()
			g.Expect(err).ToNot(HaveOccurred())
			g.Expect(string(content)).To(And(ContainSubstring("mode: Observe"), ContainSubstring("Delete or pause the check of medik8s before")))
			g.Expect(dryRun(t, content)).To(Succeed(), string(content))
			if test.check != nil {
				test.check(g, &converted.Check.Spec)
			}
		})
	}
}

func TestConvert_Invalid_IsAnError(t *testing.T) {
	other := strings.Replace(manifest(template), "remediation.medik8s.io/v1alpha1\nkind: NodeHealthCheck", "apps/v1\nkind: Deployment", 1)
	own := strings.Replace(manifest(template), "remediation.medik8s.io", "remedy.cluster.x-k8s.io", 1)
	for name, test := range map[string]struct{ text, says string }{
		"another kind":    {other, `unexpected kind "Deployment" of apiVersion "apps/v1": expected a NodeHealthCheck of remediation.medik8s.io`},
		"Remedy's":        {own, "which Remedy reconciles already: expected a NodeHealthCheck of remediation.medik8s.io"},
		"no manifest":     {"- a\n", "it is not a manifest"},
		"no template":     {manifest("minHealthy: 1"), "neither remediationTemplate nor escalatingRemediations"},
		"two limits":      {manifest("minHealthy: 1\nmaxUnhealthy: 1\n" + template), "keep one of them"},
		"no namespace":    {manifest("remediationTemplate: {apiVersion: a.b/v1, kind: ATemplate, name: a}"), "Template.namespace is missing"},
		"kind":            {manifest("remediationTemplate: {apiVersion: a.b/v1, kind: A, name: a, namespace: b}"), "ends in Template"},
		"invalid spec":    {manifest("minHealthy: {}"), "its spec is invalid"},
		"negative number": {manifest("minHealthy: -1\n" + template), "is negative"},
		"no condition left": {
			manifest("unhealthyConditions: [{type: Unhealthy, status: \"True\", duration: 5m}]\n" + template), "none of its unhealthy conditions",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := convert(t, test.text)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.says)))
		})
	}
}

// A line break in a value does not end a comment.
func TestYAML_LineBreaks_StayInComments(t *testing.T) {
	g := NewWithT(t)
	converted, err := convert(t, manifest("minHealthy: 1\n\"a\\nmode: Enforce\": 1\n\"b\\u2028mode: Enforce\": 1\n"+template))
	g.Expect(err).ToNot(HaveOccurred())
	content, err := converted.YAML()
	g.Expect(err).ToNot(HaveOccurred())
	check := &remedyv1.NodeHealthCheck{}
	g.Expect(yaml.UnmarshalStrict(content, check)).To(Succeed())
	g.Expect(check.Spec.Mode).To(Equal(remedyv1.ObserveMode))
}

// The output of kustomize has other objects than checks. Only a NodeHealthCheck of another group is an error.
func TestDocuments_OtherObjects_AreReturnedApart(t *testing.T) {
	g := NewWithT(t)
	const other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n"
	documents := func(text string) (checks, others []unstructured.Unstructured, err error) {
		all, err := manifests.Read(strings.NewReader(text), "all.yaml")
		g.Expect(err).ToNot(HaveOccurred())
		return medik8s.Documents(all)
	}
	checks, others, err := documents(other + "---\n" + manifest("minHealthy: 1") + "---\n" + other)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(checks).To(ConsistOf(HaveField("GetName()", "sample")))
	g.Expect(others).To(HaveLen(2))
	misspelled := strings.ReplaceAll(manifest("minHealthy: 1"), "medik8s", "medik8")
	_, _, err = documents(manifest("minHealthy: 1") + "---\n" + misspelled)
	g.Expect(err).To(MatchError(ContainSubstring("unexpected kind")))
}

// The sample of medik8s with a status, as kubectl get -o yaml prints a list.
func TestConvert_List_MatchesGolden(t *testing.T) {
	g := NewWithT(t)
	file, err := os.Open("testdata/list.yaml")
	g.Expect(err).ToNot(HaveOccurred())
	defer func() { g.Expect(file.Close()).To(Succeed()) }()
	all, err := manifests.Read(file, "list.yaml")
	g.Expect(err).ToNot(HaveOccurred())
	var text string
	for i := range all {
		converted, err := medik8s.Convert(&all[i], nil)
		g.Expect(err).ToNot(HaveOccurred())
		content, err := converted.YAML()
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(dryRun(t, content)).To(Succeed())
		text += "---\n" + string(content)
	}
	const golden = "testdata/list.golden.yaml"
	if *update {
		g.Expect(os.WriteFile(golden, []byte(text), 0o600)).To(Succeed())
		g.Expect(os.Chmod(golden, 0o644)).To(Succeed())
	}
	written, err := os.ReadFile(golden)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(text).To(Equal(string(written)), "run go test ./internal/medik8s -update")
}

// Without medik8s, there is nothing to convert. With it, plurals are those of the cluster.
func TestInCluster_Checks_AreRead(t *testing.T) {
	g := NewWithT(t)
	_, _, err := medik8s.InCluster(t.Context(), cluster.Admin)
	g.Expect(err).To(MatchError("this cluster does not serve nodehealthchecks.remediation.medik8s.io: use --filename for manifests"))
	checks := remediator.NewKind("remediation.medik8s.io", "v1alpha1", "NodeHealthCheck")
	policies := remediator.NewKind("policies.invalid", "v1alpha1", "NodePolicy")
	checks.Cluster, policies.Plural = true, "nodepolicies"
	g.Expect(cluster.InstallCRDObjects(checks.RequestCRD(), policies.RequestCRD())).To(Succeed())
	all, err := manifests.Read(strings.NewReader(manifest("minHealthy: 1\nremediationTemplate: "+
		"{apiVersion: policies.invalid/v1alpha1, kind: NodePolicyTemplate, name: a, namespace: b}")), "nhc.yaml")
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(cluster.API.Create(t.Context(), &all[0])).To(Succeed())
	found, mapper, err := medik8s.InCluster(t.Context(), cluster.Admin)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(found).To(HaveLen(1))
	converted, err := medik8s.Convert(&found[0], mapper)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(converted.Check.Annotations).To(HaveKeyWithValue(remedyv1.RequestPluralsAnnotation, "NodePolicy=nodepolicies"))
}
