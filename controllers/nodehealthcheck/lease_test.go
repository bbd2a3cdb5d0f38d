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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/nodehealthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// location is where the Nodes of a check and its requests are.
type location struct {
	*stage.Stage
	kind remediator.Kind
	// change is the change of a check; nil for none.
	change func(*stage.Stage) func(*remedyv1.NodeHealthCheckSpec)
	// ofNodes and ofRequests are clients of the clusters that have the Nodes and the requests.
	ofNodes, ofRequests client.Client
}

// forEachLocation runs a test for the own cluster, and for a workload cluster with the requests in each of the two clusters. Each has the
// namespace of the Leases.
func forEachLocation(t *testing.T, test func(l *location)) {
	t.Helper()
	for name, begin := range map[string]func(t *testing.T) *location{
		"own cluster": func(t *testing.T) *location {
			t.Helper()
			s := stage.New(t, stage.WithClock, stage.WithAllNamespaces)
			return &location{Stage: s, kind: remediator.FenceAgents, ofNodes: s.Admin, ofRequests: s.Admin}
		},
		"workload cluster": func(t *testing.T) *location {
			t.Helper()
			s := stage.New(t, stage.WithClock)
			return &location{Stage: s, kind: remediator.Example, change: rebooting, ofNodes: s.Workload, ofRequests: s.Admin}
		},
		"workload cluster, requests next to the Nodes": func(t *testing.T) *location {
			t.Helper()
			s := stage.New(t, stage.WithClock)
			return &location{Stage: s, kind: remediator.FenceAgents, change: inWorkload, ofNodes: s.Workload, ofRequests: s.Workload}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := begin(t)
			createLeaseNamespace(l.Stage, l.ofNodes)
			test(l)
		})
	}
}

// createLeaseNamespace creates the namespace of the Leases, as an operator of medik8s does. The tests of the package share it.
func createLeaseNamespace(s *stage.Stage, api client.Client) {
	s.T.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: workload.NodeLeaseKey("").Namespace}}
	s.Expect(client.IgnoreAlreadyExists(api.Create(s.Ctx, namespace))).To(Succeed())
}

// createCheck creates a check of the location.
func (l *location) createCheck() *remedyv1.NodeHealthCheck {
	l.T.Helper()
	if l.change == nil {
		return l.CreateNodeCheck("workers")
	}
	return l.CreateNodeCheck("workers", l.change(l.Stage))
}

// start runs the reconcilers. In a workload cluster, requests are read again all the time.
func (l *location) start() *stage.Instance {
	l.T.Helper()
	c := l.Start()
	c.NeverIdle = l.ofRequests == l.Workload
	return c
}

// request reads the request for the Node n-3; nil without one. Nothing else wakes the check if the request is in a workload cluster.
func (l *location) request() *unstructured.Unstructured {
	l.Wake()
	request := l.kind.NewRequest(l.Namespace, l.NodeName("n-3"))
	if err := l.ofRequests.Get(l.Ctx, client.ObjectKeyFromObject(request), request); err != nil {
		l.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return nil
	}
	return request
}

// setFinalizers sets the finalizers of the request for the Node n-3.
func (l *location) setFinalizers(finalizers ...string) {
	l.T.Helper()
	request := l.request()
	before := client.MergeFrom(request.DeepCopy())
	request.SetFinalizers(finalizers)
	l.Expect(l.ofRequests.Patch(l.Ctx, request, before)).To(Succeed())
}

// lease reads the Lease of the Node n-3; empty without one.
func (l *location) lease() *coordinationv1.Lease {
	lease := &coordinationv1.Lease{}
	err := l.ofNodes.Get(l.Ctx, workload.NodeLeaseKey(l.NodeName("n-3")), lease)
	l.Expect(client.IgnoreNotFound(err)).To(Succeed())
	return lease
}

func (l *location) holder() string { return workload.LeaseHolder(l.lease()) }

// otherHolder is the Lease of the Node n-3 as another component holds it for an hour.
func (l *location) otherHolder(lease *coordinationv1.Lease) *coordinationv1.Lease {
	key := workload.NodeLeaseKey(l.NodeName("n-3"))
	lease.Namespace, lease.Name = key.Namespace, key.Name
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("node-maintenance"), LeaseDurationSeconds: ptr.To[int32](3600),
		RenewTime: &metav1.MicroTime{Time: l.Clock.Now()},
	}
	return lease
}

