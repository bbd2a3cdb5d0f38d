// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// The preflight check returns facts; the pass judges them.
func TestRun_FactsChangedSincePlan_StartsNothing(t *testing.T) {
	for why, test := range map[string]struct {
		change func(read *Preflight)
		held   string
	}{
		"the target is healthy again": {
			func(read *Preflight) { read.Facts.Snapshot.Targets[0].Machine = &health.MachineFacts{} }, "its health has changed",
		},
		"another process created a request": {
			func(read *Preflight) { read.Facts.Situation.Targets[0].Request = &remediation.Request{} },
			"the target has a remediation request already",
		},
		"the check has changed": {func(read *Preflight) { read.Checks[0].Changed = true }, "the check or its Cluster has changed"},
	} {
		t.Run(why, func(t *testing.T) {
			g := NewWithT(t)
			r := unhealthy(2)
			r.looks[0] = func(read *Preflight, _ int) { test.change(read) }
			r.succeeds(g)
			g.Expect(r.calls).ToNot(ContainElement(made(0)))
			g.Expect(r.calls).To(ContainElement(made(1)), "the other one is not concerned")
			g.Expect(r.pass.Planned.Decisions[0].Block.Details.Cause).To(Equal(test.held))
		})
	}
}

// silent is one target. Ready=Unknown is its only cause.
func silent() *record {
	r := unhealthy(1)
	since := metav1.NewTime(noon.Add(-time.Hour))
	r.facts.Health.NodeConditions = []health.ConditionCheck{{Type: "Ready", Status: "Unknown", Lasting: 10 * time.Minute}}
	r.facts.Snapshot.Targets[0] = health.Target{Name: "m-0", Machine: &health.MachineFacts{}, Node: health.NodeFacts{
		State: health.Present, Name: "n-0", CreatedAt: since.Time,
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: since}},
	}}
	r.facts.Situation.Targets[0].Node = "n-0"
	return r
}

// The Lease is read just before an action, and only if Ready=Unknown is the only cause.
func TestRun_KubeletSilent_ReadsItsLease(t *testing.T) {
	for _, test := range []struct {
		why   string
		setup func(*record)
		held  remediation.Reason
	}{
		{why: "not renewed since", setup: func(r *record) { r.renewed = noon.Add(-2 * time.Hour) }},
		{why: "there is none", setup: func(*record) {}},
		{why: "renewed", setup: func(r *record) { r.renewed = noon }, held: remediation.LeaseRenewed},
		{why: "not readable", setup: func(r *record) { r.fails["lease n-0"] = errors.New("forbidden") }, held: remediation.PreflightFailed},
	} {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			r := silent()
			// Ready=Unknown has lasted for longer than its timeout, but not for twice as long.
			since := metav1.NewTime(noon.Add(-15 * time.Minute))
			r.facts.Snapshot.Targets[0].Node.Conditions[0].LastTransitionTime = since
			test.setup(r)
			r.succeeds(g)
			g.Expect(r.calls).To(ContainElement("lease n-0"))
			g.Expect(r.pass.Planned.Decisions[0].Block.Reason).To(Equal(test.held))
			g.Expect(slices.Contains(r.calls, made(0))).To(Equal(test.held == ""))
		})
	}
	g, r := NewWithT(t), unhealthy(1)
	r.succeeds(g)
	g.Expect(r.calls).ToNot(ContainElement("lease n-0"), "it is unhealthy for another reason")
}

// There is one place. The kubelet of the first target still renews its Lease, and reading that took long. The other target has its turn
// soon, and not after another timeout of the first.
func TestRun_LateAfterKubeletRenewed_RetriesSoon(t *testing.T) {
	g := NewWithT(t)
	r := silent()
	r.facts.Snapshot.Targets[0].Node.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-15 * time.Minute))
	second := r.facts.Snapshot.Targets[0]
	second.Name = "m-1"
	r.facts.Snapshot.Targets = append(r.facts.Snapshot.Targets, second)
	r.facts.Situation.Targets = append(r.facts.Situation.Targets, remediation.Target{Name: "m-1", Node: "n-1"})
	r.oneByOne()
	r.renewed, r.takes = noon, preflightTime
	g.Expect(r.succeeds(g)).To(Equal(noon.Add(remediation.RetryTime)))
	g.Expect(r.pass.Planned.Decisions).To(ContainElement(HaveField("Block.Reason", remediation.LeaseRenewed)))
}
