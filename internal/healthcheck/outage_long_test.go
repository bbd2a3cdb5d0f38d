//go:build long

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/depth"
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
	kinds        []clusterChecks
	latencyClock *testingclock.FakeClock
}

// clusterChecks are the checks of a kind. Their targets are called 1 to 4 in prod, and 0 in calm, after a prefix.
type clusterChecks struct {
	prefix     string
	prod, calm *kindCheck
}

// newTwoClusters returns two idle clusters. Four Machines and four other Nodes of prod become unhealthy in 20 seconds. maxInFlight is 1.
func newTwoClusters(t *testing.T) *twoClusters {
	t.Helper()
	latencyClock := testingclock.NewFakeClock(time.Now())
	s := &twoClusters{latencyClock: latencyClock}
	s.Stage = stage.New(t, stage.WithClock, stage.WithWorkers, func(s *stage.Stage) { s.UseProxy(faults.WithClock(latencyClock)) })
	s.CreateClusterAt("calm", stage.Workload.Admin)
	for _, name := range []string{"1", "2", "3", "4"} {
		s.CreateMachine("m-" + name)
		s.CreateNode("n-" + name)
		for _, prefix := range []string{"m-", "n-"} {
			s.SetReady(prefix+name, corev1.ConditionUnknown, 4*time.Minute+40*time.Second)
		}
	}
	s.CreateMachine("m-0", ofCluster("calm"))
	s.CreateNode("n-0", func(node *corev1.Node) { node.Labels["pool"] = "calm" })
	template := stage.ByTemplate(s.CreateTemplate(remediator.Example, "soft"))
	machines, nodes := &kindStage{Stage: s.Stage}, &kindStage{Stage: s.Stage, ofNodes: true}
	s.kinds = []clusterChecks{{
		"m-",
		&kindCheck{machines, s.CreateCheck("prod", template, stage.MaxInFlight(1))},
		&kindCheck{machines, s.CreateCheck("calm", template, stage.OfPool("calm"), func(spec *remedyv1.MachineHealthCheckSpec) {
			spec.ClusterName = "calm"
		})},
	}, {
		"n-",
		&kindCheck{nodes, s.createNodeCheck("prod", "workers")},
		&kindCheck{nodes, s.createNodeCheck("calm", "calm")},
	}}
	s.Instance = s.Start()
	for _, kind := range s.kinds {
		for _, name := range []string{"1", "2", "3", "4"} {
			s.Eventually(kind.prod.decision(kind.prefix + name)).Should(Equal("Pending "))
		}
		s.Eventually(kind.calm.healthy).Should(Equal(1))
	}
	s.WaitIdle()
	return s
}

// createNodeCheck creates a check of the Nodes of a pool of a cluster.
func (s *twoClusters) createNodeCheck(cluster string, pool remedyv1.LabelValue) *remedyv1.NodeHealthCheck {
	s.T.Helper()
	return s.CreateNodeCheck(cluster, func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.ClusterRef.Name, spec.Selector.MatchLabels["pool"] = cluster, pool
		spec.RemediationTemplate = stage.NodeTemplateReference(s.Stage, remediator.Example, "soft")
		spec.MaxUnhealthy, spec.MaxInFlight = ptr.To(intstr.FromString("100%")), ptr.To(intstr.FromInt32(1))
	})
}

// ofCluster moves a Machine to another cluster, and to a pool with the name of that cluster.
func ofCluster(name string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		m.Labels = map[string]string{clusterv1.ClusterNameLabel: name, "pool": name}
		m.Spec.ClusterName = name
	}
}

// expectCreated verifies that exactly these requests were created, each once for a Machine and once for a Node.
func (s *twoClusters) expectCreated(names ...string) {
	s.T.Helper()
	expected := make([]string, 0, len(names)*len(s.kinds))
	for _, kind := range s.kinds {
		for _, name := range names {
			expected = append(expected, kind.prefix+name)
		}
	}
	s.Expect(s.createdRequests()).To(ConsistOf(expected))
}

// createdRequests returns the targets of the requests that were created, with repetitions.
func (s *twoClusters) createdRequests() (names []string) {
	for _, w := range s.Writes() {
		if w.Verb == "create" && w.Resource == remediator.Example.Plural {
			names = append(names, strings.TrimPrefix(w.Name, s.NodeName("")))
		}
	}
	return names
}

// waitReachable waits until both checks of prod report this about its connection.
func (s *twoClusters) waitReachable(reachable string) {
	s.T.Helper()
	for _, kind := range s.kinds {
		s.Eventually(kind.prod.condition(remedyv1.ClusterReachableCondition)).Should(Equal(reachable))
	}
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
		flap := s.Proxy.Flap(1)
		for range 6 {
			next, err := flap.Next()
			s.Expect(err).ToNot(HaveOccurred())
			s.T.Log("mode of the connection:", next)
			s.ReconcileAll()
			// No remediation starts before the Nodes had time to report.
			s.expectCreated("0")
		}
	}
	s.Expect(s.Proxy.Set(faults.Pass)).To(Succeed())
}

// An outage of one cluster does not delay the other one. When it ends, only targets that are still unhealthy are remediated, one of each
// check at a time.
func TestOutage_OneOfTwoClusters_EndsWithoutBurst(t *testing.T) {
	t.Parallel()
	modes := []faults.Mode{faults.HalfOpen, flapping}
	if depth.Full() {
		modes = append(modes, faults.RefuseConnections, faults.BlackHole, faults.Slow)
	}
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := newTwoClusters(t)
			s.breakConnection(mode)
			// Two Nodes of each check recover during the outage. An annotation in that cluster requests nothing until then.
			s.ChangeNode("n-3", func(n *corev1.Node) { n.Annotations = map[string]string{remedyv1.RemediateNodeAnnotation: "yes"} })
			for _, name := range []string{"m-1", "m-2", "n-1", "n-2"} {
				s.SetReady(name, corev1.ConditionTrue, 0)
			}
			s.Advance(40 * time.Second)

			// The targets of the other cluster are remediated during the outage. No target of this cluster is.
			for _, kind := range s.kinds {
				s.FailNode(kind.prefix + "0")
				s.WaitRequest(remediator.Example, kind.calm.s.name(kind.prefix+"0"))
			}
			s.waitReachable("False ClusterUnreachable")
			for _, kind := range s.kinds {
				s.Expect(kind.calm.condition(remedyv1.ClusterReachableCondition)()).To(Equal("True ClusterReachable"))
				s.Expect(kind.prod.status()).To(HaveField("Undetermined", HaveValue(BeEquivalentTo(4))))
			}
			s.ReconcileAll()
			s.expectCreated("0")

			s.ChangeNode("n-3", func(n *corev1.Node) { n.Annotations = nil })
			// The connection is restored. The reconnect grace period gives the Nodes time to report.
			s.restoreConnection(mode)
			s.waitReachable("Unknown Reconnecting")
			s.ReconcileAll()
			s.ReconcileAll()
			s.expectCreated("0")

			// Then unhealthy targets are remediated one at a time, and no target that has recovered.
			s.Advance(time.Hour)
			s.waitReachable("True ClusterReachable")
			for _, kind := range s.kinds {
				s.WaitRequest(remediator.Example, kind.prod.s.name(kind.prefix+"3"))
				s.Eventually(kind.prod.decision(kind.prefix + "4")).Should(Equal("Blocked MaxInFlight"))
			}
			s.WaitIdle()
			s.expectCreated("0", "3")
		})
	}
}
