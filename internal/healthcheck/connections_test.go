//go:build long

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/depth"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// TestConnections_ClustersComeAndGo_LeaveNothing creates and deletes clusters in batches and breaks their connections. A leak of one
// goroutine or socket a batch would exceed the limits. The test counts those of the process, so it is not parallel.
func TestConnections_ClustersComeAndGo_LeaveNothing(t *testing.T) {
	s := stage.New(t, stage.WithProxy)
	s.CreateMachine("m-1")
	s.ChangeNode("m-1", func(node *corev1.Node) { node.Labels = s.NodeLabels() })
	s.CreateNodeTemplate(remediator.Example, "soft")
	s.Expect(stage.Workload.InstallCRDObjects(remediator.FenceAgents.CRDs()...)).To(Succeed())
	s.Expect(s.Workload.Create(s.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}})).To(Succeed())
	template := remediator.FenceAgents.NewTemplate(s.Namespace, "reboot", map[string]any{"agent": "fence_ipmilan"})
	s.Expect(s.Workload.Create(s.Ctx, template)).To(Succeed())
	c := s.Start()
	rounds, cuts, batch := depth.Of(6, 10), depth.Of(5, 10), depth.Of(4, 20)
	// The first rounds fill caches and connection pools.
	for number := range 2 {
		createAndDeleteClusters(s, c, -1-number, batch, 1)
	}
	openSockets, connections := func() int { return countSockets(s) }, func() int { return s.Proxy.Counts().Open }
	goroutinesBefore, socketsBefore, connectionsBefore := waitSteady(
		s,
		runtime.NumGoroutine,
	), waitSteady(
		s,
		openSockets,
	), waitSteady(
		s,
		connections,
	)
	for number := range rounds - 1 {
		createAndDeleteClusters(s, c, number, batch, 0)
	}
	createAndDeleteClusters(s, c, rounds-1, batch, cuts)
	// One goroutine that is left of each batch is too many.
	s.Eventually(runtime.NumGoroutine).Should(BeNumerically("<", goroutinesBefore+rounds), "goroutines")
	s.Eventually(connections).Should(BeNumerically("<=", connectionsBefore+2), "connections to workload clusters")
	s.Eventually(openSockets).Should(BeNumerically("<=", socketsBefore+4), "sockets of this process")
	s.Eventually(func() []string {
		families, err := c.Metrics.Gather()
		s.Expect(err).ToNot(HaveOccurred())
		var left []string
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				if strings.Contains(metric.String(), "guest-") {
					left = append(left, family.GetName())
				}
			}
		}
		return left
	}).Should(BeEmpty(), "series of checks that no longer exist")
}

// createAndDeleteClusters creates clusters, each with a Machine and a check of each kind. Every second NodeHealthCheck has its template and
// requests in the workload cluster. It waits until the checks have evaluated them, breaks their connections so many times, and deletes all.
func createAndDeleteClusters(s *stage.Stage, c *stage.Instance, number, batch, cuts int) {
	s.T.Helper()
	name := func(i int) string { return fmt.Sprintf("guest-%d-%d", number, i) }
	for i := range batch {
		s.CreateCluster(name(i))
		createMachineOf(s, name(i))
		s.CreateCheck(name(i), stage.OfPool(name(i)), func(spec *remedyv1.MachineHealthCheckSpec) { spec.ClusterName = name(i) })
		s.CreateNodeCheck(name(i), func(spec *remedyv1.NodeHealthCheckSpec) {
			spec.ClusterRef.Name, spec.RemediationTemplate = name(i), stage.NodeTemplateReference(s, remediator.Example, "soft")
			if i%2 == 1 {
				spec.TemplateLocation = remedyv1.WorkloadLocation
				spec.RemediationTemplate = stage.NodeTemplateReference(s, remediator.FenceAgents, "reboot")
			}
		})
	}
	monitored := func() int {
		n := 0
		for _, check := range s.Checks() {
			n += int(ptr.Deref(check.Status.CurrentHealthy, 0))
		}
		for _, check := range s.NodeChecks() {
			n += int(ptr.Deref(check.Status.HealthyNodes, 0))
		}
		return n
	}
	s.Eventually(monitored).Should(Equal(2 * batch))
	for range cuts {
		s.Expect(s.Proxy.Set(faults.RefuseConnections)).To(Succeed())
		s.Eventually(func() int { return s.Proxy.Counts().Open }).Should(BeZero())
		s.Expect(s.Proxy.Set(faults.Pass)).To(Succeed())
		s.Eventually(func() int { return s.Proxy.Counts().Open }).Should(BeNumerically(">=", 1))
	}
	for i := range batch {
		at := metav1.ObjectMeta{Namespace: s.Namespace, Name: name(i)}
		for _, o := range []client.Object{
			&remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace + "-" + name(i)}},
			&remedyv1.MachineHealthCheck{ObjectMeta: at}, &clusterv1.Machine{ObjectMeta: at}, &clusterv1.Cluster{ObjectMeta: at},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name(i) + "-kubeconfig"}},
		} {
			s.Expect(s.Admin.Delete(s.Ctx, o)).To(Succeed())
		}
	}
	for i := range batch {
		s.Eventually(func() bool { return c.Clusters.Get(stage.Key(s.Namespace, name(i))).Connection(s.Ctx).Up }).Should(BeFalse())
		s.Eventually(func() bool {
			return apierrors.IsNotFound(c.Cache.Get(s.Ctx, stage.Key(s.Namespace, name(i)), &remedyv1.MachineHealthCheck{})) &&
				apierrors.IsNotFound(c.Cache.Get(s.Ctx, stage.Key("", s.Namespace+"-"+name(i)), &remedyv1.NodeHealthCheck{}))
		}).Should(BeTrue())
	}
}

// createMachineOf creates the Machine of a cluster. All Machines have the same Node.
func createMachineOf(s *stage.Stage, cluster string) {
	s.T.Helper()
	bulk := s.NewBulk()
	name := func(int) string { return cluster }
	bulk.Name, bulk.Pool, bulk.Cluster = name, name, name
	bulk.Node = func(int) string { return s.NodeName("m-1") }
	bulk.ProviderID = func(int) string { return "test:///" + s.Namespace + "/m-1" }
	bulk.Ready = func(int) corev1.ConditionStatus { return "" }
	bulk.Create(1)
}

// waitSteady waits until a number does not change any more, and returns it.
func waitSteady(s *stage.Stage, number func() int) int {
	s.T.Helper()
	last := -1
	s.Eventually(func() bool {
		was := last
		last = number()
		return was == last
	}).WithPolling(time.Second).Should(BeTrue())
	return last
}

// countSockets returns how many sockets this process has open, and 0 on a system without /proc.
func countSockets(s *stage.Stage) int {
	s.T.Helper()
	files, err := filepath.Glob("/proc/self/fd/*")
	s.Expect(err).ToNot(HaveOccurred())
	n := 0
	for _, file := range files {
		if target, _ := os.Readlink(file); strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n
}
