//go:build long

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

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
)

// TestConnections_ClustersComeAndGo_LeaveNothing adds and deletes clusters in batches and breaks their connections. What every batch left behind would
// be there as often as there were rounds. The test has the process for itself: it is not parallel.
func TestConnections_ClustersComeAndGo_LeaveNothing(t *testing.T) {
	s := newStage(t, withProxy)
	s.machine("m-1")
	c := s.start()
	const rounds, cuts = 10, 10
	batch := depth.Of(6, 20)
	// The first rounds fill what is filled once.
	for number := range 2 {
		s.comeAndGo(c, -1-number, batch, 1)
	}
	goroutines, sockets, links := steady(s, runtime.NumGoroutine), steady(s, s.sockets), steady(s, s.links)
	for number := range rounds - 1 {
		s.comeAndGo(c, number, batch, 0)
	}
	s.comeAndGo(c, rounds-1, batch, cuts)
	// One that is left of each batch would be too many.
	s.Eventually(runtime.NumGoroutine).Should(BeNumerically("<", goroutines+rounds), "goroutines")
	s.Eventually(s.links).Should(BeNumerically("<=", links+2), "connections to workload clusters")
	s.Eventually(s.sockets).Should(BeNumerically("<=", sockets+4), "sockets of this process")
	families, err := c.gatherer.Gather()
	s.Expect(err).ToNot(HaveOccurred())
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			s.Expect(metric.String()).ToNot(ContainSubstring("guest-"), family.GetName())
		}
	}
}

// comeAndGo makes clusters, each with a Machine and a check, waits until they are looked after, breaks their connections so many times, and
// takes everything away again.
func (s *stage) comeAndGo(c *controller, number, batch, cuts int) {
	s.t.Helper()
	name := func(i int) string { return fmt.Sprintf("guest-%d-%d", number, i) }
	for i := range batch {
		s.makeCluster(name(i))
		s.machineOf(name(i))
		s.check(name(i), ofPool(name(i)), func(spec *remedyv1.MachineHealthCheckSpec) { spec.ClusterName = name(i) })
	}
	looked := func() int {
		n := 0
		for _, check := range s.checks() {
			if check.Status.CurrentHealthy != nil && *check.Status.CurrentHealthy == 1 {
				n++
			}
		}
		return n
	}
	s.Eventually(looked).Should(Equal(batch))
	for range cuts {
		s.Expect(s.proxy.Set(faults.RefuseConnections)).To(Succeed())
		s.Eventually(s.links).Should(BeZero())
		s.Expect(s.proxy.Set(faults.Pass)).To(Succeed())
		s.Eventually(s.links).Should(BeNumerically(">=", 1))
	}
	for i := range batch {
		at := metav1.ObjectMeta{Namespace: s.namespace, Name: name(i)}
		for _, o := range []client.Object{
			&remedyv1.MachineHealthCheck{ObjectMeta: at}, &clusterv1.Machine{ObjectMeta: at}, &clusterv1.Cluster{ObjectMeta: at},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name(i) + "-kubeconfig"}},
		} {
			s.Expect(s.admin.Delete(s.ctx, o)).To(Succeed())
		}
	}
	for i := range batch {
		s.Eventually(func() bool { return c.clusters.At(keyOf(s.namespace, name(i))).Connection(s.ctx).Up }).Should(BeFalse())
		s.Eventually(func() bool {
			return apierrors.IsNotFound(c.cache.Get(s.ctx, keyOf(s.namespace, name(i)), &remedyv1.MachineHealthCheck{}))
		}).Should(BeTrue())
	}
}

// machineOf is the Machine of a cluster. All have the same Node.
func (s *stage) machineOf(cluster string) {
	s.t.Helper()
	people := s.newCrowd()
	people.name, people.pool, people.cluster = func(int) string { return cluster }, func(int) string { return cluster }, func(int) string { return cluster }
	people.node = func(int) string { return s.node("m-1") }
	people.id = func(int) string { return "test:///" + s.namespace + "/m-1" }
	people.ready = func(int) corev1.ConditionStatus { return "" }
	people.come(1)
}

// steady is a number when it does not change any more.
func steady(s *stage, number func() int) int {
	s.t.Helper()
	last := -1
	s.Eventually(func() bool {
		was := last
		last = number()
		return was == last
	}).WithPolling(time.Second).Should(BeTrue())
	return last
}

// links are the connections to workload clusters.
func (s *stage) links() int { return s.proxy.Counts().Open }

// sockets are those that this process has open, as the kernel says. Where it does not say, there are none.
func (s *stage) sockets() int {
	s.t.Helper()
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
