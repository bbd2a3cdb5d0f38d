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

// The document is made of the same table as the metrics.
func TestDocs(t *testing.T) {
	g := NewWithT(t)
	made := metricsPage()
	if *update {
		g.Expect(os.WriteFile(page, []byte(made), 0o600)).To(Succeed())
		g.Expect(os.Chmod(page, 0o644)).To(Succeed()) // a document is for everybody
		return
	}
	written, err := os.ReadFile(page)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(string(written)).To(Equal(made), "docs/metrics.md is out of date: run 'make generate'")
}

const pageHead = `<!-- Made from the table in internal/metrics: change that, and run 'make generate'. -->

# Metrics

The manager serves these at ` + "`/metrics`" + ` of its diagnostics address, beside those of controller-runtime and of Cluster API's own libraries. That a workload
cluster is connected, for example, is told by ` + "`capi_cluster_cache_connection_up`" + `.

Labels name the check, never a Node or a Machine: how many series there are depends on the number of checks, not on that of their targets. When a check is deleted
all its series go; a check that comes back under the same name begins at 0. Counters begin at 0 when the manager starts.

- ` + "`kind`" + ` is the kind of the check: %s. ` + "`CoreMachineHealthCheck`" + ` is one of Cluster API that was taken over.
- ` + "`namespace`" + ` and ` + "`name`" + ` are those of the check. Scrape with ` + "`honorLabels: true`" + `, or Prometheus calls the first one ` + "`exported_namespace`" + `.

| metric | type | labels | meaning |
|---|---|---|---|
`

const pageValues = `
## Values of labels

All these sets are closed, and further values may be added in later versions. Should anything else turn up, it is counted as ` + "`other`" + `, and a mistake of ours.

| label | values |
|---|---|
`

func metricsPage() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, pageHead, listed(values("kind")))
	for _, f := range families() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, f.kind, listed(f.labels), strings.TrimSpace(f.help+" "+f.more))
	}
	b.WriteString(pageValues)
	for _, label := range []string{"state", "condition", "strategy", "outcome", "trigger"} {
		fmt.Fprintf(&b, "| `%s` | %s |\n", label, listed(values(label)))
	}
	fmt.Fprintf(&b, "| `reason` of `%s` | every hold in [reasons](reasons.md) |\n", blockedTargets.name)
	fmt.Fprintf(&b, "| `reason` of `%s` | what is asked at [the last look](rules.md#the-last-look) |\n", confirmAborts.name)
	return b.String()
}

func listed(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "`" + strings.Join(words, "`, `") + "`"
}

// TestEveryLabelIsExplained: a label is either that of a check, or has its values in the document.
func TestEveryLabelIsExplained(t *testing.T) {
	g := NewWithT(t)
	for _, f := range families() {
		for _, label := range f.labels {
			g.Expect(metricsPage()).To(Or(ContainSubstring("| `"+label+"` |"), ContainSubstring("- `"+label+"` "), ContainSubstring("`"+label+"` of `"+f.name+"`"), ContainSubstring(" and `"+label+"` are")), f.name)
		}
	}
}

// passOver is a pass over so many healthy targets.
func passOver(n int) *explain.Pass {
	return &explain.Pass{
		Assessment: &health.Assessment{Verdicts: make([]health.Verdict, n)},
		Planned:    &remediation.Planned{Decisions: make([]remediation.Decision, n)},
	}
}
