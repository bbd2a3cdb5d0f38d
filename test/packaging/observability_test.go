// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/manifests"
)

// render returns the objects of config/default with components.
func render(t *testing.T, components ...string) []*unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	open(t, "config", "hack/tools/kustomize/go.mod")
	dir := t.TempDir()
	// kustomize takes no absolute paths.
	config, err := filepath.Abs(filepath.Join(root, "config"))
	g.Expect(err).ToNot(HaveOccurred())
	config, err = filepath.Rel(dir, config)
	g.Expect(err).ToNot(HaveOccurred())
	text := "resources: [" + filepath.Join(config, "default") + "]\ncomponents:\n"
	for _, name := range components {
		text += "- " + filepath.Join(config, "components", name) + "\n"
	}
	g.Expect(os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600)).To(Succeed())
	out, err := exec.CommandContext(t.Context(), tool(t, "kustomize"), "build", dir).CombinedOutput()
	g.Expect(err).ToNot(HaveOccurred(), string(out))
	objects, err := manifests.Parse(out)
	g.Expect(err).ToNot(HaveOccurred())
	return objects
}

// added returns what components add, by kind, without what is for the fencing manager.
func added(t *testing.T, components ...string) map[string]*unstructured.Unstructured {
	t.Helper()
	plain := map[string]bool{}
	for _, object := range render(t) {
		plain[object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName()] = true
	}
	made := map[string]*unstructured.Unstructured{}
	for _, object := range render(t, components...) {
		if !plain[object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName()] && !strings.Contains(object.GetName(), "fencing") {
			made[object.GetKind()] = object
		}
	}
	return made
}

// strict converts an object to a type, and fails if the type does not have one of its fields.
func strict(t *testing.T, object *unstructured.Unstructured, into any) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(object).ToNot(BeNil())
	g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true)).To(Succeed())
}

// The ServiceMonitor selects the Service, the Service selects the Pods and their port, and nothing renames the labels of checks.
func TestServiceMonitor_Component_SelectsTheManager(t *testing.T) {
	g := NewWithT(t)
	all := added(t, "service-monitor")
	g.Expect(slices.Sorted(maps.Keys(all))).To(Equal([]string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service", "ServiceMonitor"}))
	monitor, service := &monitoringv1.ServiceMonitor{}, &corev1.Service{}
	strict(t, all["ServiceMonitor"], monitor)
	strict(t, all["Service"], service)
	template := deployment(g, components(t, infrastructure, repository.ComponentsOptions{}).Objs()).Spec.Template

	g.Expect(monitor.Namespace).To(Equal(service.Namespace), "without a namespaceSelector, a ServiceMonitor selects in its namespace")
	g.Expect(monitor.Spec.NamespaceSelector).To(BeZero())
	// Prometheus discovers the Pods in that namespace, where kube-prometheus does not allow it by itself.
	discovery, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	strict(t, all["Role"], discovery)
	strict(t, all["RoleBinding"], binding)
	g.Expect([]string{discovery.Namespace, binding.Namespace}).To(HaveEach(service.Namespace))
	g.Expect(discovery.Rules).To(ContainElement(HaveField("Resources", ContainElements("services", "endpoints", "pods"))))
	g.Expect(discovery.Rules).To(ContainElement(HaveField("Resources", ContainElement("endpointslices"))))
	g.Expect(binding.RoleRef.Name).To(Equal(discovery.Name))
	for label, value := range monitor.Spec.Selector.MatchLabels {
		g.Expect(service.Labels).To(HaveKeyWithValue(label, value))
	}
	g.Expect(service.Spec.Selector).ToNot(BeEmpty())
	for label, value := range service.Spec.Selector {
		g.Expect(template.Labels).To(HaveKeyWithValue(label, value))
	}
	g.Expect(monitor.Spec.Endpoints).To(HaveLen(1))
	endpoint := monitor.Spec.Endpoints[0]
	g.Expect(endpoint.HonorLabels).To(BeTrue())
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == endpoint.Port })
	g.Expect(i).To(BeNumerically(">=", 0))
	port := service.Spec.Ports[i]
	g.Expect(template.Spec.Containers[0].Ports).To(ContainElement(
		And(HaveField("Name", port.TargetPort.StrVal), HaveField("ContainerPort", port.Port))))
	rules := &monitoringv1.PrometheusRule{}
	strict(t, added(t, "prometheus-rule")["PrometheusRule"], rules)
	g.Expect(rules).To(HaveField("Spec.Groups", Not(BeEmpty())))
}

