//go:build long

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// flaps is the mode of a way that changes all the time.
const flaps faults.Mode = "Flaps"

// twoClusters are prod, whose way goes wrong, and calm, whose way does not. The clock by which prod is slow goes on when the test says so.
type twoClusters struct {
	*stage.Stage
	*stage.Instance
	prod, calm *remedyv1.MachineHealthCheck
	lag        *testingclock.FakeClock
}

// newTwoClusters are at rest. Four Machines of prod are 20 seconds short of being unhealthy, and one may be remediated at a time.
func newTwoClusters(t *testing.T) *twoClusters {
	t.Helper()
	lag := testingclock.NewFakeClock(time.Now())
	s := &twoClusters{lag: lag}
	s.Stage = stage.New(t, stage.WithClock, stage.WithWorkers, func(s *stage.Stage) { s.UseProxy(faults.WithClock(lag)) })
	s.CreateClusterAt("calm", stage.Workload.Admin)
	for _, name := range []string{"m-1", "m-2", "m-3", "m-4"} {
		s.CreateMachine(name)
		s.SetReady(name, corev1.ConditionUnknown, 4*time.Minute+40*time.Second)
	}
	s.CreateMachine("c-1", ofCluster("calm"))
	template := stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft"))
	s.prod = s.CreateCheck("workers", template, stage.MaxInFlight(1))
	s.calm = s.CreateCheck("others", template, func(spec *remedyv1.MachineHealthCheckSpec) {
		spec.ClusterName = "calm"
		spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": "calm"}
	})
	s.Instance = s.Start()
	for _, name := range []string{"m-1", "m-2", "m-3", "m-4"} {
		s.Eventually(stage.Get(s.Stage, s.prod)).Should(WithTransform(stage.Decision(name), Equal("Observed ")))
	}
	s.Eventually(stage.Get(s.Stage, s.calm)).Should(WithTransform(stage.Healthy, BeEquivalentTo(1)))
	s.WaitIdle()
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
	s.T.Helper()
	if mode == faults.Slow {
		s.Expect(s.Proxy.Slow(faults.Speed{Latency: time.Minute})).To(Succeed())
		return
	}
	if mode == flaps {
		mode = faults.BlackHole
	}
	s.Expect(s.Proxy.Set(mode)).To(Succeed())
}

// heals is how it ends: what is slow comes after all, and what flaps does so a few times more.
func (s *twoClusters) heals(mode faults.Mode) {
	s.T.Helper()
	if mode == faults.Slow {
		for range 10 {
			s.lag.Step(time.Minute)
			s.Wake()
		}
	}
	if mode == flaps {
		flap, err := s.Proxy.Flap(1)
		s.Expect(err).ToNot(HaveOccurred())
		for range 6 {
			next, err := flap.Next()
			s.Expect(err).ToNot(HaveOccurred())
			s.T.Log("the way is now", next)
			s.ReconcileAll()
			s.Expect(s.made()).To(Equal([]string{"c-1"}), "it was away, and its Nodes speak first")
		}
	}
	s.Expect(s.Proxy.Set(faults.Pass)).To(Succeed())
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
			s.SetReady("m-1", corev1.ConditionTrue, 0)
			s.SetReady("m-2", corev1.ConditionTrue, 0)
			s.Advance(40 * time.Second)

			// A Machine of the other cluster is remediated while this one is away, and all that was thought of this one comes to nothing.
			s.SetReady("c-1", corev1.ConditionUnknown, 10*time.Minute)
			s.WaitRequest(remediator.Metal3, "c-1")
			s.Eventually(stage.Get(s.Stage, s.prod)).
				Should(WithTransform(stage.CheckCondition(remedyv1.ClusterReachableCondition), Equal("False ClusterUnreachable")))
			s.Expect(stage.CheckCondition(remedyv1.ClusterReachableCondition)(stage.Get(s.Stage, s.calm)())).To(Equal("True ClusterReachable"))
			s.ReconcileAll()
			s.Expect(s.made()).To(Equal([]string{"c-1"}))

			// It is back, and its Nodes speak first.
			s.heals(mode)
			s.Eventually(stage.Get(s.Stage, s.prod)).
				Should(WithTransform(stage.CheckCondition(remedyv1.ClusterReachableCondition), Equal("Unknown Reconnecting")))
			s.ReconcileAll()
			s.ReconcileAll()
			s.Expect(s.made()).To(Equal([]string{"c-1"}))

			// Then one at a time, and nobody who was well.
			s.Advance(time.Hour)
			s.Eventually(stage.Get(s.Stage, s.prod)).
				Should(WithTransform(stage.CheckCondition(remedyv1.ClusterReachableCondition), Equal("True ClusterReachable")))
			s.Eventually(s.made).Should(Equal([]string{"c-1", "m-3"}))
			s.Eventually(stage.Get(s.Stage, s.prod)).Should(WithTransform(stage.Decision("m-4"), Equal("Held MaxInFlight")))
			s.WaitIdle()
			s.Expect(s.made()).To(Equal([]string{"c-1", "m-3"}))
		})
	}
}
