// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// The time of the last block is kept until the target is remediated, or is no longer unhealthy.
func TestRecord_BlockedTarget_IsKeptUntilRemediated(t *testing.T) {
	g := NewWithT(t)
	noon := time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)
	r, targets := &record{}, []*Target{{Object: &clusterv1.Machine{}}}
	targets[0].Object.SetUID("a")
	observe := func(at time.Time, kind health.Kind, d remediation.Decision) time.Time {
		r.observeBlocked(&explain.Evaluation{
			Assessment: &health.Assessment{Verdicts: []health.Verdict{{Kind: kind}}},
			Planned:    &remediation.Planned{Decisions: []remediation.Decision{d}},
		}, targets, at)
		return r.blockedAt["a"]
	}
	rejected := remediation.Decision{Block: remediation.Block{Reason: remediation.RequestFailed}}
	waiting := remediation.Decision{Block: remediation.Block{Reason: remediation.MaxInFlight}}
	g.Expect(observe(noon, health.Unhealthy, waiting)).To(BeZero())
	g.Expect(observe(noon, health.Unhealthy, rejected)).To(Equal(noon))
	g.Expect(observe(noon.Add(time.Second), health.Unhealthy, waiting)).To(Equal(noon), "it waits for its turn")
	g.Expect(observe(noon.Add(time.Minute), health.Unhealthy, rejected)).To(Equal(noon.Add(time.Minute)))
	g.Expect(observe(noon.Add(time.Hour), health.Unhealthy, remediation.Decision{InFlight: true})).To(BeZero())
	g.Expect(observe(noon, health.Unhealthy, rejected)).ToNot(BeZero())
	g.Expect(observe(noon, health.Healthy, remediation.Decision{})).To(BeZero())
}

// A target that was removed is missing for a minute after the last change, unless another one replaces it.
func TestRecord_RemovedTargets_AreMissingForAMinute(t *testing.T) {
	g := NewWithT(t)
	noon := time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)
	r := &record{}
	observe := func(after time.Duration, targets int) int {
		missing, until := r.observeTargets(targets, noon.Add(after))
		if missing > 0 {
			g.Expect(until).To(And(BeTemporally(">", noon.Add(after)), BeTemporally("<=", noon.Add(after+replacementTime))))
		}
		return missing
	}
	g.Expect(observe(0, 3)).To(BeZero(), "nothing is known of the time before")
	g.Expect(observe(time.Hour, 2)).To(Equal(1))
	g.Expect(observe(time.Hour+59*time.Second, 2)).To(Equal(1))
	g.Expect(observe(time.Hour+59*time.Second, 1)).To(Equal(2))
	g.Expect(observe(time.Hour+time.Minute, 3)).To(BeZero(), "they were replaced")
	g.Expect(observe(time.Hour+time.Minute, 2)).To(Equal(1))
	g.Expect(observe(time.Hour+2*time.Minute, 2)).To(BeZero(), "it was not replaced")
	g.Expect(observe(time.Hour+2*time.Minute, 4)).To(BeZero())
}

func TestRecords_Begin_ReturnsTrigger(t *testing.T) {
	g := NewWithT(t)
	noon := time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)
	r, check := &records{}, types.NamespacedName{Namespace: "a", Name: "b"}
	begin := func(at time.Duration) []any {
		trigger, late := r.begin(check, noon.Add(at))
		return []any{trigger, late}
	}
	g.Expect(begin(0)).To(Equal([]any{metrics.ByResync, time.Duration(0)}), "no event and no deadline")
	r.event(check, false, noon)
	r.event(check, false, noon.Add(time.Second))
	g.Expect(begin(3*time.Second)).To(Equal([]any{metrics.ByEvent, 3 * time.Second}), "the first event counts")
	r.due(check, noon.Add(time.Minute))
	g.Expect(begin(time.Minute + time.Millisecond)).To(Equal([]any{metrics.ByTimer, time.Millisecond}))
	r.due(check, noon.Add(time.Minute))
	r.event(check, false, noon)
	g.Expect(begin(time.Second)).To(Equal([]any{metrics.ByEvent, time.Second}), "the event came before the deadline")
	g.Expect(begin(2*time.Minute)).To(Equal([]any{metrics.ByResync, time.Duration(0)}), "each event triggers one reconcile")
	r.due(check, noon.Add(time.Minute))
	r.event(check, false, noon.Add(2*time.Minute))
	g.Expect(begin(3*time.Minute)).To(Equal([]any{metrics.ByTimer, 2 * time.Minute}), "the deadline came first")
	r.event(check, false, noon)
	r.event(check, true, noon.Add(time.Second))
	g.Expect(begin(2*time.Second)).To(Equal([]any{metrics.BySpec, 2 * time.Second}), "the check itself has changed")
	r.forget(check)
	g.Expect(r.all).To(BeEmpty())
}

// Targets come and go, are paused, blocked, and lose their Nodes, and requests for them are rejected: what is recorded of targets that no
// longer exist does not stay.
func TestRecord_TargetsComeAndGo_KeepsOnlyPresentOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)
		r, created := &record{}, 0
		var targets []*Target
		for range rapid.IntRange(1, 20).Draw(t, "reconciles") {
			now = now.Add(time.Hour)
			targets = targets[min(len(targets), rapid.IntRange(0, 5).Draw(t, "removed")):]
			for range rapid.IntRange(0, 5).Draw(t, "added") {
				created++
				targets = append(targets, &Target{Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(created))}}})
			}
			pass := &explain.Evaluation{Assessment: &health.Assessment{}, Planned: &remediation.Planned{}}
			for _, target := range targets {
				target.Object.SetAnnotations(nil)
				if rapid.Bool().Draw(t, "paused") {
					target.Object.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
				}
				pass.Assessment.Verdicts = append(pass.Assessment.Verdicts, health.Verdict{Kind: health.Unhealthy, NodeGoneSince: now})
				rejected := remediation.Decision{Block: remediation.Block{Reason: remediation.RequestFailed}}
				pass.Planned.Decisions = append(pass.Planned.Decisions, rejected)
				r.reject(rejectedRequest{target: target.uid()}, nil, now)
			}
			r.observePauses(targets, now)
			r.observeNodes(targets, pass.Assessment.Verdicts)
			r.observeBlocked(pass, targets, now)
			if n := len(targets); len(r.pauses) > n || len(r.nodeGoneSince) > n || len(r.blockedAt) > n || len(r.rejected) > max(n, 5) {
				t.Fatalf("%d targets, and %d pauses, %d Nodes that no longer exist, %d blocked, %d rejected", n, len(r.pauses),
					len(r.nodeGoneSince), len(r.blockedAt), len(r.rejected))
			}
		}
	})
}
