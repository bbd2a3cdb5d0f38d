// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// A second fence of a Node within repeatPeriod is counted. Neither a check of its devices nor a fence after the period is.
func TestMetrics_SecondFence_IsCountedWithinRepeatPeriod(t *testing.T) {
	s := newStage(t)
	s.profile()
	repeats := func() float64 { return testutil.ToFloat64(s.r.Metrics.repeats.WithLabelValues("")) }
	fence := func(name string, period time.Duration) {
		s.ready("worker-1", corev1.ConditionUnknown, "boot-1")
		s.run(s.fence(name, func(f *fencingv1.NodeFence) {
			f.Spec.Limits.RepeatPeriod = &remedyv1.Duration{Duration: metav1.Duration{Duration: period}}
		}), final)
	}
	fence("first", time.Hour)
	s.Expect(repeats()).To(BeZero())
	s.Expect(s.drained()).ToNot(ContainSubstring("FencedAgain"))
	s.run(s.fence("check", func(f *fencingv1.NodeFence) { f.Spec.Mode = fencingv1.CheckDevices }), final)
	s.Expect(repeats()).To(BeZero())
	s.Expect(s.drained()).To(BeEmpty())
	fence("second", time.Hour)
	s.Expect(repeats()).To(Equal(1.0))
	s.Expect(s.drained()).To(ContainSubstring("FencedAgain"))
	s.clock.Step(2 * time.Hour)
	fence("third", time.Hour)
	s.Expect(repeats()).To(Equal(1.0))
	// 0s counts none.
	fence("fourth", 0)
	s.Expect(repeats()).To(Equal(1.0))
}

// The gauges follow from the records, so they are the same after a restart.
func TestMetrics_FailedFence_IsOffUntilItIsOn(t *testing.T) {
	s := newStage(t)
	s.profile()
	broken := true
	s.answer = func(method, action string) (int32, string) {
		if action == "on" && broken {
			return 1, ""
		}
		return s.honest(method, action)
	}
	f := s.fence("left-off")
	s.run(f, func(f *fencingv1.NodeFence) bool { return f.Status.Evidence != nil })
	off := s.get(f).Status.Methods[0].OffRequested
	gauges := func() []float64 {
		m := s.r.Metrics
		all := []float64{testutil.ToFloat64(m.failed), testutil.ToFloat64(m.active)}
		if testutil.CollectAndCount(m.oldestOff) > 0 {
			all = append(all, testutil.ToFloat64(m.oldestOff))
		}
		return all
	}
	s.Expect(gauges()).To(Equal([]float64{0, 1, float64(off.Unix())}))
	s.run(f, failed)
	s.reconcile(f)
	s.Expect(gauges()).To(Equal([]float64{1, 1, float64(off.Unix())}))
	s.r.Metrics.fences = map[client.ObjectKey]fenceState{}
	s.reconcile(f)
	s.Expect(gauges()).To(Equal([]float64{1, 1, float64(off.Unix())}))
	broken = false
	s.Expect(s.admin.Delete(t.Context(), f)).To(Succeed())
	s.run(f, func(*fencingv1.NodeFence) bool { return false })
	s.Expect(gauges()).To(Equal([]float64{0, 0}))
}

// A check that fails or waits is no fence.
func TestMetrics_Check_IsNoFence(t *testing.T) {
	s := newStage(t)
	s.profile()
	s.answer = failing
	f := s.fence("check", func(f *fencingv1.NodeFence) { f.Spec.Mode = fencingv1.CheckDevices })
	s.r.Observe = true
	s.reconcile(f)
	s.Expect(testutil.CollectAndCount(s.r.Metrics.blocked)).To(BeZero())
	s.r.Observe = false
	s.run(f, func(f *fencingv1.NodeFence) bool { return f.Status.Action != nil })
	s.Expect(testutil.ToFloat64(s.r.Metrics.active)).To(BeZero())
	s.run(f, final)
	s.Expect(condition(s.get(f), "Succeeded")).To(Equal("False DeviceFailed"))
	s.Expect(testutil.CollectAndCount(s.r.Metrics.ended)).To(BeZero())
	s.Expect(testutil.CollectAndCount(s.r.Metrics.duration)).To(BeZero())
	s.Expect(testutil.ToFloat64(s.r.Metrics.actions.WithLabelValues("rack", "ipmi", "status", "Failed"))).To(Equal(3.0))
}
