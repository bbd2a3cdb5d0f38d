// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// recoverMachine completes the request of a Machine: its remediator succeeds and its Node is ready.
func recoverMachine(s *stage.Stage, name string) {
	s.T.Helper()
	s.Remediate(remediator.Metal3, remediator.Succeeds)
	s.SetReady(name, corev1.ConditionTrue, 0)
	s.Eventually(func() any {
		s.Remediate(remediator.Metal3, remediator.Succeeds)
		return s.Request(remediator.Metal3, name)()
	}).Should(BeNil())
}

// requestWrites returns the writes that created and deleted requests, in order. A repeated deletion counts once: the cache of the instance
// did not show the first one yet.
func requestWrites(c *stage.Instance) []string {
	var all []string
	deleted := map[string]bool{}
	for _, w := range c.Writes() {
		ofRequest := w.Resource == remediator.Metal3.Plural || w.Resource == remediator.FenceAgents.Plural
		if !ofRequest || w.Verb != "create" && w.Verb != "delete" || !w.Landed() {
			continue
		}
		if deletes := w.Verb == "delete"; !deletes || !deleted[w.Name] {
			all = append(all, w.Verb+" "+w.Name)
			deleted[w.Name] = deletes
		}
	}
	return all
}

// A Machine loses its labels while it is remediated. Until its request no longer exists, no other member is remediated.
func TestControlPlane_LabelRemoved_StaysBusy(t *testing.T) {
	t.Parallel()
	stage.LockControlPlane(t)
	s := stage.New(t)
	first := s.CreateControlPlane(5)[0]
	s.FailNode("cp-1")
	check := s.CreateCheck("control", stage.OfPool("control"), stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft")))
	s.Start()
	s.WaitRequest(remediator.Metal3, "cp-1")
	s.SetRequestFinalizers(s.Request(remediator.Metal3, "cp-1")(), "example.com/wait")
	s.Change(first, func() { first.Labels = map[string]string{clusterv1.ClusterNameLabel: first.Spec.ClusterName} })
	s.Eventually(func() any { return s.Request(remediator.Metal3, "cp-1")().GetDeletionTimestamp() }).ShouldNot(BeNil())
	s.FailNode("cp-2")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("cp-2"), Equal("Blocked ControlPlaneBusy")))
	s.SetRequestFinalizers(s.Request(remediator.Metal3, "cp-1")())
	s.WaitRequest(remediator.Metal3, "cp-2")
}

// createCheckPerMember creates five members of the control plane, and the checks check-1 of cp-1 and check-2 of cp-2.
func createCheckPerMember(s *stage.Stage) []*remedyv1.MachineHealthCheck {
	s.T.Helper()
	members, checks := s.CreateControlPlane(5), make([]*remedyv1.MachineHealthCheck, 0, 2)
	template := stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft"))
	for i, n := range []string{"1", "2"} {
		s.Change(members[i], func() { members[i].Labels["pool"] = "pool-" + n })
		checks = append(checks, s.CreateCheck("check-"+n, stage.OfPool("pool-"+n), template))
	}
	return checks
}

// Two checks have one Machine of the control plane each. With stale caches, only the Lease keeps them from remediating both at the same
// time.
func TestControlPlane_TwoChecks_OneAtATime(t *testing.T) {
	t.Parallel()
	for name, staleCache := range map[string]bool{"current caches": false, "stale caches": true} {
		t.Run(name, func(t *testing.T) {
			stage.LockControlPlane(t)
			s := stage.New(t, stage.WithWorkers)
			checks := createCheckPerMember(s)
			c := s.Start()
			c.WaitIdle()
			if staleCache {
				c.Watches().Hold("metal3remediations.infrastructure.cluster.x-k8s.io", "machines.cluster.x-k8s.io")
			}
			s.FailNode("cp-1")
			s.FailNode("cp-2")
			s.Eventually(func() int { return len(s.Requests(remediator.Metal3)) }).Should(Equal(1), func() string { return describe(s) })
			c.ReconcileAll()
			c.ReconcileAll()
			first := s.Requests(remediator.Metal3)[0].GetName()
			s.Expect(requestWrites(c)).To(Equal([]string{"create " + first}))
			second := map[string]string{"cp-1": "cp-2", "cp-2": "cp-1"}[first]
			waiting := map[string]*remedyv1.MachineHealthCheck{"cp-1": checks[0], "cp-2": checks[1]}[second]
			s.Eventually(stage.Get(s, waiting)).Should(WithTransform(stage.Decision(second), Equal("Blocked ControlPlaneBusy")))
			s.Expect(s.ControlPlaneLeaseHolder()).To(Equal("MachineHealthCheck/" + s.Namespace + "/check-" + first[3:]))

			c.Watches().Release()
			recoverMachine(s, first)
			s.Eventually(func() any {
				s.Wake()
				return s.Request(remediator.Metal3, second)()
			}).ShouldNot(BeNil())
			recoverMachine(s, second)
			s.Eventually(s.ControlPlaneLeaseHolder).Should(BeEmpty())
			c.WaitIdle()
			s.Expect(requestWrites(c)).To(Equal([]string{"create " + first, "delete " + first, "create " + second, "delete " + second}))
		})
	}
}

