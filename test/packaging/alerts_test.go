// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// ruleTests is a file of promtool test rules.
type ruleTests struct {
	RuleFiles          []string   `json:"rule_files"`
	EvaluationInterval string     `json:"evaluation_interval"`
	Tests              []ruleTest `json:"tests"`
}

type ruleTest struct {
	Name        string          `json:"name"`
	Interval    string          `json:"interval"`
	InputSeries []inputSeries   `json:"input_series,omitempty"`
	Queries     []queryTest     `json:"promql_expr_test,omitempty"`
	Alerts      []renderedAlert `json:"alert_rule_test,omitempty"`
}

type inputSeries struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

type queryTest struct {
	Expr    string   `json:"expr"`
	At      string   `json:"eval_time"`
	Samples []sample `json:"exp_samples"`
}

type sample struct {
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
}

type renderedAlert struct {
	At       string `json:"eval_time"`
	Alert    string `json:"alertname"`
	Expected []struct {
		Labels      map[string]string `json:"exp_labels"`
		Annotations map[string]string `json:"exp_annotations"`
	} `json:"exp_alerts"`
}

// prometheusRule returns the alerts, in the types of the Prometheus operator: a field that it does not read is an error.
func prometheusRule(t *testing.T) *monitoringv1.PrometheusRule {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(root, "config", "components", "prometheus-rule", "rules.yaml"))
	g.Expect(err).ToNot(HaveOccurred())
	made := &monitoringv1.PrometheusRule{}
	g.Expect(yaml.UnmarshalStrict(content, made)).To(Succeed())
	g.Expect(made.Spec.Groups).To(HaveLen(1))
	return made
}

// tools builds the tools of the tests once.
var tools = sync.OnceValue(func() error {
	out, err := exec.Command("make", "--no-print-directory", "-s", "-C", root, "bin/kustomize", "bin/promtool").CombinedOutput()
	if err != nil {
		return fmt.Errorf("failed to build tools: %w: %s", err, out)
	}
	return nil
})

// tool returns the path of a tool.
func tool(t *testing.T, name string) string {
	t.Helper()
	NewWithT(t).Expect(tools()).To(Succeed())
	path, err := filepath.Abs(filepath.Join(root, "bin", name))
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return path
}

