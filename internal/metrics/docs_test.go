// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

const page = "../../docs/metrics.md"

// The page is generated from the table of the metrics.
func TestDocs_Generated_AreUpToDate(t *testing.T) { upToDate(t, page, metricsPage(t)) }

// upToDate compares a generated file, or writes it with -update.
func upToDate(t *testing.T, file, made string) {
	t.Helper()
	g := NewWithT(t)
	if *update {
		g.Expect(os.WriteFile(file, []byte(made), 0o600)).To(Succeed())
		g.Expect(os.Chmod(file, 0o644)).To(Succeed()) // documents are readable for all users
		return
	}
	written, err := os.ReadFile(file)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(string(written)).To(Equal(made), file+" is out of date: run 'make generate'")
}

const pageHead = `<!-- Generated from internal/metrics by 'make generate'. -->

# Metrics

The manager serves these metrics at ` + "`/metrics`" + ` of its diagnostics address, together with the metrics of controller-runtime.

Labels name the check, never a Node or a Machine, so the number of series depends only on the number of checks. All series of a check are
removed with the check. Counters start at 0 when the manager starts, and when a check is created again under its name.

- ` + "`kind`" + ` is the kind of the check: %s.
  An ` + "`InTreeMachineHealthCheck`" + ` is an adopted MachineHealthCheck of Cluster API.
- ` + "`namespace`" + ` and ` + "`name`" + ` are those of the check. Scrape with
  ` + "`honorLabels: true`" + `, or Prometheus renames the first one to ` + "`exported_namespace`" + `.

| metric | type | labels | meaning |
|---|---|---|---|
`

const pageAlerts = `
## What to alert on

The component [prometheus-rule](operating.md#install-the-monitoring) has these alerts, and another one a Grafana dashboard of
the metrics above and of [those of fencing](fencing.md#metrics-and-events). The name of an alert leads to what to do.

| alert | expression | for | meaning |
|---|---|---|---|
`

const pageValues = `
## Values of labels

Later versions may add values. The value ` + "`other`" + ` is a bug: please report it.

| label | values |
|---|---|
`

// rule is an alert of the component prometheus-rule.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Annotations map[string]string `json:"annotations"`
}

// alerts returns the alerts of the component prometheus-rule.
func alerts(t *testing.T) []rule {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile("../../config/components/prometheus-rule/rules.yaml")
	g.Expect(err).ToNot(HaveOccurred())
	var all struct {
		Spec struct {
			Groups []struct {
				Rules []rule `json:"rules"`
			} `json:"groups"`
		} `json:"spec"`
	}
	g.Expect(yaml.Unmarshal(content, &all)).To(Succeed())
	g.Expect(all.Spec.Groups).To(HaveLen(1))
	g.Expect(all.Spec.Groups[0].Rules).ToNot(BeEmpty())
	return all.Spec.Groups[0].Rules
}

func metricsPage(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, pageHead, listed(values("kind")))
	for _, f := range families() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, f.kind, listed(f.labels), strings.TrimSpace(f.help+" "+f.more))
	}
	b.WriteString(pageAlerts)
	for _, alert := range alerts(t) {
		fmt.Fprintf(&b, "| [%s](operating.md#%s) | `%s` | %s | %s |\n", alert.Alert, strings.ToLower(alert.Alert),
			strings.ReplaceAll(alert.Expr, "|", `\|`), alert.For, alert.Annotations["summary"])
	}
	b.WriteString(pageValues)
	for _, label := range []string{"state", "condition", "strategy", "outcome", "trigger"} {
		fmt.Fprintf(&b, "| `%s` | %s |\n", label, listed(values(label)))
	}
	fmt.Fprintf(
		&b,
		"| `reason` of `%s` | every `blockedReason`: the guards and other causes in [reasons](reasons.md) |\n",
		blockedTargets.name,
	)
	fmt.Fprintf(&b, "| `reason` of `%s` | every reason of a [preflight check](rules.md#preflight-checks) |\n", preflightFailures.name)
	return b.String()
}

// values returns the values of a label; nil for a name.
func values(label string) []string {
	switch label {
	case "kind":
		return texts(Kinds())
	case "state":
		return texts(explain.States())
	case "condition":
		return conditions()
	case "strategy":
		return texts(Strategies())
	case "outcome":
		return texts(Outcomes())
	case "trigger":
		return texts(Triggers())
	}
	return nil
}

func texts[T ~string](all []T) []string {
	made := make([]string, len(all))
	for i := range all {
		made[i] = string(all[i])
	}
	return made
}

func listed(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "`" + strings.Join(words, "`, `") + "`"
}

// The page has every label of a check, and the values of every other label.
func TestDocs_Labels_AreExplained(t *testing.T) {
	g := NewWithT(t)
	page := metricsPage(t)
	for _, f := range families() {
		for _, label := range f.labels {
			g.Expect(page).To(Or(ContainSubstring("| `"+label+"` |"), ContainSubstring("- `"+label+"` "),
				ContainSubstring("`"+label+"` of `"+f.name+"`"), ContainSubstring(" and `"+label+"` are")), f.name)
		}
	}
}

// passOver returns a reconcile of a number of healthy targets.
func passOver(n int) *explain.Evaluation {
	return &explain.Evaluation{
		Assessment: &health.Assessment{Verdicts: make([]health.Verdict, n)},
		Situation:  &remediation.Situation{Targets: make([]remediation.Target, n)},
		Planned:    &remediation.Planned{Decisions: make([]remediation.Decision, n)},
	}
}
