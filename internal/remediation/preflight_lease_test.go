// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// claimed: the manager watches the Nodes for this long, and their Leases are renewed.
func claimed(lasting time.Duration) func(*PreflightCheck) {
	return func(l *PreflightCheck) { l.LeaseRenewed, l.NodesReadSince = noon, ago(lasting) }
}

// Its Ready condition has been Unknown for longer than 5m; a Lease that was renewed since gives it 5m more.
var leasesRenewed = []lookRow{
	confirms("no Lease is no objection", renewed(time.Time{})),
	confirms("nor is one that was renewed before that", renewed(ago(7*time.Minute))),
	confirms("or at the same time", renewed(ago(6*time.Minute))),
	rejects("a moment later, it lives: for one further timeout at most", renewed(ago(6*time.Minute-moment)),
		Block{Reason: LeaseRenewed, Until: ago(-4 * time.Minute), Details: Details{Since: ago(6*time.Minute - moment)}}),
	rejects("nor is its owner asked", renewed(noon), Block{Reason: LeaseRenewed, Until: ago(-4 * time.Minute), Details: Details{Since: noon}},
		byOwner),
	rejects("almost that long", renewed(noon), Block{Reason: LeaseRenewed, Until: ago(-moment), Details: Details{Since: noon}},
		is(sickFor(10*time.Minute-moment))),
	confirms("to the moment", renewed(noon), is(sickFor(10*time.Minute))),
	confirms("what ends something does not mind", renewed(noon), requested(failed)),
	confirms("Ready=False by the kubelet: the Lease does not matter", renewed(noon),
		finding(func(f *health.Finding) { f.Status, f.Cause = string(corev1.ConditionFalse), "KubeletNotReady" })),
	rejects("by another client it does", renewed(noon), Block{Reason: LeaseRenewed, Until: ago(-4 * time.Minute), Details: Details{Since: noon}},
		finding(func(f *health.Finding) { f.Status = string(corev1.ConditionFalse) })),
	rejects("what was before the manager read Nodes is a claim", claimed(5*time.Minute-moment),
		Block{Reason: LeaseRenewed, Until: ago(-moment), Details: Details{Since: noon}}, is(sickFor(time.Hour))),
	confirms("for one timeout at most", claimed(5*time.Minute), is(sickFor(time.Hour))),
	confirms("nor one with another trouble", renewed(noon), finding(func(f *health.Finding) { f.Condition, f.Status = "DiskPressure", "True" })),
	rejects("what a silent kubelet would report is Unknown, too", renewed(noon),
		Block{Reason: LeaseRenewed, Until: ago(-4 * time.Minute), Details: Details{Since: noon}},
		finding(func(f *health.Finding) { f.Condition = "DiskPressure" })),
	rejects("what Cluster API copies of it, too", renewed(noon), Block{Reason: LeaseRenewed, Until: ago(-4 * time.Minute), Details: Details{Since: noon}},
		finding(func(f *health.Finding) { f.Rule, f.Condition = health.UnhealthyMachine, "NodeHealthy" })),
	confirms("nor a Machine", renewed(noon), finding(func(f *health.Finding) { f.Rule = health.UnhealthyMachine })),
	confirms("any other cause stands by itself", renewed(noon),
		func(x *scene) {
			x.verdicts[0].Findings = append(x.verdicts[0].Findings, health.Finding{Rule: health.UnhealthyMachine, Met: true})
		}),
	rejects("but not one that has not lasted long enough", renewed(noon),
		Block{Reason: LeaseRenewed, Until: ago(-4 * time.Minute), Details: Details{Since: noon}},
		func(x *scene) {
			x.verdicts[0].Findings = append(x.verdicts[0].Findings, health.Finding{Rule: health.UnhealthyMachine})
		}),
	rejects("nor does a timeout that is not over", renewed(noon), Block{Reason: LeaseRenewed, Until: ago(-4 * time.Minute), Details: Details{Since: noon}}, func(x *scene) {
		longer := x.verdicts[0].Findings[0]
		longer.Met, longer.Due, longer.Lasting = false, longer.Since.Add(time.Hour), time.Hour
		x.verdicts[0].Findings = append(x.verdicts[0].Findings, longer)
	}),
	rejects("of two timeouts the longer counts", renewed(noon), Block{Reason: LeaseRenewed, Until: ago(-55 * time.Minute), Details: Details{Since: noon}}, func(x *scene) {
		longer := x.verdicts[0].Findings[0]
		longer.Due, longer.Lasting = longer.Since.Add(time.Minute), time.Hour
		x.verdicts[0].Findings = append([]health.Finding{longer}, x.verdicts[0].Findings...)
	}),
}

// The Lease is read for no other cause. So a missing permission to read Leases does not keep those targets from
// being remediated.
func TestOnlySilent_OtherCause_IsFalse(t *testing.T) {
	silent, soon := readyUnknownFor(6*time.Minute), readyUnknownFor(time.Minute)
	notReady, pressed := silent, silent
	notReady.Status = string(corev1.ConditionFalse)
	pressed.Condition, pressed.Status = "DiskPressure", string(corev1.ConditionTrue)
	failed := health.Finding{Rule: health.MachineFailed, Met: true}
	ofMachine := silent
	ofMachine.Rule = health.UnhealthyMachine
	for why, test := range map[string]struct {
		kind     health.Kind
		findings []health.Finding
		only     bool
	}{
		"Ready=Unknown":                         {health.Unhealthy, []health.Finding{silent}, true},
		"Ready=False":                           {health.Unhealthy, []health.Finding{notReady}, false},
		"it has another trouble":                {health.Unhealthy, []health.Finding{pressed}, false},
		"its Machine has":                       {health.Unhealthy, []health.Finding{ofMachine}, false},
		"its Machine has failed, too":           {health.Unhealthy, []health.Finding{failed, silent}, false},
		"what it has besides has not lasted":    {health.Unhealthy, []health.Finding{silent, {Rule: health.UnhealthyMachine}}, true},
		"it has failed, and has just gone dark": {health.Unhealthy, []health.Finding{failed, soon}, false},
		"it has just gone dark":                 {health.Suspect, []health.Finding{soon}, false},
		"it is healthy":                         {health.Healthy, nil, false},
	} {
		t.Run(why, func(t *testing.T) {
			NewWithT(t).Expect(OnlyReadyUnknown(&health.Verdict{Kind: test.kind, Findings: test.findings})).To(Equal(test.only))
		})
	}
}