// The ServiceMonitor also selects the Service of the fencing manager, which selects its Pods and their port.
func TestServiceMonitor_Component_SelectsTheFencingManager(t *testing.T) {
	g := NewWithT(t)
	all := render(t, "service-monitor")
	i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool {
		return o.GetName() == "remedy-fencing-controller-manager-metrics"
	})
	g.Expect(i).To(BeNumerically(">=", 0))
	monitor, service := &monitoringv1.ServiceMonitor{}, &corev1.Service{}
	strict(t, added(t, "service-monitor")["ServiceMonitor"], monitor)
	strict(t, all[i], service)
	template := deployment(g, fencingComponents(t)).Spec.Template
	for label, value := range monitor.Spec.Selector.MatchLabels {
		g.Expect(service.Labels).To(HaveKeyWithValue(label, value))
	}
	g.Expect(service.Spec.Selector).ToNot(BeEmpty())
	for label, value := range service.Spec.Selector {
		g.Expect(template.Labels).To(HaveKeyWithValue(label, value))
	}
	g.Expect(service.Spec.Ports).To(ConsistOf(HaveField("Name", monitor.Spec.Endpoints[0].Port)))
	g.Expect(template.Spec.Containers[0].Ports).To(ContainElement(And(
		HaveField("Name", service.Spec.Ports[0].TargetPort.StrVal), HaveField("ContainerPort", service.Spec.Ports[0].Port))))
}

// labels returns the labels of a series.
func labels(m *dto.Metric, more ...string) string {
	made := make([]string, 0, len(m.Label)+len(more))
	for _, label := range m.Label {
		made = append(made, fmt.Sprintf("%s=%q", label.GetName(), label.GetValue()))
	}
	return "{" + strings.Join(append(made, more...), ",") + "}"
}

// asInput makes input of a scrape for promtool: gauges stay as change returns them, and counters grow by one each minute.
func asInput(families map[string]*dto.MetricFamily, change func(family string, value float64) float64) []inputSeries {
	const minutes = 26 * 60
	grows := fmt.Sprintf("0+1x%d", minutes)
	var made []inputSeries
	for name, family := range families {
		for _, m := range family.Metric {
			switch {
			case m.Gauge != nil:
				made = append(made, inputSeries{name + labels(m), fmt.Sprintf("%gx%d", change(name, m.Gauge.GetValue()), minutes)})
			case m.Counter != nil:
				made = append(made, inputSeries{name + labels(m), grows})
			}
			for _, bucket := range m.GetHistogram().GetBucket() {
				values := fmt.Sprintf("0x%d", minutes)
				if bucket.GetUpperBound() > 30 {
					values = grows
				}
				made = append(made, inputSeries{name + "_bucket" + labels(m, fmt.Sprintf("le=%q", model.SampleValue(bucket.GetUpperBound()))), values})
			}
		}
	}
	return made
}

// worst replaces the values of gauges by those that alerts are about.
func worst(family string, value float64) float64 {
	switch family {
	case "remedy_check_condition", "remedy_remediation_allowed", "remedy_oldest_request_start_time_seconds":
		return 0
	case "remedy_storm_active":
		return 1
	}
	return value
}

// isOfFences reports whether a query is about the fencing manager, whose metrics a test of exp/fencing/checks compares.
func isOfFences(query string) bool { return strings.Contains(query, "remedy_fence") }

// panels returns the queries of the dashboard for the manager of checks, with the values that Grafana puts in.
func panels(t *testing.T) map[string]string {
	t.Helper()
	g := NewWithT(t)
	config := &corev1.ConfigMap{}
	strict(t, added(t, "grafana-dashboard")["ConfigMap"], config)
	g.Expect(config.Labels).To(HaveKeyWithValue("grafana_dashboard", "1"), "the sidecar loads it by this label")
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, AllValue string }
		}
	}
	g.Expect(json.Unmarshal([]byte(config.Data["remedy.json"]), &dashboard)).To(Succeed())
	grafana := make([]string, 0, 2+2*len(dashboard.Templating.List))
	grafana = append(grafana, "$__rate_interval", "5m")
	for _, variable := range dashboard.Templating.List {
		grafana = append(grafana, "$"+variable.Name, variable.AllValue)
	}
	made := map[string]string{}
	for _, panel := range dashboard.Panels {
		g.Expect(panel.Targets).To(HaveLen(1))
		if isOfFences(panel.Title) {
			continue
		}
		made[panel.Title] = strings.NewReplacer(grafana...).Replace(panel.Targets[0].Expr)
	}
	return made
}