// promtool runs it in a folder with the rules and the tests of them.
func promtool(t *testing.T, rules *monitoringv1.PrometheusRule, tests []ruleTest, args ...string) (string, error) {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	for name, content := range map[string]any{
		"rules.yaml": rules.Spec, "tests.yaml": ruleTests{RuleFiles: []string{"rules.yaml"}, EvaluationInterval: "1m", Tests: tests},
	} {
		text, err := yaml.Marshal(content)
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(os.WriteFile(filepath.Join(dir, name), text, 0o600)).To(Succeed())
	}
	cmd := exec.CommandContext(t.Context(), tool(t, "promtool"), args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// alertCase has series for which an alert fires after some time, and not before, and series for which it never fires.
type alertCase struct {
	fires, quiet []inputSeries
	before, at   string
}

const (
	ofWorkers = `{kind="MachineHealthCheck",namespace="team-a",name="workers",pod="a"`
	ofNodes   = `{kind="NodeHealthCheck",name="nodes",pod="a"`
)

func series(name, labels, values string) []inputSeries {
	return []inputSeries{{Series: name + labels + "}", Values: values}}
}

// latency are the buckets of the time of decisions: one decision a minute, and all of them take this long.
func latency(trigger, takes string) []inputSeries {
	limits := []string{"1", "10", "30", "60", "+Inf"}
	made := make([]inputSeries, 0, len(limits))
	for _, le := range limits {
		values := "0x120"
		if le == takes || len(made) > 0 && made[len(made)-1].Values == "0+1x120" {
			values = "0+1x120"
		}
		made = append(made, inputSeries{
			Series: fmt.Sprintf(`remedy_decision_latency_seconds_bucket{kind="NodeHealthCheck",trigger="%s",le="%s"}`, trigger, le), Values: values,
		})
	}
	return made
}

func alertCases() map[string]alertCase {
	fence := func(name, labels, values string) []inputSeries {
		return series(name, strings.TrimSuffix(`{pod="f",`+labels, ","), values)
	}
	condition := func(name, values string) []inputSeries {
		return series("remedy_check_condition", ofWorkers+`,condition="`+name+`"`, values)
	}
	return map[string]alertCase{
		"RemedyCheckNotReady": {
			// The Pod of the leader changes.
			fires: append(condition("Ready", "0x20 _x40"), series("remedy_check_condition",
				strings.Replace(ofWorkers, `"a"`, `"b"`, 1)+`,condition="Ready"`, "_x20 0x40")...),
			// Without a value the condition is Unknown.
			quiet:  append(condition("Ready", "0x29 1 0x25 _x20"), condition("Paused", "0x120")...),
			before: "29m", at: "31m",
		},
		"RemedyClusterUnreachable": {
			fires: condition("ClusterReachable", "0x60"), quiet: condition("ClusterReachable", "1x60"), before: "9m", at: "11m",
		},
		"RemedyRemediationNotAllowed": {
			fires: series("remedy_remediation_allowed", ofWorkers, "0x1600"), quiet: series("remedy_remediation_allowed", ofWorkers, "0x1400 1x200"),
			before: "23h", at: "25h",
		},
		"RemedyStormActive": {
			fires: series("remedy_storm_active", ofNodes, "1x60"), quiet: series("remedy_storm_active", ofNodes, "0x60"), before: "14m", at: "16m",
		},
		"RemedyTargetsBlocked": {
			fires:  series("remedy_blocked_targets", ofWorkers+`,reason="PreflightFailed"`, "2x90"),
			quiet:  append(series("remedy_blocked_targets", ofWorkers+`,reason="ObserveMode"`, "2x90"), series("remedy_blocked_targets", ofNodes+`,reason="ManagedByOtherCheck"`, "2x90")...),
			before: "59m", at: "61m",
		},
		"RemedyRequestOld": {
			// The first request was started at 0, and the other one is started again all the time.
			fires:  series("remedy_oldest_request_start_time_seconds", ofNodes, "0x140"),
			quiet:  series("remedy_oldest_request_start_time_seconds", ofNodes, "0+60x140"),
			before: "2h4m", at: "2h7m",
		},
		"RemedyRemediationFailed": {
			fires:  series("remedy_remediations_total", ofWorkers+`,strategy="owner",outcome="timed_out"`, "0x20 1x100"),
			quiet:  append(series("remedy_remediations_total", ofWorkers+`,strategy="owner",outcome="replaced"`, "0+1x120"), series("remedy_remediations_total", ofWorkers+`,strategy="owner",outcome="failed"`, "3x120")...),
			before: "20m", at: "22m",
		},
		"RemedyEvaluationsFail": {
			fires: series("remedy_failed_evaluations_total", `{kind="NodeHealthCheck",pod="a"`, "0+1x60"),
			quiet: series("remedy_failed_evaluations_total", `{kind="NodeHealthCheck",pod="a"`, "0x10 5x60"), before: "29m", at: "35m",
		},
		"RemedyDecisionsSlow": {
			fires: latency("timer", "30"), quiet: append(latency("timer", "10"), latency("resync", "60")...), before: "29m", at: "35m",
		},
		"RemedyFenceFailed": {
			// The fence is withdrawn later.
			fires: fence("remedy_fences_failed", "", "0x80 1x5 0x60"),
			quiet: append(fence("remedy_fences_failed", "", "0x120"), append(
				fence("remedy_fences_total", `template="a",result="Succeeded",evidence="PowerOff"`, "0+1x120"),
				fence("remedy_fences_total", `template="a",result="Failed",evidence=""`, "3x120")...)...),
			before: "80m", at: "82m",
		},
		"RemedyNodeKeptOff": {
			// The first Node was switched off at 0, and the others are on again before one hour.
			fires:  fence("remedy_fence_oldest_off_start_time_seconds", "", "0x80"),
			quiet:  append(fence("remedy_fence_oldest_off_start_time_seconds", "", "0x40 _x5 3000x25"), fence("remedy_fences_left_off_total", "", "1x80")...),
			before: "59m", at: "61m",
		},
		"RemedyFenceDeviceUnreachable": {
			fires: append(fence("remedy_fence_device_reachable", `namespace="a",profile="b",method="ipmi"`, "1x20 0x60"),
				fence("remedy_fence_device_reachable", `namespace="a",profile="b",method="pdu"`, "1x80")...),
			quiet:  fence("remedy_fence_device_reachable", `namespace="a",profile="b",method="ipmi"`, "1x10 0x5 1x60"),
			before: "20m", at: "22m",
		},
		"RemedyFencesRepeat": {
			fires:  fence("remedy_fence_repeats_total", `template="a"`, "0x1500 1x60"),
			quiet:  fence("remedy_fence_repeats_total", `template="a"`, "4x1600"),
			before: "25h", at: "25h2m",
		},
		"RemedyAbsent": {
			fires: series("up", `{job="other"`, "1x60"), quiet: condition("Ready", "0x60"), before: "9m", at: "11m",
		},
	}
}

// firing asks promtool whether an alert fires at a time.
func firing(alert, at string, fires bool) queryTest {
	q := queryTest{Expr: fmt.Sprintf(`group(ALERTS{alertname=%q,alertstate="firing"})`, alert), At: at, Samples: []sample{}}
	if fires {
		q.Samples = append(q.Samples, sample{Labels: "{}", Value: 1})
	}
	return q
}

func (c *alertCase) tests(alert string) []ruleTest {
	return []ruleTest{
		{Name: alert + " fires", Interval: "1m", InputSeries: c.fires, Queries: []queryTest{firing(alert, c.before, false), firing(alert, c.at, true)}},
		{Name: alert + " is quiet", Interval: "1m", InputSeries: c.quiet, Queries: []queryTest{firing(alert, c.at, false)}},
	}
}

// Each alert fires when its duration has passed, and not before. A rule that always fires, never fires or does not wait is found.
func TestAlerts_Promtool_FireWhenTheyShould(t *testing.T) {
	g := NewWithT(t)
	rules, cases := prometheusRule(t), alertCases()
	out, err := promtool(t, rules, nil, "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml")
	g.Expect(err).ToNot(HaveOccurred(), out)
	tests := make([]ruleTest, 0, 2*len(cases))
	for alert, c := range cases {
		tests = append(tests, c.tests(alert)...)
	}
	out, err = promtool(t, rules, tests, "test", "rules", "tests.yaml")
	g.Expect(err).ToNot(HaveOccurred(), out)

	names := make([]string, 0, len(cases))
	for i := range rules.Spec.Groups[0].Rules {
		rule := rules.Spec.Groups[0].Rules[i]
		names = append(names, rule.Alert)
		c := cases[rule.Alert]
		mutants := map[string]func(*monitoringv1.Rule){
			"fires always": func(r *monitoringv1.Rule) { r.Expr = intstr.FromString("vector(1)") },
			"fires never":  func(r *monitoringv1.Rule) { r.Expr = intstr.FromString("vector(1) < 0") },
		}
		if *rule.For != "0m" {
			mutants["does not wait"] = func(r *monitoringv1.Rule) { r.For = nil }
		}
		for name, mutate := range mutants {
			broken := rules.DeepCopy()
			mutate(&broken.Spec.Groups[0].Rules[i])
			out, err := promtool(t, broken, c.tests(rule.Alert), "test", "rules", "tests.yaml")
			g.Expect(err).To(HaveOccurred(), "%s %s, and its tests pass: %s", rule.Alert, name, out)
		}
	}
	g.Expect(names).To(ConsistOf(slices.Collect(maps.Keys(cases))))
}

// The first failure of a template has a new series, which increase() does not count. It is seen nevertheless, and not for ever. A failure
// that is withdrawn between two scrapes is one.
func TestAlerts_FirstOfItsSeries_Fires(t *testing.T) {
	g := NewWithT(t)
	tests := make([]ruleTest, 0, 4)
	for _, c := range []struct{ alert, series, values, at, after string }{
		{"RemedyFenceFailed", `remedy_fences_total{template="a",result="Failed",evidence="",pod="f"}`, "_x100 1x200", "101m", "165m"},
		{"RemedyFenceFailed", `remedy_fences_total{template="a",result="Failed",evidence="",pod="f"}`, "3x100 4x200", "102m", "165m"},
		{"RemedyFencesRepeat", `remedy_fence_repeats_total{template="a",pod="f"}`, "_x100 1x3000", "101m", "26h"},
		{"RemedyNodeKeptOff", `remedy_fences_left_off_total{pod="f"}`, "0x100 1x200", "102m", "165m"},
	} {
		tests = append(tests, ruleTest{
			Name: c.alert + " " + c.values, Interval: "1m", InputSeries: []inputSeries{{Series: c.series, Values: c.values}},
			Queries: []queryTest{firing(c.alert, c.at, true), firing(c.alert, c.after, false)},
		})
	}
	out, err := promtool(t, prometheusRule(t), tests, "test", "rules", "tests.yaml")
	g.Expect(err).ToNot(HaveOccurred(), out)
}

// An alert names the check as kubectl does, also one without a namespace.
func TestAlerts_Descriptions_NameTheCheck(t *testing.T) {
	g := NewWithT(t)
	rules := prometheusRule(t)
	render := func(alert, labels, values, name string, more map[string]string) ruleTest {
		i := slices.IndexFunc(rules.Spec.Groups[0].Rules, func(r monitoringv1.Rule) bool { return r.Alert == alert })
		g.Expect(i).To(BeNumerically(">=", 0))
		rule := rules.Spec.Groups[0].Rules[i]
		annotations := maps.Clone(rule.Annotations)
		about := regexp.MustCompile(`^.*\.name }}`)
		annotations["description"] = about.ReplaceAllString(annotations["description"], name)
		made := ruleTest{Name: alert, Interval: "1m", InputSeries: series("remedy_storm_active", labels, values)}
		expected := renderedAlert{At: "30m", Alert: alert}
		expected.Expected = append(expected.Expected, struct {
			Labels      map[string]string `json:"exp_labels"`
			Annotations map[string]string `json:"exp_annotations"`
		}{Labels: more, Annotations: annotations})
		expected.Expected[0].Labels["severity"] = rule.Labels["severity"]
		made.Alerts = []renderedAlert{expected}
		return made
	}
	out, err := promtool(t, rules, []ruleTest{
		render("RemedyStormActive", ofWorkers, "1x60", "MachineHealthCheck team-a/workers",
			map[string]string{"kind": "MachineHealthCheck", "namespace": "team-a", "name": "workers"}),
		render("RemedyStormActive", ofNodes, "1x60", "NodeHealthCheck nodes", map[string]string{"kind": "NodeHealthCheck", "name": "nodes"}),
	}, "test", "rules", "tests.yaml")
	g.Expect(err).ToNot(HaveOccurred(), out)
}

// Each alert leads to a section of the page for operators, which has what to do.
func TestAlerts_RunbookURLs_LeadToSections(t *testing.T) {
	g := NewWithT(t)
	page, err := os.ReadFile(filepath.Join(root, "docs", "operating.md"))
	g.Expect(err).ToNot(HaveOccurred())
	sections := regexp.MustCompile(`(?m)^### (Remedy\w+)\n\n\S`).FindAllStringSubmatch(string(page), -1)
	documented := make([]string, 0, len(sections))
	for _, section := range sections {
		documented = append(documented, section[1])
	}
	rules := prometheusRule(t).Spec.Groups[0].Rules
	alerts := make([]string, 0, len(rules))
	for i := range rules {
		rule := &rules[i]
		alerts = append(alerts, rule.Alert)
		g.Expect(rule.Annotations).To(HaveKeyWithValue("runbook_url",
			"https://github.com/cluster-api-remedy/cluster-api-provider-remedy/blob/main/docs/operating.md#"+strings.ToLower(rule.Alert)))
	}
	g.Expect(documented).To(Equal(alerts))
}
