// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fencing

package fencing_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing"
)

func duration(d time.Duration) *remedyv1.Duration {
	return &remedyv1.Duration{Duration: metav1.Duration{Duration: d}}
}

// shortTimeout gives the actions of a device the shortest timeout.
func shortTimeout(profile *fencingv1.FenceProfile) {
	profile.Spec.Methods[0].Timeout = duration(10 * time.Second)
}

func otherSecret(name string) func(*fencingv1.FenceProfile) {
	return func(profile *fencingv1.FenceProfile) { profile.Spec.Methods[0].SecretName = name }
}

// A device that does not do what it should proves nothing. What was not switched off is not switched on, also when the request is deleted.
func TestFence_BadDevice_ProvesNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*fencingv1.FenceProfile)
		fault  func(*machine) error
		off    int
	}{
		{"dead", shortTimeout, func(m *machine) error { m.Die(); return nil }, 0},
		{"slow", shortTimeout, func(m *machine) error { return m.Slow(time.Minute) }, 0},
		{"other-password", otherSecret("bmc-other-password"), func(*machine) error { return nil }, 0},
		{"no-secret", otherSecret("bmc-missing"), func(*machine) error { return nil }, 0},
		// It accepts requests, and does nothing. An agent does not switch on what answers ON.
		{"lying", func(*fencingv1.FenceProfile) {}, func(m *machine) error { return m.IgnoreOff() }, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := theWorld(t)
			if test.name == "other-password" {
				NewWithT(t).Expect(w.CreateSecret(t.Context(), fencing.Namespace, "bmc-other-password", "another-one")).To(Succeed())
			}
			m := newMachine(t, w, "device-"+test.name, test.change)
			m.g.Expect(test.fault(m)).To(Succeed())
			m.hang()
			fence := m.fence(once)
			ended := m.untilEnded(fence)
			m.notProvenOff(ended)
			m.g.Expect(m.OffRequests()).To(Equal(test.off))
			m.g.Expect(m.OnRequests()).To(BeZero())
			m.g.Expect(m.Power()).To(BeTrue())
			m.g.Expect(m.taint()).To(Equal(string(fence.UID)))

			m.g.Expect(w.API.Delete(t.Context(), fence)).To(Succeed())
			m.untilGone(fence)
			m.g.Expect(m.OffRequests()).To(Equal(test.off))
			m.g.Expect(m.OnRequests()).To(BeZero())
			m.g.Expect(m.taint()).To(BeEmpty())
		})
	}
}

// notProvenOff expects that a fence has failed without evidence.
func (m *machine) notProvenOff(ended *fencingv1.NodeFence) {
	m.t.Helper()
	m.g.Expect(ended.Status.Phase).To(Equal(fencingv1.PhaseError))
	m.g.Expect(ended.Status.Reason).To(Equal("NotProvenOff"))
	m.g.Expect(ended.Status.Evidence).To(BeNil())
	m.g.Expect(condition(ended, fencingv1.FencedCondition)).ToNot(Equal(metav1.ConditionTrue))
	m.g.Expect(condition(ended, remedyv1.SucceededCondition)).To(Equal(metav1.ConditionFalse))
}

// The cables of two machines are interchanged: the device switches off the neighbour, and answers ON. That proves nothing, and the Node of
// the neighbour is not Ready.
func TestFence_InterchangedCables_ProveNothing(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	m, neighbour := newMachine(t, w, "cables-a"), newMachine(t, w, "cables-b")
	m.g.Expect(m.SwitchNeighbour(neighbour.Machine.Machine)).To(Succeed())
	m.hang()
	fence := m.fence(once)
	m.notProvenOff(m.untilEnded(fence))
	m.g.Expect(m.Power()).To(BeTrue())
	m.g.Expect(neighbour.Power()).To(BeFalse())
	neighbour.untilReady(corev1.ConditionUnknown)
	m.g.Expect(w.API.Delete(t.Context(), fence)).To(Succeed())
	m.untilGone(fence)
	m.g.Expect(m.OnRequests()).To(BeZero())

	// Its fence switches nothing on that it has not switched off.
	neighbours := neighbour.fence(once)
	m.g.Expect(neighbour.untilEnded(neighbours).Status.Reason).To(Equal("PoweredOffBefore"))
	m.g.Expect(neighbour.Requests()).To(BeEmpty())
	m.g.Expect(neighbour.SetPower(true)).To(Succeed())
	neighbour.untilReady(corev1.ConditionTrue)
	neighbour.until(neighbours, "the neighbour has joined again", func(f *fencingv1.NodeFence) bool { return f.Status.Rejoined != nil })
}

