// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
)

// read is a Node with one condition, as it was written at a time.
func read(kind corev1.NodeConditionType, status corev1.ConditionStatus, since time.Time) *corev1.Node {
	n := node("a", "")
	n.UID = "1"
	n.Status.Conditions = []corev1.NodeCondition{{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(since)}}
	return n
}

// The time of a transition is a claim. A condition cannot have its status since before the manager has read another one.
func TestNodeCache_TransitionClaimed_IsCorrected(t *testing.T) {
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	ready := read(corev1.NodeReady, corev1.ConditionTrue, ago(time.Hour))
	unknown := func(d time.Duration) *corev1.Node { return read(corev1.NodeReady, corev1.ConditionUnknown, ago(d)) }
	other := ready.DeepCopy()
	other.UID = "2"
	for name, test := range map[string]struct {
		writes []*corev1.Node
		since  time.Time
	}{
		"at once":                      {[]*corev1.Node{ready, unknown(0)}, now},
		"within the tolerance":         {[]*corev1.Node{ready, unknown(ClockTolerance)}, ago(ClockTolerance)},
		"earlier than it was read":     {[]*corev1.Node{ready, unknown(ClockTolerance + 1)}, now},
		"no time":                      {[]*corev1.Node{ready, read(corev1.NodeReady, corev1.ConditionUnknown, time.Time{})}, now},
		"claimed again":                {[]*corev1.Node{ready, unknown(time.Minute), unknown(time.Minute)}, now},
		"moved back while it lasts":    {[]*corev1.Node{ready, unknown(0), unknown(time.Minute)}, now},
		"moved back by small steps":    {[]*corev1.Node{ready, unknown(9 * time.Second), unknown(10 * time.Second)}, ago(9 * time.Second)},
		"a later time":                 {[]*corev1.Node{ready, unknown(time.Minute), unknown(-time.Second)}, now.Add(time.Second)},
		"removed before":               {[]*corev1.Node{ready, read("Other", corev1.ConditionTrue, now), unknown(time.Minute)}, now},
		"not read before, as at start": {[]*corev1.Node{unknown(time.Minute)}, ago(time.Minute)},
		"of another Node of the name":  {[]*corev1.Node{other, unknown(time.Minute)}, ago(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			g, n := NewWithT(t), newNodeCache(transitions{testingclock.NewFakePassiveClock(now), ClockTolerance})
			var last *corev1.Node
			for _, written := range test.writes {
				n.put(written)
				last = written
			}
			claimed := last.Status.Conditions[0]
			for _, got := range []*corev1.Node{n.byName["a"], n.correct(last)} {
				c := got.Status.Conditions[0]
				g.Expect(c.LastTransitionTime.Time).To(Equal(test.since))
				if !claimed.LastTransitionTime.Time.Equal(test.since) {
					g.Expect(c.LastHeartbeatTime).To(Equal(claimed.LastTransitionTime))
				}
			}
			g.Expect(last.Status.Conditions[0]).To(Equal(claimed), "it belongs to the informer")
		})
	}
}

// A new connection delivers a Node as if it was read for the first time. What the last one has delivered still holds until its end.
func TestNodeCache_NewConnection_KeepsWhatWasRead(t *testing.T) {
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	ready := read(corev1.NodeReady, corev1.ConditionTrue, ago(time.Hour))
	replaced := ready.DeepCopy()
	replaced.UID = "2"
	end := ago(20 * time.Second)
	for name, test := range map[string]struct {
		earlier        *corev1.Node
		claimed, since time.Time
	}{
		"a claim":                      {ready, ago(10 * time.Minute), end},
		"during the interruption":      {ready, ago(5 * time.Second), ago(5 * time.Second)},
		"before its end was noticed":   {ready, end.Add(-ClockTolerance), end.Add(-ClockTolerance)},
		"it was the same before":       {read(corev1.NodeReady, corev1.ConditionUnknown, ago(time.Hour)), ago(time.Hour), ago(time.Hour)},
		"moved back":                   {read(corev1.NodeReady, corev1.ConditionUnknown, ago(time.Minute)), ago(time.Hour), ago(time.Minute)},
		"another Node of the name":     {replaced, ago(10 * time.Minute), ago(10 * time.Minute)},
		"a Node that was not read yet": {node("b", ""), ago(10 * time.Minute), ago(10 * time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := NewWithT(t), &clusterState{}
			next := func() *nodeCache {
				n := newNodeCache(transitions{testingclock.NewFakePassiveClock(now), ClockTolerance})
				s.setNodeCache(n)
				return n
			}
			first := next()
			first.put(test.earlier)
			first.markSynced()
			s.LastSeen = end
			// The second connection ends before it has delivered anything.
			next()
			s.LastSeen = now
			third := next()
			third.put(read(corev1.NodeReady, corev1.ConditionUnknown, test.claimed))
			g.Expect(third.byName["a"].Status.Conditions[0].LastTransitionTime.Time).To(Equal(test.since))
			third.markSynced()
			g.Expect(third.earlier).To(BeNil())
		})
	}
}