// What the real manager serves to the ServiceAccount of Prometheus makes every alert fire and fills every panel of the dashboard: names of metrics
// and labels, and values of labels, are the same.
func TestMonitoring_RunningManager_HasTheSeries(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyPollingInterval(500 * time.Millisecond)
	m := startMonitored(t)
	var families map[string]*dto.MetricFamily
	served := func() []string {
		var err error
		families, err = m.scrape(t)
		if err != nil {
			return []string{err.Error()}
		}
		var all []string
		for name, family := range families {
			for _, metric := range family.Metric {
				if value := metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount()); value > 0 {
					all = append(all, name+labels(metric))
				}
			}
		}
		return all
	}
	g.Eventually(served).Should(And(
		ContainElement(`remedy_remediations_total{kind="NodeHealthCheck",name="fenced",namespace="",outcome="started",strategy="template"}`),
		ContainElement(`remedy_targets{kind="NodeHealthCheck",name="paused",namespace="",state="unhealthy"}`)))
	g.Eventually(m.log.String).Should(ContainSubstring(`"target":"recovered","verdict":"Unhealthy"`))
	m.setReady(g, corev1.ConditionTrue)
	g.Eventually(served).Should(ContainElement(`remedy_unhealthy_duration_seconds{kind="NodeHealthCheck"}`))

	rules := prometheusRule(t)
	firing := func(by string, samples ...string) queryTest {
		q := queryTest{Expr: "group by (" + by + `) (ALERTS{alertstate="firing"})`, At: "25h"}
		for _, labels := range samples {
			q.Samples = append(q.Samples, sample{"{" + labels + "}", 1})
		}
		return q
	}
	allAlerts := firing("alertname")
	for _, rule := range rules.Spec.Groups[0].Rules {
		if rule.Alert != "RemedyAbsent" && !isOfFences(rule.Expr.String()) {
			allAlerts.Samples = append(allAlerts.Samples, sample{fmt.Sprintf("{alertname=%q}", rule.Alert), 1})
		}
	}
	asServed := func(_ string, value float64) float64 { return value }
	filled := ruleTest{Name: "every panel has data", Interval: "1m", InputSeries: asInput(families, asServed)}
	for _, query := range panels(t) {
		filled.Queries = append(filled.Queries, queryTest{Expr: "group(" + query + ")", At: "1h", Samples: []sample{{"{}", 1}}})
	}
	g.Expect(filled.Queries).To(HaveLen(len(families)), "a panel for each metric")
	state := firing("alertname, kind, namespace, name, reason",
		`alertname="RemedyCheckNotReady",kind="MachineHealthCheck",namespace="default",name="machines"`,
		`alertname="RemedyClusterUnreachable",kind="MachineHealthCheck",namespace="default",name="machines"`,
		`alertname="RemedyRemediationNotAllowed",kind="MachineHealthCheck",namespace="default",name="machines"`,
		`alertname="RemedyRemediationNotAllowed",kind="NodeHealthCheck",name="paused"`,
		`alertname="RemedyTargetsBlocked",kind="NodeHealthCheck",name="paused",reason="PauseRequested"`)
	state.Expr = strings.Replace(state.Expr, "ALERTS{", `ALERTS{alertname!~"RemedyEvaluationsFail|RemedyRemediationFailed|RemedyDecisionsSlow",`, 1)
	out, err := promtool(t, rules, []ruleTest{
		{Name: "all alerts", Interval: "1m", InputSeries: asInput(families, worst), Queries: []queryTest{allAlerts}},
		{Name: "this state", Interval: "1m", InputSeries: asInput(families, asServed), Queries: []queryTest{state}},
		filled,
	}, "test", "rules", "tests.yaml")
	g.Expect(err).ToNot(HaveOccurred(), out)
	m.expectTrace(t)
}

// expectTrace expects the trace of the blocked Node in the log, from which an operator can see why nothing was done.
func (m *monitored) expectTrace(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	var traces []explain.Trace
	for line := range strings.Lines(m.log.String()) {
		var entry struct {
			Msg, Target string
			Trace       *explain.Trace
		}
		g.Expect(json.Unmarshal([]byte(line), &entry)).To(Succeed(), line)
		if entry.Msg == "Decided" && entry.Target == "blocked" {
			g.Expect(entry.Trace).ToNot(BeNil(), line)
			traces = append(traces, *entry.Trace)
		}
	}
	g.Expect(traces).To(ContainElement(And(
		HaveField("Target", "blocked"), HaveField("Verdict.Kind", explain.KindUnhealthy), HaveField("Gates", Not(BeEmpty())),
		HaveField("Guards", ContainElement(And(HaveField("Name", "PauseRequested"), HaveField("Answer", explain.Blocks)))))))
}
