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

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

const page = "../../docs/metrics.md"

// The page is generated from the table of the metrics.
func TestDocs_Generated_AreUpToDate(t *testing.T) {
	g := NewWithT(t)
	made := metricsPage()
	if *update {
		g.Expect(os.WriteFile(page, []byte(made), 0o600)).To(Succeed())
		g.Expect(os.Chmod(page, 0o644)).To(Succeed()) // documents are readable for all users
		return
	}
	written, err := os.ReadFile(page)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(string(written)).To(Equal(made), "docs/metrics.md is out of date: run 'make generate'")
}

const pageHead = `<!-- Generated from internal/metrics by 'make generate'. -->

# Metrics

The manager serves these metrics at ` + "`/metrics`" + ` of its diagnostics address, together with the metrics of controller-runtime and of
Cluster API's libraries, such as ` + "`capi_cluster_cache_connection_up`" + ` for connections to workload clusters.

Labels name the check, never a Node or a Machine, so the number of series depends only on the number of checks. All series of a check are
removed with the check. Counters start at 0 when the manager starts, and when a check is created again under its name.

- ` + "`kind`" + ` is the kind of the check: %s.
  A ` + "`InTreeMachineHealthCheck`" + ` is an adopted MachineHealthCheck of Cluster API.
- ` + "`namespace`" + ` and ` + "`name`" + ` are those of the check. Scrape with
  ` + "`honorLabels: true`" + `, or Prometheus renames the first one to ` + "`exported_namespace`" + `.

| metric | type | labels | meaning |
|---|---|---|---|
`

const pageValues = `
## Values of labels

Later versions may add values. The value ` + "`other`" + ` is a bug: please report it.

| label | values |
|---|---|
`

// alerts are expressions of Prometheus, for how long they hold, and what they mean.
var alerts = [][3]string{
	{`remedy_check_condition{condition="Ready"} == 0`, "30m", "usually a person has to act: `kubectl remedy status -A` has the reason"},
	{
		`remedy_check_condition{condition="ClusterReachable"} == 0`, "10m",
		"a workload cluster cannot be read, or its control plane is not initialized",
	},
	{`remedy_remediation_allowed == 0`, "1d", "no remediation can start: the limit, or a forgotten pause, `pauseRequests` or Observe mode"},
	{
		`remedy_blocked_targets{reason!~"ObserveMode|ManagedByOtherCheck"} > 0`, "1h",
		"the remediation of targets does not start or does not end; the label has the reason",
	},
	{`increase(remedy_remediations_total{outcome=~"failed|timed_out"}[1h]) > 0`, "0m", "remediations do not help"},
	{`rate(remedy_failed_evaluations_total[10m]) > 0`, "30m", "reads or writes fail all the time; the log has the error"},
	{`absent(remedy_check_condition)`, "10m", "no manager runs or is scraped, or there is no check"},
}

func metricsPage() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, pageHead, listed(values("kind")))
	for _, f := range families() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, f.kind, listed(f.labels), strings.TrimSpace(f.help+" "+f.more))
	}
	b.WriteString("\n## What to alert on\n\n| expression | for | meaning |\n|---|---|---|\n")
	for _, alert := range alerts {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.ReplaceAll(alert[0], "|", `\|`), alert[1], alert[2])
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
	fmt.Fprintf(&b, "| `reason` of `%s` | every reason of a [preflight check](rules.md#preflight-checks) |\n", confirmAborts.name)
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
	for _, f := range families() {
		for _, label := range f.labels {
			g.Expect(metricsPage()).To(Or(ContainSubstring("| `"+label+"` |"), ContainSubstring("- `"+label+"` "),
				ContainSubstring("`"+label+"` of `"+f.name+"`"), ContainSubstring(" and `"+label+"` are")), f.name)
		}
	}
}

// passOver returns a reconcile of a number of healthy targets.
func passOver(n int) *explain.Evaluation {
	return &explain.Evaluation{
		Assessment: &health.Assessment{Verdicts: make([]health.Verdict, n)},
		Planned:    &remediation.Planned{Decisions: make([]remediation.Decision, n)},
	}
}