// No instance watches the Lease, which is in the workload cluster. The check that releases it wakes the check that waits.
func TestControlPlane_LeaseReleased_WakesTheWaitingCheck(t *testing.T) {
	t.Parallel()
	stage.LockControlPlane(t)
	s := stage.New(t, stage.WithClock)
	checks := createCheckPerMember(s)
	s.Start()
	s.FailNode("cp-1")
	s.WaitRequest(remediator.Metal3, "cp-1")
	s.FailNode("cp-2")
	s.Eventually(stage.Get(s, checks[1])).Should(WithTransform(stage.Decision("cp-2"), Equal("Blocked ControlPlaneBusy")))
	// The request is deleted, and the paused check keeps the Lease.
	s.Annotate(checks[0], clusterv1.PausedAnnotation, "yes")
	s.WaitCheckCondition(checks[0], remedyv1.PausedCondition, "True Paused")
	s.SetReady("cp-1", corev1.ConditionTrue, 0)
	s.Expect(s.Admin.Delete(s.Ctx, s.Request(remediator.Metal3, "cp-1")())).To(Succeed())
	s.Eventually(stage.Get(s, checks[1])).Should(WithTransform(messageOfTarget("cp-2"), ContainSubstring("check-1")))
	s.Expect(s.Requests(remediator.Metal3)).To(BeEmpty())
	// The first check releases the Lease. Nothing else wakes the second check, and its clock does not run.
	s.Annotate(checks[0], clusterv1.PausedAnnotation, "")
	s.WaitRequest(remediator.Metal3, "cp-2")
	recoverMachine(s, "cp-2")
	s.Eventually(s.ControlPlaneLeaseHolder).Should(BeEmpty())
}

// The Lease is held as long as the request exists, however long the remediation of a template without a timeout takes.
func TestControlPlane_LongRemediation_LeaseIsRenewed(t *testing.T) {
	t.Parallel()
	stage.LockControlPlane(t)
	s := stage.New(t, stage.WithClock)
	s.CreateControlPlane(5)
	s.FailNode("cp-1")
	s.CreateCheck("control", stage.OfPool("control"), stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft")))
	s.Start()
	s.WaitRequest(remediator.Metal3, "cp-1")
	lease := &coordinationv1.Lease{}
	renewed := func() time.Time {
		s.Expect(s.Workload.Get(s.Ctx, workload.ControlPlaneLease, lease)).To(Succeed())
		return lease.Spec.RenewTime.Time
	}
	acquired := renewed()
	s.Advance(6 * time.Minute)
	s.Eventually(renewed).Should(BeTemporally(">", acquired))
	s.Expect(lease.Spec.AcquireTime.Time).To(BeTemporally("==", acquired))
	recoverMachine(s, "cp-1")
	s.Eventually(s.ControlPlaneLeaseHolder).Should(BeEmpty())
}

// A paused check renews no Lease. Its request shows that the remediation is still running, also to a check that does not select it.
func TestControlPlane_LeaseExpired_RequestOfOtherCheckBlocks(t *testing.T) {
	t.Parallel()
	stage.LockControlPlane(t)
	s := stage.New(t, stage.WithClock)
	checks := createCheckPerMember(s)
	c := s.Start()
	s.FailNode("cp-1")
	s.WaitRequest(remediator.Metal3, "cp-1")
	s.Annotate(checks[0], clusterv1.PausedAnnotation, "yes")
	s.WaitCheckCondition(checks[0], remedyv1.PausedCondition, "True Paused")
	s.Advance(12 * time.Minute)
	s.FailNode("cp-2")
	s.Eventually(stage.Get(s, checks[1])).Should(WithTransform(stage.Decision("cp-2"), Equal("Blocked ControlPlaneBusy")))
	s.Expect(messageOfTarget("cp-2")(checks[1])).To(ContainSubstring("cp-1"))
	c.ReconcileAll()
	s.Expect(requestWrites(c)).To(Equal([]string{"create cp-1"}))
	s.Annotate(checks[0], clusterv1.PausedAnnotation, "")
	recoverMachine(s, "cp-1")
	s.WaitRequest(remediator.Metal3, "cp-2")
	recoverMachine(s, "cp-2")
	s.Eventually(s.ControlPlaneLeaseHolder).Should(BeEmpty())
}

// A check of another management cluster can hold the Lease. Nothing but its expiry shows that this check has stopped.
func TestControlPlane_LeaseOfOtherCluster_BlocksUntilItExpires(t *testing.T) {
	t.Parallel()
	stage.LockControlPlane(t)
	s := stage.New(t, stage.WithClock)
	s.CreateControlPlane(3)
	s.FailNode("cp-1")
	s.Expect(s.Workload.Create(s.Ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "remedy-control-plane"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(
				"MachineHealthCheck/far/away",
			), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: &metav1.MicroTime{Time: s.Clock.Now()},
		},
	})).To(Succeed())
	check := s.CreateCheck("control", stage.OfPool("control"), stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft")))
	c := s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("cp-1"), Equal("Blocked ControlPlaneBusy")))
	c.WaitIdle()
	s.Advance(59 * time.Minute)
	c.WaitIdle()
	s.Expect(s.Requests(remediator.Metal3)).To(BeEmpty())
	s.Expect(s.ControlPlaneLeaseHolder()).To(Equal("MachineHealthCheck/far/away"))
	s.Advance(time.Minute + time.Second)
	s.WaitRequest(remediator.Metal3, "cp-1")
	s.Expect(s.ControlPlaneLeaseHolder()).To(Equal("MachineHealthCheck/" + s.Namespace + "/control"))
	recoverMachine(s, "cp-1")
	s.Eventually(s.ControlPlaneLeaseHolder).Should(BeEmpty())
}

