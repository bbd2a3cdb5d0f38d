// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// holder reads the holder of the Lease of the Node n-3; empty without one.
func holder(s *stage.Stage) func() string {
	return func() string {
		lease := &coordinationv1.Lease{}
		err := s.Admin.Get(s.Ctx, workload.NodeLeaseKey(s.NodeName("n-3")), lease)
		s.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return workload.LeaseHolder(lease)
	}
}

// The Lease of a Node is held while there is a request for it, and renewed when half of its time is over.
func TestNodeLease_Request_HoldsAndReleasesIt(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithClock)
	node := createNodes(s)
	check := s.CreateNodeCheck("workers")
	s.Start()
	s.WaitRequest(remediator.FenceAgents, node.Name)
	lease := &coordinationv1.Lease{}
	s.Expect(s.Admin.Get(s.Ctx, workload.NodeLeaseKey(node.Name), lease)).To(Succeed())
	s.Expect(lease.Spec.HolderIdentity).To(HaveValue(Equal("NodeHealthCheck//" + check.Name)))
	s.Expect(lease.Spec.LeaseDurationSeconds).To(HaveValue(BeEquivalentTo(660)))
	s.Expect(lease.OwnerReferences).To(ConsistOf(HaveField("UID", node.UID)))
	decided(s, check, "n-3", Equal("Remediating "))

	renewed := func() time.Time {
		s.Expect(s.Admin.Get(s.Ctx, workload.NodeLeaseKey(node.Name), lease)).To(Succeed())
		return lease.Spec.RenewTime.Time
	}
	acquired := renewed()
	s.Advance(6 * time.Minute)
	s.Eventually(renewed).Should(BeTemporally(">", acquired))
	s.Expect(lease.Spec.AcquireTime.Time).To(BeTemporally("==", acquired))

	s.SetReady("n-3", corev1.ConditionTrue, 0)
	s.Eventually(s.NodeRequest(remediator.FenceAgents, "n-3")).Should(BeNil())
	s.Eventually(holder(s)).Should(BeEmpty())
}

// A Node whose Lease another component holds is not remediated until the Lease has expired.
func TestNodeLease_HeldByOther_BlocksUntilItExpires(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithClock)
	node := createNodes(s)
	key := workload.NodeLeaseKey(node.Name)
	s.Create(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, OwnerReferences: []metav1.OwnerReference{workload.NodeOwner(node.Name, "an earlier Node")},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("node-maintenance"), LeaseDurationSeconds: ptr.To[int32](3600),
			RenewTime: &metav1.MicroTime{Time: s.Clock.Now()},
		},
	})
	check := s.CreateNodeCheck("workers")
	c := s.Start()
	decided(s, check, "n-3", Equal("Blocked NodeLeaseHeld"))
	s.Expect(check.Status.UnhealthyTargets[0].Message).To(ContainSubstring("node-maintenance"))
	c.WaitIdle()
	s.Expect(s.Requests(remediator.FenceAgents)).To(BeEmpty())
	s.Expect(holder(s)()).To(Equal("node-maintenance"))

	// The clock of the holder may be behind.
	s.Advance(time.Hour + 50*time.Second)
	c.WaitIdle()
	s.Expect(holder(s)()).To(Equal("node-maintenance"))
	s.Advance(11 * time.Second)
	s.WaitRequest(remediator.FenceAgents, node.Name)
	s.Expect(holder(s)()).To(Equal("NodeHealthCheck//" + check.Name))
	lease := &coordinationv1.Lease{}
	s.Expect(s.Admin.Get(s.Ctx, key, lease)).To(Succeed())
	s.Expect(lease.Spec.LeaseTransitions).To(HaveValue(BeEquivalentTo(1)))
	s.Expect(lease.OwnerReferences).To(ConsistOf(HaveField("UID", node.UID)))
}

// While a remediator keeps the request of a Node that was deleted, the Lease is renewed. The garbage collector would delete it with its
// owner.
func TestNodeLease_NodeDeleted_HasNoOwner(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithClock)
	node, _, _ := remediating(s)
	s.Remediate(remediator.FenceAgents, remediator.Hangs)
	s.Expect(s.Admin.Delete(s.Ctx, node)).To(Succeed())
	s.Eventually(isDeleting(s, remediator.FenceAgents)).Should(BeTrue())
	s.Advance(6 * time.Minute)
	lease := &coordinationv1.Lease{}
	s.Eventually(func() []metav1.OwnerReference {
		s.Expect(s.Admin.Get(s.Ctx, workload.NodeLeaseKey(node.Name), lease)).To(Succeed())
		return lease.OwnerReferences
	}).WithTimeout(stage.OutcomeTimeout).Should(BeEmpty())
	s.SetRequestFinalizers(s.NodeRequest(remediator.FenceAgents, "n-3")())
	s.Eventually(holder(s)).Should(BeEmpty())
}

// Where the Leases cannot be read, no remediation starts, and the status has the cause.
func TestNodeLease_Unreadable_Blocks(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	restricted(s, "nodes")
	createNodes(s)
	check := s.CreateNodeCheck("workers", metal3(s))
	c := s.Start()
	decided(s, check, "n-3", Equal("Blocked PreflightFailed"))
	s.Expect(check.Status.UnhealthyTargets[0].Message).To(ContainSubstring("kubeconfig lacks"))
	c.WaitIdle()
	s.Expect(s.Requests(remediator.Metal3)).To(BeEmpty())
	s.Expect(s.Node("n-3").Annotations).ToNot(HaveKey(remedyv1.TriedAnnotation))
}