// A row has the address of another machine, which is switched off and on. The Node runs with the same boot, which is reported.
func TestFence_RowOfNeighbour_IsReported(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	neighbour := newMachine(t, w, "row-b")
	m := newMachine(t, w, "row-a", func(profile *fencingv1.FenceProfile) {
		profile.Spec.Nodes = []fencingv1.FenceProfileNode{fencing.Row("row-a", neighbour.Machine)}
	})
	m.hang()
	fence := m.fence(once, func(f *fencingv1.NodeFence) { f.Spec.RejoinTimeout = duration(time.Minute) })
	m.until(fence, "the neighbour was switched on", func(f *fencingv1.NodeFence) bool { return f.Status.PoweredOn != nil })
	m.g.Expect(neighbour.Boots()).To(Equal(2))
	m.Kubelet.Recover()
	ended := m.untilEnded(fence)
	m.g.Expect(ended.Status.Reason).To(Equal("WrongMachine"))
	m.g.Expect(condition(ended, remedyv1.SucceededCondition)).To(Equal(metav1.ConditionFalse))
	m.g.Expect(m.Boots()).To(Equal(1))
	neighbour.untilReady(corev1.ConditionTrue)
	m.g.Expect(w.API.Delete(t.Context(), fence)).To(Succeed())
	m.untilGone(fence)
	m.g.Expect(m.taint()).To(BeEmpty())
}

// A device answers OFF at once, and the machine runs: a person may have switched it off, so nothing is switched.
func TestFence_AnswersOff_SwitchesNothing(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	m := newMachine(t, w, "answers-off")
	m.g.Expect(m.AnswerOff()).To(Succeed())
	m.hang()
	fence := m.fence(once)
	ended := m.untilEnded(fence)
	m.g.Expect(ended.Status.Reason).To(Equal("PoweredOffBefore"))
	m.g.Expect(w.API.Delete(t.Context(), fence)).To(Succeed())
	m.untilGone(fence)
	m.g.Expect(m.Requests()).To(BeEmpty())
	m.g.Expect(m.taint()).To(BeEmpty())
}

// An off takes longer than its agent waits, and the device answers nothing meanwhile. It is proven by a status that follows.
func TestFence_OffTimesOut_StatusProves(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	m := newMachine(t, w, "slow-switch", shortTimeout)
	m.g.Expect(m.SlowToSwitch(8 * time.Second)).To(Succeed())
	m.hang()
	// An agent repeats requests without an answer, and the device handles one after the other.
	fence := m.fence(func(f *fencingv1.NodeFence) { f.Spec.Restarts, f.Spec.Retries = ptr.To[int32](0), ptr.To[int32](10) })
	proven := m.until(fence, "the Node is proven off", func(f *fencingv1.NodeFence) bool { return f.Status.Evidence != nil })
	m.g.Expect(m.Power()).To(BeFalse())
	offs := 0
	for _, job := range proven.Status.Jobs {
		if job.Action == fencingv1.ActionOff {
			offs++
			m.g.Expect(job.Result).ToNot(Equal(fencingv1.JobSucceeded))
		}
	}
	m.g.Expect(offs).To(Equal(1))
	m.g.Expect(m.Repair()).To(Succeed())
	m.g.Expect(m.untilEnded(fence).Status.Reason).To(Equal("Rejoined"))
	m.g.Expect(m.Power()).To(BeTrue())
}