// denyEtcd lets the manager read Nodes and Leases of the workload cluster, but not its etcd members.
func denyEtcd(s *stage.Stage) {
	s.T.Helper()
	user := controlplane.User{Name: s.Namespace}
	stage.Workload.Grant(s.T, user, "",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}})
	setKubeconfig(s, stage.Workload.ConfigOf(s.T, user))
}

// Each case has a reason to block a request, and the change that unblocks it.
func TestControlPlane_QuorumAtRisk_BlocksRemediation(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		members  int
		prepare  func(s *stage.Stage, members []*clusterv1.Machine)
		decision string
		// unblock is nil if no change does.
		unblock func(s *stage.Stage, members []*clusterv1.Machine)
	}{
		{
			name: "other member unhealthy", members: 3, decision: "Blocked QuorumAtRisk",
			prepare: func(s *stage.Stage, members []*clusterv1.Machine) { s.SetEtcdMember(members[1], metav1.ConditionFalse) },
			unblock: func(s *stage.Stage, members []*clusterv1.Machine) { s.SetEtcdMember(members[1], metav1.ConditionTrue) },
		},
		{
			name: "own member lost later", members: 3, decision: "Blocked QuorumAtRisk",
			prepare: func(s *stage.Stage, members []*clusterv1.Machine) { s.SetEtcdMember(members[1], metav1.ConditionFalse) },
			unblock: func(s *stage.Stage, members []*clusterv1.Machine) { s.SetEtcdMember(members[0], metav1.ConditionFalse) },
		},
		{
			name: "members unknown", members: 3, decision: "Blocked QuorumUnknown",
			prepare: func(s *stage.Stage, members []*clusterv1.Machine) {
				denyEtcd(s)
				for _, m := range members {
					s.ChangeStatus(m, func() { m.Status.Conditions = nil })
				}
			},
			unblock: func(s *stage.Stage, members []*clusterv1.Machine) {
				for i := len(members) - 1; i >= 0; i-- {
					s.SetEtcdMember(members[i], metav1.ConditionTrue)
				}
			},
		},
		{name: "single member", members: 1, decision: "Blocked SingleControlPlane"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			stage.LockControlPlane(t)
			s := stage.New(t)
			members := s.CreateControlPlane(test.members)
			if test.prepare != nil {
				test.prepare(s, members)
			}
			s.FailNode("cp-1")
			check := s.CreateCheck("control", stage.OfPool("control"), stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft")))
			c := s.Start()
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("cp-1"), Equal(test.decision)))
			c.WaitIdle()
			s.Expect(s.Requests(remediator.Metal3)).To(BeEmpty())
			s.Expect(s.ControlPlaneLeaseHolder()).To(BeEmpty())
			if test.unblock == nil {
				return
			}
			test.unblock(s, members)
			s.WaitRequest(remediator.Metal3, "cp-1")
			recoverMachine(s, "cp-1")
			s.Eventually(s.ControlPlaneLeaseHolder).Should(BeEmpty())
		})
	}
}
