// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fencing

package fencing_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// Before the machine is switched off, deletion undoes everything. After that, the fence goes on to its end. The finalizer is always
// removed.
func TestFence_DeletedInEachState_LeavesNothing(t *testing.T) {
	t.Parallel()
	in := func(phase fencingv1.Phase, step fencingv1.FenceStep) func(*fencingv1.NodeFence) bool {
		return func(f *fencingv1.NodeFence) bool { return f.Status.Phase == phase && f.Status.Step == step }
	}
	none := func(*machine) error { return nil }
	slow := func(m *machine) error { return m.Slow(time.Second) }
	lies := func(m *machine) error { return m.IgnoreOff() }
	for _, test := range []struct {
		name    string
		state   func(*fencingv1.NodeFence) bool
		prepare func(*machine) error
		// end is a fault before the deletion.
		end     func(*machine)
		off, on int
	}{
		{"blocked", waitsFor("NodeReady"), none, nil, 0, 0},
		{"power-delay", in(fencingv1.PhaseNew, fencingv1.StepPowerManagement), none, nil, 0, 0},
		{"before-off", in(fencingv1.PhaseRunning, fencingv1.StepPowerManagement), slow, nil, 0, 0},
		{"off-requested", func(f *fencingv1.NodeFence) bool {
			return len(f.Status.Methods) > 0 && f.Status.Methods[0].OffRequested != nil
		}, none, nil, 1, 1},
		{"proven-off", func(f *fencingv1.NodeFence) bool { return f.Status.Evidence != nil }, none, nil, 1, 1},
		{"powered-on", func(f *fencingv1.NodeFence) bool { return f.Status.PoweredOn != nil }, none, nil, 1, 1},
		{"final", in(fencingv1.PhaseFinal, fencingv1.StepRecovery), none, nil, 1, 1},
		{"error", in(fencingv1.PhaseError, fencingv1.StepPowerManagement), lies, nil, 1, 0},
		{"error-dead", in(fencingv1.PhaseError, fencingv1.StepPowerManagement), lies, func(m *machine) { m.Die() }, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := theWorld(t)
			m := newMachine(t, w, "deleted-"+test.name)
			m.g.Expect(test.prepare(m)).To(Succeed())
			if test.name != "blocked" {
				m.hang()
			}
			fence := m.fence(once, func(f *fencingv1.NodeFence) {
				if test.name == "power-delay" {
					f.Spec.PowerDelay = duration(time.Hour)
				}
			})
			m.until(fence, "the state is reached", test.state)
			if test.end != nil {
				test.end(m)
			}
			m.g.Expect(w.API.Delete(t.Context(), fence)).To(Succeed())
			m.untilGone(fence)
			m.log("the fence is deleted")
			m.g.Expect(m.taint()).To(BeEmpty())
			m.g.Expect(m.Power()).To(BeTrue())
			m.g.Expect(m.OffRequests()).To(Equal(test.off))
			m.g.Expect(m.OnRequests()).To(Equal(test.on))
			if m.Boots() > 1 {
				m.untilReady(corev1.ConditionTrue)
			}
		})
	}
}
