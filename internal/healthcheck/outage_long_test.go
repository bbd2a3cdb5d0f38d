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

// flapping is the mode of a connection that changes all the time.
const flapping faults.Mode = "Flaps"

// twoClusters are prod, whose connection fails, and calm, whose connection does not. The test advances the clock of the latency of prod.
type twoClusters struct {
	*stage.Stage
	*stage.Instance
	prod, calm   *remedyv1.MachineHealthCheck
	latencyClock *testingclock.FakeClock
}

// newTwoClusters returns two idle clusters. Four Machines of prod become unhealthy in 20 seconds, and maxInFlight is 1.
func newTwoClusters(t *testing.T) *twoClusters {
	t.Helper()
	latencyClock := testingclock.NewFakeClock(time.Now())
	s := &twoClusters{latencyClock: latencyClock}
	s.Stage = stage.New(t, stage.WithClock, stage.WithWorkers, func(s *stage.Stage) { s.UseProxy(faults.WithClock(latencyClock)) })
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
		s.Eventually(stage.Get(s.Stage, s.prod)).Should(WithTransform(stage.Decision(name), Equal("Pending ")))
	}
	s.Eventually(stage.Get(s.Stage, s.calm)).Should(WithTransform(stage.Healthy, BeEquivalentTo(1)))
	s.WaitIdle()
	return s
}

// ofCluster moves a Machine to another cluster, and to a pool with the name of that cluster.
func ofCluster(name string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		m.Labels = map[string]string{clusterv1.ClusterNameLabel: name, "pool": name}
		m.Spec.ClusterName = name
	}
}

// createdRequests returns the names of the requests that were created, in order, with repetitions.
func (s *twoClusters) createdRequests() []string {
	names := []string{}
	for _, w := range s.Writes() {
		if w.Verb == "create" && w.Resource == remediator.Metal3.Plural {
			names = append(names, w.Name)
		}
	}
	return names
}

// breakConnection sets a failure mode of the connection to prod.
func (s *twoClusters) breakConnection(mode faults.Mode) {
	s.T.Helper()
	if mode == faults.Slow {
		s.Expect(s.Proxy.Slow(faults.Speed{Latency: time.Minute})).To(Succeed())
		return
	}
	if mode == flapping {
		mode = faults.BlackHole
	}
	s.Expect(s.Proxy.Set(mode)).To(Succeed())
}

// restoreConnection ends a failure mode: delayed responses arrive, and a flapping connection changes a few times more.
func (s *twoClusters) restoreConnection(mode faults.Mode) {
	s.T.Helper()
	if mode == faults.Slow {
		for range 10 {
			s.latencyClock.Step(time.Minute)
			s.Wake()
		}
	}
	if mode == flapping {
		flap, err := s.Proxy.Flap(1)
		s.Expect(err).ToNot(HaveOccurred())
		for range 6 {
			next, err := flap.Next()
			s.Expect(err).ToNot(HaveOccurred())
			s.T.Log("mode of the connection:", next)
			s.ReconcileAll()
			s.Expect(s.createdRequests()).To(Equal([]string{"c-1"}), "no remediation starts before the Nodes had time to report")
		}
	}
	s.Expect(s.Proxy.Set(faults.Pass)).To(Succeed())
}

// An outage of one cluster does not delay the other one. When it ends, only Machines that are still unhealthy are remediated, one at a
// time.
func TestOutage_OneOfTwoClusters_EndsWithoutBurst(t *testing.T) {
	t.Parallel()
	for _, mode := range []faults.Mode{faults.RefuseConnections, faults.BlackHole, faults.HalfOpen, faults.Slow, flapping} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := newTwoClusters(t)
			s.breakConnection(mode)
			// Two Nodes recover during the outage.
			s.SetReady("m-1", corev1.ConditionTrue, 0)
			s.SetReady("m-2", corev1.ConditionTrue, 0)
			s.Advance(40 * time.Second)

			// A Machine of the other cluster is remediated during the outage. No Machine of this cluster is.
			s.SetReady("c-1", corev1.ConditionUnknown, 10*time.Minute)
			s.WaitRequest(remediator.Metal3, "c-1")
			s.Eventually(stage.Get(s.Stage, s.prod)).
				Should(WithTransform(stage.CheckCondition(remedyv1.ClusterReachableCondition), Equal("False ClusterUnreachable")))
			s.Expect(stage.CheckCondition(remedyv1.ClusterReachableCondition)(stage.Get(s.Stage, s.calm)())).To(Equal("True ClusterReachable"))
			s.ReconcileAll()
			s.Expect(s.createdRequests()).To(Equal([]string{"c-1"}))

			// The connection is restored. The reconnect grace period gives the Nodes time to report.
			s.restoreConnection(mode)
			s.Eventually(stage.Get(s.Stage, s.prod)).
				Should(WithTransform(stage.CheckCondition(remedyv1.ClusterReachableCondition), Equal("Unknown Reconnecting")))
			s.ReconcileAll()
			s.ReconcileAll()
			s.Expect(s.createdRequests()).To(Equal([]string{"c-1"}))

			// Then unhealthy Machines are remediated one at a time, and no Machine that has recovered.
			s.Advance(time.Hour)
			s.Eventually(stage.Get(s.Stage, s.prod)).
				Should(WithTransform(stage.CheckCondition(remedyv1.ClusterReachableCondition), Equal("True ClusterReachable")))
			s.Eventually(s.createdRequests).Should(Equal([]string{"c-1", "m-3"}))
			s.Eventually(stage.Get(s.Stage, s.prod)).Should(WithTransform(stage.Decision("m-4"), Equal("Blocked MaxInFlight")))
			s.WaitIdle()
			s.Expect(s.createdRequests()).To(Equal([]string{"c-1", "m-3"}))
		})
	}
}