// holder reads the holder of the Lease of the Node n-3 of the own cluster; empty without one.
func holder(s *stage.Stage) func() string { return (&location{Stage: s, ofNodes: s.Admin}).holder }

// The Lease of a Node is held while there is a request for it, and renewed when half of its time is over.
func TestNodeLease_Request_HoldsAndReleasesIt(t *testing.T) {
	t.Parallel()
	forEachLocation(t, func(l *location) {
		node := createNodes(l.Stage)
		check := l.createCheck()
		l.start()
		l.Eventually(l.request).ShouldNot(BeNil())
		lease := l.lease()
		l.Expect(lease.Spec.HolderIdentity).To(HaveValue(Equal(nodehealthcheck.CheckOf(check).LeaseHolder())))
		l.Expect(lease.Spec.LeaseDurationSeconds).To(HaveValue(BeEquivalentTo(660)))
		l.Expect(lease.OwnerReferences).To(ConsistOf(HaveField("UID", node.UID)))
		decided(l.Stage, check, "n-3", Equal("Remediating "))

		l.Advance(6 * time.Minute)
		l.Eventually(func() time.Time { return l.lease().Spec.RenewTime.Time }).Should(BeTemporally(">", lease.Spec.RenewTime.Time))
		l.Expect(l.lease().Spec.AcquireTime.Time).To(BeTemporally("==", lease.Spec.AcquireTime.Time))

		l.SetReady("n-3", corev1.ConditionTrue, 0)
		l.Eventually(l.request).Should(BeNil())
		l.Eventually(func() string {
			l.Wake()
			return l.holder()
		}).Should(BeEmpty())
	})
}

// A Node whose Lease another component holds is not remediated until the Lease has expired.
func TestNodeLease_HeldByOther_BlocksUntilItExpires(t *testing.T) {
	t.Parallel()
	forEachLocation(t, func(l *location) {
		node := createNodes(l.Stage)
		held := l.otherHolder(&coordinationv1.Lease{})
		held.OwnerReferences = []metav1.OwnerReference{workload.NodeOwner(node.Name, "an earlier Node")}
		l.Expect(l.ofNodes.Create(l.Ctx, held)).To(Succeed())
		check := l.createCheck()
		c := l.start()
		decided(l.Stage, check, "n-3", Equal("Blocked NodeLeaseHeld"))
		l.Expect(check.Status.UnhealthyTargets[0].Message).To(ContainSubstring("node-maintenance"))
		c.WaitIdle()
		l.Expect(l.request()).To(BeNil())
		l.Expect(l.holder()).To(Equal("node-maintenance"))

		// The clock of the holder may be behind.
		l.Advance(time.Hour + 50*time.Second)
		c.WaitIdle()
		l.Expect(l.holder()).To(Equal("node-maintenance"))
		l.Advance(11 * time.Second)
		l.Eventually(l.request).ShouldNot(BeNil())
		l.Expect(l.holder()).To(Equal(nodehealthcheck.CheckOf(check).LeaseHolder()))
		l.Expect(l.lease().Spec.LeaseTransitions).To(HaveValue(BeEquivalentTo(1)))
		l.Expect(l.lease().OwnerReferences).To(ConsistOf(HaveField("UID", node.UID)))
	})
}

// Another component that takes the Lease during a remediation keeps it. The request goes on, and its end does not release the Lease.
func TestNodeLease_TakenByOther_IsLeftAlone(t *testing.T) {
	t.Parallel()
	forEachLocation(t, func(l *location) {
		createNodes(l.Stage)
		check := l.createCheck()
		c := l.start()
		l.Eventually(l.request).ShouldNot(BeNil())
		decided(l.Stage, check, "n-3", Equal("Remediating "))
		lease := l.lease()
		l.Expect(l.ofNodes.Update(l.Ctx, l.otherHolder(lease))).To(Succeed())
		// It is not acquired again when it expires.
		for range 4 {
			l.Advance(20 * time.Minute)
			c.ReconcileAll()
		}
		l.Expect(l.lease().ResourceVersion).To(Equal(lease.ResourceVersion))
		l.Expect(l.request().GetDeletionTimestamp()).To(BeNil())

		l.SetReady("n-3", corev1.ConditionTrue, 0)
		l.Eventually(l.request).Should(BeNil())
		l.Eventually(stage.Get(l.Stage, check)).Should(HaveField("Finalizers", BeEmpty()))
		c.ReconcileAll()
		l.Expect(l.lease().ResourceVersion).To(Equal(lease.ResourceVersion))
	})
}

