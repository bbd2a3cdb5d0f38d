// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/diagnose"
)

var update = flag.Bool("update", false, "write the files in testdata")

var noon = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

func expectGolden(t *testing.T, name, text string) {
	t.Helper()
	g := NewWithT(t)
	file := filepath.Join("testdata", name)
	if *update {
		g.Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
	}
	golden, err := os.ReadFile(file)
	g.Expect(err).ToNot(HaveOccurred(), "create the file with: go test ./cmd/kubectl-remedy -update")
	g.Expect(text).To(Equal(string(golden)))
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "kubectl-remedy.md"))
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(string(page)).To(ContainSubstring(text), "the page shows this output")
}

func statuses() []diagnose.CheckStatus {
	count := func(n int32) *int32 { return ptr.To(n) }
	return []diagnose.CheckStatus{
		{
			Kind: "machinehealthchecks.cluster.x-k8s.io (adopted)", Namespace: "team-a", Name: "legacy", Cluster: "prod",
			Targets: count(5), Healthy: count(5), Allowed: "True", Ready: "False", Reason: "TemplateNotFound",
			Message: "TemplatesResolved is False (TemplateNotFound)", Created: noon.Add(-49 * time.Hour),
		},
		{
			Kind: "MachineHealthCheck", Namespace: "team-a", Name: "workers", Cluster: "prod",
			Targets: count(25), Healthy: count(14), Unhealthy: count(11), Remediating: count(0), Blocked: count(11),
			Mode: remedyv1.EnforceMode, Allowed: "False", Ready: "False", Reason: "TooManyUnhealthy",
			Message: "RemediationAllowed is False (TooManyUnhealthy)", Created: noon.Add(-30 * time.Minute),
		},
		{
			Kind: "NodeHealthCheck", Name: "nodes", Cluster: "team-a/prod",
			Targets: count(3), Healthy: count(3), Unhealthy: count(0), Remediating: count(0), Blocked: count(0),
			Mode: remedyv1.ObserveMode, Allowed: "False", Ready: "True", Reason: "Ready", Created: noon.Add(-time.Minute),
		},
	}
}

func TestStatusTable_Checks_MatchesGolden(t *testing.T) {
	expectGolden(t, "status.golden.txt", statusTable(statuses(), "team-a", noon))
	g := NewWithT(t)
	g.Expect(statusTable(nil, "", noon)).To(Equal("No checks found\n"))
	g.Expect(statusTable(nil, "team-a", noon)).To(Equal("No checks found in namespace team-a\n"))
}

func TestHistoryTable_Entries_MatchesGolden(t *testing.T) {
	at := func(since time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(since)} }
	const check = "MachineHealthCheck team-a/workers"
	expectGolden(t, "history.golden.txt", historyTable([]diagnose.Entry{
		{Message: "2 remediation attempts have failed since the Machine was healthy"},
		{Time: at(0), Check: check, Message: "Remediation of step 1 started"},
		{Time: at(5 * time.Minute), Check: check, Message: "Remediation of step 1 ended: TimedOut"},
		{Time: at(5 * time.Minute), Check: check, Message: "Remediation of step 2 started"},
	}))
	NewWithT(t).Expect(historyTable(nil)).To(Equal("No remediations are recorded\n"))
}

// Each value of a line has a column.
func TestStatusLine_Check_HasAllColumns(t *testing.T) {
	g := NewWithT(t)
	g.Expect(columnWidths).To(HaveLen(len(diagnose.StatusColumns)))
	var out bytes.Buffer
	g.Expect(printRow(&out, statuses()[1].Row(noon))).To(Succeed())
	g.Expect(out.String()).To(MatchRegexp(
		`^team-a +MachineHealthCheck +workers +prod +25 +14 +11 +0 +11 +Enforce +False +False +TooManyUnhealthy +30m\n$`,
	))
	command := &cobra.Command{}
	command.SetErr(&out)
	printUnread(command, []string{"why"})
	g.Expect(out.String()).To(HaveSuffix("Warning: why\n"))
}
