// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// createdRequests is how many requests the instances have created.
func createdRequests(instances ...*stage.Instance) (n int) {
	for _, c := range instances {
		for _, w := range c.AllWrites() {
			if w.Verb == "create" && w.Resource == remediator.FenceAgents.Plural && w.Landed() {
				n++
			}
		}
	}
	return n
}

// Two of five writes in both clusters fail. The first attempt fails, the second one is stopped after the Node has recovered, and each
// has one request.
func TestWorkloadLocation_RandomErrors_Completes(t *testing.T) {
	t.Parallel()
	failed := &atomic.Int64{}
	t.Cleanup(func() {
		NewWithT(t).Expect(failed.Load()).To(BeNumerically(">", 0), "a write in the workload cluster has failed")
	})
	for seed := uint64(1); seed <= 3; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			s := stage.New(t, stage.WithWorkloadWrites)
			createNodes(s)
			second := stage.Duration(time.Second)
			check := s.CreateNodeCheck("workers", inWorkload(s), func(spec *remedyv1.NodeHealthCheckSpec) { spec.Backoff.Initial = &second })
			c := s.Start()
			c.NeverIdle = true
			c.Trouble(faults.Trouble{Seed: seed, Names: []string{s.Namespace}, Chance: 0.4})
			request := requestInWorkload(s)
			// A failed write is retried with backoff, or at the next event.
			attempt := func() string {
				s.Wake()
				remediateBesideNodes(s, remediator.FenceAgents, remediator.Hangs)
				return attemptOf(request())
			}
			s.Eventually(attempt).Should(Equal("1"))
			remediateBesideNodes(s, remediator.FenceAgents, remediator.Fails)
			s.Eventually(attempt).Should(Equal("2"))
			s.SetReady("n-3", corev1.ConditionTrue, 0)
			s.Eventually(attempt).Should(BeEmpty())
			s.Eventually(func() map[string]string {
				s.Wake()
				return s.Node("n-3").Annotations
			}).ShouldNot(HaveKey(HavePrefix(remedyv1.Prefix)))
			s.Eventually(func() []string {
				s.Wake()
				return stage.Get(s, check)().Finalizers
			}).Should(BeEmpty())
			s.Expect(createdRequests(c)).To(Equal(2))
			for _, w := range c.AllWrites() {
				if w.Cluster == "workload" && w.Fault != "" {
					failed.Add(1)
				}
			}
			c.Trouble(faults.Trouble{})
			s.Eventually(func() []int32 {
				s.Wake()
				return status(stage.Get(s, check)())
			}).Should(Equal([]int32{3, 3, 0}))
		})
	}
}

// Two managers lead. The first one has decided to create the request, and the second one creates it before.
func TestWorkloadLocation_TwoLeaders_CreateOnce(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithWorkloadWrites)
	createNodes(s)
	check := s.CreateNodeCheck("workers", inWorkload(s))
	reached, released, blocked := make(chan struct{}), make(chan struct{}), &atomic.Bool{}
	release := sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	s.AnswerWorkload(func(r *http.Request) *http.Response {
		creates := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/"+remediator.FenceAgents.Plural)
		if creates && blocked.CompareAndSwap(false, true) {
			close(reached)
			<-released
		}
		return nil
	})
	first := s.Start()
	first.NeverIdle = true
	s.Eventually(reached).Should(BeClosed())
	second := s.Start()
	second.NeverIdle = true
	request := requestInWorkload(s)
	s.Eventually(request).ShouldNot(BeNil())
	created := request()
	release()
	first.ReconcileAll()
	second.ReconcileAll()
	decided(s, check, "n-3", Equal("Remediating "))
	s.Expect(request().GetUID()).To(Equal(created.GetUID()))
	s.Expect(createdRequests(first, second)).To(Equal(1))

	s.SetReady("n-3", corev1.ConditionTrue, 0)
	s.Eventually(request).Should(BeNil())
	s.Eventually(stage.Get(s, check)).Should(And(HaveField("Finalizers", BeEmpty()), WithTransform(status, Equal([]int32{3, 3, 0}))))
	s.Expect(createdRequests(first, second)).To(Equal(1))
}

// The kubeconfig leads to another cluster, which does not have the requests. They are not taken for requests that no longer exist.
func TestWorkloadLocation_OtherCluster_FinalizerStays(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	for _, name := range []string{"n-1", "n-2", "n-3"} {
		s.CreateMachine(name)
	}
	ownNodes(s, "n-1", "n-2", "n-3")
	s.FailNode("n-3")
	check := s.CreateNodeCheck("workers", inWorkload(s))
	c := s.Start()
	c.NeverIdle = true
	s.Eventually(requestInWorkload(s)).ShouldNot(BeNil())
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.InFlightRemediations", HaveLen(1)))
	c.Stop()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "prod-kubeconfig"}}
	s.Change(secret, func() { secret.Data["value"] = s.Kubeconfig(stage.Management.Admin) })
	restarted := s.Start()
	restarted.NeverIdle = true
	s.Eventually(stage.Get(s, check)).Should(WithTransform(
		stage.OfNodes(stage.CheckCondition(remedyv1.ClusterReachableCondition)), Equal("False WrongCluster")))
	restarted.ReconcileAll()
	stage.Get(s, check)()
	s.Expect(check.Finalizers).To(ConsistOf(remedyv1.CleanupFinalizer))
	s.Expect(check.Status.InFlightRemediations).To(HaveLen(1))
}