// While a remediator keeps the request of a Node that was deleted, the Lease is renewed. The garbage collector would delete it with its
// owner.
func TestNodeLease_NodeDeleted_HasNoOwner(t *testing.T) {
	t.Parallel()
	forEachLocation(t, func(l *location) {
		node := createNodes(l.Stage)
		check := l.createCheck()
		l.start()
		l.Eventually(l.request).ShouldNot(BeNil())
		decided(l.Stage, check, "n-3", Equal("Remediating "))
		l.setFinalizers("example.com/keep")
		l.Expect(l.ofNodes.Delete(l.Ctx, node)).To(Succeed())
		l.Eventually(func() *metav1.Time { return l.request().GetDeletionTimestamp() }).ShouldNot(BeNil())
		l.Advance(6 * time.Minute)
		l.Eventually(func() []metav1.OwnerReference {
			l.Expect(l.holder()).ToNot(BeEmpty())
			return l.lease().OwnerReferences
		}).WithTimeout(stage.OutcomeTimeout).Should(BeEmpty())
		l.setFinalizers()
		l.Eventually(func() string {
			l.Wake()
			return l.holder()
		}).Should(BeEmpty())
	})
}

// Where the Leases cannot be read, no remediation starts, and the status has the cause.
func TestNodeLease_Unreadable_Blocks(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	restricted(s, "nodes")
	createNodes(s)
	check := s.CreateNodeCheck("workers", rebooting(s))
	c := s.Start()
	decided(s, check, "n-3", Equal("Blocked PreflightFailed"))
	s.Eventually(stage.Get(s, check)).Should(reportsMessage("kubeconfig lacks"))
	c.WaitIdle()
	s.Expect(s.Requests(remediator.Example)).To(BeEmpty())
	s.Expect(s.Node("n-3").Annotations).ToNot(HaveKey(remedyv1.TriedAnnotation))
}

// A remediator that writes nothing is reported. The Lease of the Node ends after a day, because its step has no timeout.
func TestNodeLease_RemediatorDoesNothing_Ends(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock, stage.WithAllNamespaces)
	l := &location{Stage: s, kind: remediator.FenceAgents, ofNodes: s.Admin, ofRequests: s.Admin}
	createLeaseNamespace(s, s.Admin)
	createNodes(s)
	check := l.createCheck()
	l.start()
	l.Eventually(l.request).ShouldNot(BeNil())
	decided(s, check, "n-3", Equal("Remediating "))
	ready := func() string {
		return stage.OfNodes(stage.CheckCondition(remedyv1.ReadyCondition))(stage.Get(s, check)())
	}
	s.Expect(ready()).To(Equal("True Ready"))
	s.Advance(11 * time.Minute)
	s.Eventually(ready).Should(Equal("False RemediatorNotActing"))

	request := l.request()
	s.ChangeStatus(request, func() {
		s.Expect(unstructured.SetNestedField(request.Object, "Node is not capable to reboot itself", "status", "lastError")).To(Succeed())
	})
	s.Eventually(ready).Should(Equal("True Ready"))
	s.Eventually(stage.Get(s, check)).Should(reportsMessage("it reports: Node is not capable to reboot itself"))

	s.Advance(24 * time.Hour)
	s.Eventually(l.holder).Should(BeEmpty())
	s.Eventually(stage.Get(s, check)).Should(reportsMessage("The Lease of the Node ended at "))
	s.Advance(time.Hour)
	s.Expect(l.request().GetDeletionTimestamp()).To(BeNil())
	s.Consistently(l.holder, time.Second).Should(BeEmpty())
}
