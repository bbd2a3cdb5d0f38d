//go:build long

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// flaps is the mode of a way that changes all the time.
const flaps faults.Mode = "Flaps"

// twoClusters are prod, whose way goes wrong, and calm, whose way does not. The clock by which prod is slow goes on when the test says so.
type twoClusters struct {
	*stage
	*controller
	prod, calm *remedyv1.MachineHealthCheck
	lag        *testingclock.FakeClock
}

func (s *twoClusters) pass() { s.controller.pass() }

// newTwoClusters are at rest. Four Machines of prod are 20 seconds short of being unhealthy, and one may be remediated at a time.
func newTwoClusters(t *testing.T) *twoClusters {
	t.Helper()
	lag := testingclock.NewFakeClock(time.Now())
	s := &twoClusters{lag: lag}
	s.stage = newStage(t, withClock, withWorkers, func(s *stage) { s.throughProxy(faults.WithClock(lag)) })
	s.makeClusterAt("calm", guest.Admin)
	for _, name := range []string{"m-1", "m-2", "m-3", "m-4"} {
		s.machine(name)
		s.ready(name, corev1.ConditionUnknown, 4*time.Minute+40*time.Second)
	}
	s.machine("c-1", ofCluster("calm"))
	template := by(s.template(remediator.Metal3, "soft"))
	s.prod = s.check("workers", template, atOnce(1))
	s.calm = s.check("others", template, func(spec *remedyv1.MachineHealthCheckSpec) {
		spec.ClusterName = "calm"
		spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": "calm"}
	})
	s.controller = s.start()
	for _, name := range []string{"m-1", "m-2", "m-3", "m-4"} {
		s.Eventually(get(s.stage, s.prod)).Should(WithTransform(holds(name), Equal("Observed ")))
	}
	s.Eventually(get(s.stage, s.calm)).Should(WithTransform(healthy, BeEquivalentTo(1)))
	s.settle()
	return s
}

// ofCluster makes a Machine one of another cluster, and of a pool of the same name.
func ofCluster(name string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		m.Labels = map[string]string{clusterv1.ClusterNameLabel: name, "pool": name}
		m.Spec.ClusterName = name
	}
}

// made are the Machines for which requests were made, in that order, however often.
func (s *twoClusters) made() []string {
	names := []string{}
	for _, w := range s.Writes() {
		if w.Verb == "create" && w.Resource == remediator.Metal3.Plural {
			names = append(names, w.Name)
		}
	}
	return names
}

// goesWrong is what happens to the way to prod.
func (s *twoClusters) goesWrong(mode faults.Mode) {
	s.t.Helper()
	if mode == faults.Slow {
		s.Expect(s.proxy.Slow(faults.Speed{Latency: time.Minute})).To(Succeed())
		return
	}
	if mode == flaps {
		mode = faults.BlackHole
	}
	s.Expect(s.proxy.Set(mode)).To(Succeed())
}

// heals is how it ends: what is slow comes after all, and what flaps does so a few times more.
func (s *twoClusters) heals(mode faults.Mode) {
	s.t.Helper()
	if mode == faults.Slow {
		for range 10 {
			s.lag.Step(time.Minute)
			s.nudge()
		}
	}
	if mode == flaps {
		flap, err := s.proxy.Flap(1)
		s.Expect(err).ToNot(HaveOccurred())
		for range 6 {
			next, err := flap.Next()
			s.Expect(err).ToNot(HaveOccurred())
			s.t.Log("the way is now", next)
			s.pass()
			s.Expect(s.made()).To(Equal([]string{"c-1"}), "it was away, and its Nodes speak first")
		}
	}
	s.Expect(s.proxy.Set(faults.Pass)).To(Succeed())
}

// TestAnOutageDelaysNoOtherClusterAndEndsWithoutABurst shows what a cut cluster means for others, and what comes after it.
func TestAnOutageDelaysNoOtherClusterAndEndsWithoutABurst(t *testing.T) {
	t.Parallel()
	for _, mode := range []faults.Mode{faults.RefuseConnections, faults.BlackHole, faults.HalfOpen, faults.Slow, flaps} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := newTwoClusters(t)
			s.goesWrong(mode)
			// Two have recovered, and nobody could tell us.
			s.ready("m-1", corev1.ConditionTrue, 0)
			s.ready("m-2", corev1.ConditionTrue, 0)
			s.wait(40 * time.Second)

			// A Machine of the other cluster is remediated while this one is away, and all that was thought of this one comes to nothing.
			s.ready("c-1", corev1.ConditionUnknown, 10*time.Minute)
			s.requested(remediator.Metal3, "c-1")
			s.Eventually(get(s.stage, s.prod)).Should(WithTransform(tells(remedyv1.ClusterReachableCondition), Equal("False ClusterUnreachable")))
			s.Expect(tells(remedyv1.ClusterReachableCondition)(get(s.stage, s.calm)())).To(Equal("True ClusterReachable"))
			s.pass()
			s.Expect(s.made()).To(Equal([]string{"c-1"}))

			// It is back, and its Nodes speak first.
			s.heals(mode)
			s.Eventually(get(s.stage, s.prod)).Should(WithTransform(tells(remedyv1.ClusterReachableCondition), Equal("Unknown Reconnecting")))
			s.pass()
			s.pass()
			s.Expect(s.made()).To(Equal([]string{"c-1"}))

			// Then one at a time, and nobody who was well.
			s.wait(time.Hour)
			s.Eventually(get(s.stage, s.prod)).Should(WithTransform(tells(remedyv1.ClusterReachableCondition), Equal("True ClusterReachable")))
			s.Eventually(s.made).Should(Equal([]string{"c-1", "m-3"}))
			s.Eventually(get(s.stage, s.prod)).Should(WithTransform(holds("m-4"), Equal("Held MaxInFlight")))
			s.settle()
			s.Expect(s.made()).To(Equal([]string{"c-1", "m-3"}))
		})
	}
}
