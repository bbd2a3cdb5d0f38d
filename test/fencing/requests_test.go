// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fencing

package fencing_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// waitsFor matches a fence that has not begun, and waits for a reason.
func waitsFor(reason string) func(*fencingv1.NodeFence) bool {
	return func(f *fencingv1.NodeFence) bool {
		is := meta.FindStatusCondition(f.Status.Conditions, fencingv1.AdmittedCondition)
		return is != nil && is.Status == metav1.ConditionFalse && is.Reason == reason
	}
}

// Two requests for one Node are one fence. The second one waits for the first one, and is evaluated again after it.
func TestFence_TwoRequests_MachineIsSwitchedOffOnce(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	m := newMachine(t, w, "requested-twice")
	m.hang()
	first, second := m.fence(), m.fence()
	m.g.Eventually(m.taint, limit).ShouldNot(BeEmpty())
	if m.taint() == string(second.UID) {
		first, second = second, first
	}
	m.until(second, "the second request is queued", waitsFor("Queued"))
	ended := m.untilEnded(first)
	m.g.Expect(ended.Status.Reason).To(Equal("Rejoined"))
	m.until(second, "the second request finds the Node Ready", waitsFor("NodeReady"))
	m.g.Expect(m.OffRequests()).To(Equal(1))
	m.g.Expect(m.taint()).To(BeEmpty())

	m.g.Expect(w.API.Delete(t.Context(), second)).To(Succeed())
	m.untilGone(second)
	m.g.Expect(m.OffRequests()).To(Equal(1))
	m.g.Expect(m.OnRequests()).To(Equal(1))
}

// check requests a check of the devices of a machine.
func (m *machine) check() *fencingv1.NodeFence {
	return m.fence(once, func(f *fencingv1.NodeFence) { f.Spec.Mode = fencingv1.CheckDevices })
}

// A check asks each device and changes nothing.
func TestFence_CheckMode_ReportsAndChangesNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, reason string
		status       metav1.ConditionStatus
		power        fencingv1.Power
		fault        func(*machine) error
	}{
		{"answers", "DevicesAnswered", metav1.ConditionTrue, fencingv1.PowerOn, func(*machine) error { return nil }},
		{"dead", "DeviceFailed", metav1.ConditionFalse, fencingv1.PowerUnknown, func(m *machine) error { m.Die(); return nil }},
		{"other-machine", "WrongMachine", metav1.ConditionFalse, fencingv1.PowerOff, func(m *machine) error { return m.AnswerOff() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := theWorld(t)
			m := newMachine(t, w, "check-"+test.name)
			boot := m.node().Status.NodeInfo.BootID
			m.g.Expect(test.fault(m)).To(Succeed())
			fence := m.check()
			ended := m.untilEnded(fence)
			m.g.Expect(ended.Status.Reason).To(Equal(test.reason))
			m.g.Expect(condition(ended, remedyv1.SucceededCondition)).To(Equal(test.status))
			m.g.Expect(ended.Status.Methods).To(HaveLen(1))
			m.g.Expect(ended.Status.Methods[0].Power).To(Equal(test.power))
			m.g.Expect(ended.Status.Evidence).To(BeNil())
			m.g.Expect(condition(ended, fencingv1.FencedCondition)).To(BeEmpty())
			for _, job := range ended.Status.Jobs {
				m.g.Expect(job.Action).To(Equal(fencingv1.ActionStatus))
			}
			m.g.Expect(m.Requests()).To(BeEmpty())
			m.g.Expect(m.taint()).To(BeEmpty())
			m.g.Expect(ended.Finalizers).To(BeEmpty())
			m.g.Expect(m.node().Status.NodeInfo.BootID).To(Equal(boot))
			m.untilReady(corev1.ConditionTrue)
			m.g.Expect(w.API.Delete(t.Context(), fence)).To(Succeed())
			m.untilGone(fence)
		})
	}
}
