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
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/depth"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// TestConnections_ClustersComeAndGo_LeaveNothing adds and deletes clusters in batches and breaks their connections. What every batch left
// behind would be there as often as there were rounds. The test has the process for itself: it is not parallel.
func TestConnections_ClustersComeAndGo_LeaveNothing(t *testing.T) {
	s := stage.New(t, stage.WithProxy)
	s.CreateMachine("m-1")
	c := s.Start()
	const rounds, cuts = 10, 10
	batch := depth.Of(6, 20)
	// The first rounds fill what is filled once.
	for number := range 2 {
		comeAndGo(s, c, -1-number, batch, 1)
	}
	openSockets, connections := func() int { return sockets(s) }, func() int { return s.Proxy.Counts().Open }
	goroutinesBefore, socketsBefore, connectionsBefore := steady(s, runtime.NumGoroutine), steady(s, openSockets), steady(s, connections)
	for number := range rounds - 1 {
		comeAndGo(s, c, number, batch, 0)
	}
	comeAndGo(s, c, rounds-1, batch, cuts)
	// One that is left of each batch would be too many.
	s.Eventually(runtime.NumGoroutine).Should(BeNumerically("<", goroutinesBefore+rounds), "goroutines")
	s.Eventually(connections).Should(BeNumerically("<=", connectionsBefore+2), "connections to workload clusters")
	s.Eventually(openSockets).Should(BeNumerically("<=", socketsBefore+4), "sockets of this process")
	families, err := c.Metrics.Gather()
	s.Expect(err).ToNot(HaveOccurred())
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			s.Expect(metric.String()).ToNot(ContainSubstring("guest-"), family.GetName())
		}
	}
}

// comeAndGo makes clusters, each with a Machine and a check, waits until they are looked after, breaks their connections so many times, and
// takes everything away again.
func comeAndGo(s *stage.Stage, c *stage.Instance, number, batch, cuts int) {
	s.T.Helper()
	name := func(i int) string { return fmt.Sprintf("guest-%d-%d", number, i) }
	for i := range batch {
		s.CreateCluster(name(i))
		machineOf(s, name(i))
		s.CreateCheck(name(i), stage.OfPool(name(i)), func(spec *remedyv1.MachineHealthCheckSpec) { spec.ClusterName = name(i) })
	}
	looked := func() int {
		n := 0
		for _, check := range s.Checks() {
			if check.Status.CurrentHealthy != nil && *check.Status.CurrentHealthy == 1 {
				n++
			}
		}
		return n
	}
	s.Eventually(looked).Should(Equal(batch))
	for range cuts {
		s.Expect(s.Proxy.Set(faults.RefuseConnections)).To(Succeed())
		s.Eventually(func() int { return s.Proxy.Counts().Open }).Should(BeZero())
		s.Expect(s.Proxy.Set(faults.Pass)).To(Succeed())
		s.Eventually(func() int { return s.Proxy.Counts().Open }).Should(BeNumerically(">=", 1))
	}
	for i := range batch {
		at := metav1.ObjectMeta{Namespace: s.Namespace, Name: name(i)}
		for _, o := range []client.Object{
			&remedyv1.MachineHealthCheck{ObjectMeta: at}, &clusterv1.Machine{ObjectMeta: at}, &clusterv1.Cluster{ObjectMeta: at},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name(i) + "-kubeconfig"}},
		} {
			s.Expect(s.Admin.Delete(s.Ctx, o)).To(Succeed())
		}
	}
	for i := range batch {
		s.Eventually(func() bool { return c.Clusters.At(stage.Key(s.Namespace, name(i))).Connection(s.Ctx).Up }).Should(BeFalse())
		s.Eventually(func() bool {
			return apierrors.IsNotFound(c.Cache.Get(s.Ctx, stage.Key(s.Namespace, name(i)), &remedyv1.MachineHealthCheck{}))
		}).Should(BeTrue())
	}
}

// machineOf is the Machine of a cluster. All have the same Node.
func machineOf(s *stage.Stage, cluster string) {
	s.T.Helper()
	people := s.NewBulk()
	name := func(int) string { return cluster }
	people.Name, people.Pool, people.Cluster = name, name, name
	people.Node = func(int) string { return s.NodeName("m-1") }
	people.ProviderID = func(int) string { return "test:///" + s.Namespace + "/m-1" }
	people.Ready = func(int) corev1.ConditionStatus { return "" }
	people.Create(1)
}

// steady is a number when it does not change any more.
func steady(s *stage.Stage, number func() int) int {
	s.T.Helper()
	last := -1
	s.Eventually(func() bool {
		was := last
		last = number()
		return was == last
	}).WithPolling(time.Second).Should(BeTrue())
	return last
}

// sockets are those that this process has open, as the kernel says. Where it does not say, there are none.
func sockets(s *stage.Stage) int {
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
