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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// recovers is what ends a request: its remediator is done, and the Node is ready.
func recovers(s *stage.Stage, name string) {
	s.T.Helper()
	s.Remediate(remediator.Metal3, remediator.Succeeds)
	s.SetReady(name, corev1.ConditionTrue, 0)
	s.Eventually(func() any {
		s.Remediate(remediator.Metal3, remediator.Succeeds)
		return s.Request(remediator.Metal3, name)()
	}).Should(BeNil())
}

// starts are the writes by which requests were made and deleted, in their order. Who has not heard yet that a deletion was asked for asks
// for it once more: that counts once.
func starts(c *stage.Instance) []string {
	var all []string
	deleted := map[string]bool{}
	for _, w := range c.Writes() {
		if w.Resource != remediator.Metal3.Plural || w.Verb != "create" && w.Verb != "delete" || !w.Landed() {
			continue
		}
		if deletes := w.Verb == "delete"; !deletes || !deleted[w.Name] {
			all = append(all, w.Verb+" "+w.Name)
			deleted[w.Name] = deletes
		}
	}
	return all
}

func TestMachinesOfAControlPlaneAreRemediatedOneAtATime(t *testing.T) {
	t.Parallel()
	stage.LockControlPlane(t)
	s := stage.New(t)
	s.CreateControlPlane(5)
	s.FailNode("cp-1")
	s.FailNode("cp-2")
	check := s.CreateCheck("control", stage.OfPool("control"), stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft")))
	c := s.Start()
	s.WaitRequest(remediator.Metal3, "cp-1")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("cp-2"), Equal("Held ControlPlaneBusy")))
	s.Expect(s.ControlPlaneLeaseHolder()).To(Equal("MachineHealthCheck/" + s.Namespace + "/control"))
	c.WaitIdle()
	s.Expect(starts(c)).To(Equal([]string{"create cp-1"}))

	recovers(s, "cp-1")
	s.WaitRequest(remediator.Metal3, "cp-2")
	s.Expect(s.ControlPlaneLeaseHolder()).To(Equal("MachineHealthCheck/" + s.Namespace + "/control"))
	recovers(s, "cp-2")
	s.Eventually(s.ControlPlaneLeaseHolder).Should(BeEmpty(), "it is given back")
	c.WaitIdle()
	s.Expect(starts(c)).To(Equal([]string{"create cp-1", "delete cp-1", "create cp-2", "delete cp-2"}))
}

// TestTwoChecksTakeTurnsAtAControlPlane also where neither hears of what the other one does.
func TestTwoChecksTakeTurnsAtAControlPlane(t *testing.T) {
	t.Parallel()
	for name, deaf := range map[string]bool{"who hear of each other": false, "who only have the Lease": true} {
		t.Run(name, func(t *testing.T) {
			stage.LockControlPlane(t)
			s := stage.New(t, stage.WithWorkers)
			s.CreateControlPlane(5)
			template := stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft"))
			for _, n := range []string{"1", "2"} {
				m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "cp-" + n}}
				s.Change(m, func() { m.Labels["pool"] = "pool-" + n })
				s.CreateCheck("check-"+n, stage.OfPool("pool-"+n), template)
			}
			c := s.Start()
			c.WaitIdle()
			if deaf {
				c.Watches().Hold("metal3remediations.infrastructure.cluster.x-k8s.io", "machines.cluster.x-k8s.io")
			}
			s.FailNode("cp-1")
			s.FailNode("cp-2")
			s.Eventually(func() int { return len(s.Requests(remediator.Metal3)) }).Should(Equal(1), func() string { return seen(s) })
			c.ReconcileAll()
			c.ReconcileAll()
			first := s.Requests(remediator.Metal3)[0].GetName()
			s.Expect(starts(c)).To(Equal([]string{"create " + first}))
			second := map[string]string{"cp-1": "cp-2", "cp-2": "cp-1"}[first]
			waiting := &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "check-" + second[3:]}}
			s.Eventually(stage.Get(s, waiting)).Should(WithTransform(stage.Decision(second), Equal("Held ControlPlaneBusy")))
			s.Expect(s.ControlPlaneLeaseHolder()).To(Equal("MachineHealthCheck/" + s.Namespace + "/check-" + first[3:]))

			c.Watches().Release()
			recovers(s, first)
			s.Eventually(func() any {
				s.Wake()
				return s.Request(remediator.Metal3, second)()
			}).ShouldNot(BeNil())
			recovers(s, second)
			s.Eventually(s.ControlPlaneLeaseHolder).Should(BeEmpty())
			c.WaitIdle()
			s.Expect(starts(c)).To(Equal([]string{"create " + first, "delete " + first, "create " + second, "delete " + second}))
		})
	}
}

// TestWhoWaitsForItsTurnIsToldWhenItComes: the Lease is in the cluster of the Nodes, where nobody follows it.
func TestWhoWaitsForItsTurnIsToldWhenItComes(t *testing.T) {
	t.Parallel()
	stage.LockControlPlane(t)
	s := stage.New(t, stage.WithClock)
	s.CreateControlPlane(5)
	template := stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft"))
	checks := make([]*remedyv1.MachineHealthCheck, 0, 2)
	for _, n := range []string{"1", "2"} {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "cp-" + n}}
		s.Change(m, func() { m.Labels["pool"] = "pool-" + n })
		checks = append(checks, s.CreateCheck("check-"+n, stage.OfPool("pool-"+n), template))
	}
	s.Start()
	s.FailNode("cp-1")
	s.WaitRequest(remediator.Metal3, "cp-1")
	s.FailNode("cp-2")
	s.Eventually(stage.Get(s, checks[1])).Should(WithTransform(stage.Decision("cp-2"), Equal("Held ControlPlaneBusy")))
	// Its request goes, and the turn stays with the first check, which may do nothing.
	s.Annotate(checks[0], clusterv1.PausedAnnotation, "yes")
	s.Eventually(stage.Get(s, checks[0])).Should(WithTransform(stage.CheckCondition(remedyv1.PausedCondition), Equal("True Paused")))
	s.SetReady("cp-1", corev1.ConditionTrue, 0)
	s.Expect(s.Admin.Delete(s.Ctx, s.Request(remediator.Metal3, "cp-1")())).To(Succeed())
	s.Eventually(stage.Get(s, checks[1])).Should(WithTransform(said("cp-2"), ContainSubstring("check-1")))
	s.Expect(s.Requests(remediator.Metal3)).To(BeEmpty())
	// It gives it back. Nothing else happens that would wake the other one, and no time passes.
	s.Annotate(checks[0], clusterv1.PausedAnnotation, "")
	s.WaitRequest(remediator.Metal3, "cp-2")
	recovers(s, "cp-2")
	s.Eventually(s.ControlPlaneLeaseHolder).Should(BeEmpty())
}

// TestWhoeverHasTheTurnKeepsItUntilItRunsOut: it may be a check of another management cluster, of which nobody hears anything else.
func TestWhoeverHasTheTurnKeepsItUntilItRunsOut(t *testing.T) {
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
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("cp-1"), Equal("Held ControlPlaneBusy")))
	c.WaitIdle()
	s.Advance(59 * time.Minute)
	c.WaitIdle()
	s.Expect(s.Requests(remediator.Metal3)).To(BeEmpty())
	s.Expect(s.ControlPlaneLeaseHolder()).To(Equal("MachineHealthCheck/far/away"))
	s.Advance(time.Minute + time.Second)
	s.WaitRequest(remediator.Metal3, "cp-1")
	s.Expect(s.ControlPlaneLeaseHolder()).To(Equal("MachineHealthCheck/" + s.Namespace + "/control"))
	recovers(s, "cp-1")
	s.Eventually(s.ControlPlaneLeaseHolder).Should(BeEmpty())
}

// blind lets the manager see Nodes and Leases of the workload cluster, and nothing of its etcd.
func blind(s *stage.Stage) {
	s.T.Helper()
	reader, err := stage.Workload.Config(controlplane.ServiceAccount(s.Namespace, "reader"))
	s.Expect(err).ToNot(HaveOccurred())
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"*"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"*"}},
		{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}},
	}
	name := metav1.ObjectMeta{Name: s.Namespace}
	s.Expect(s.Workload.Create(s.Ctx, &rbacv1.ClusterRole{ObjectMeta: name, Rules: rules})).To(Succeed())
	s.Expect(s.Workload.Create(s.Ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.Namespace},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: "reader"}},
	})).To(Succeed())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "prod-kubeconfig"}}
	s.Change(secret, func() { secret.Data["value"] = s.Kubeconfig(reader) })
}

// TestAControlPlaneIsNotPutAtRisk shows what holds a request, and what ends that.
func TestAControlPlaneIsNotPutAtRisk(t *testing.T) {
	t.Parallel()
	tests := []struct {
		why     string
		members int
		before  func(s *stage.Stage, members []*clusterv1.Machine)
		holds   string
		// ends is nil where nothing does.
		ends func(s *stage.Stage, members []*clusterv1.Machine)
	}{
		{
			why: "while another member is not healthy", members: 3, holds: "Held QuorumAtRisk",
			before: func(s *stage.Stage, members []*clusterv1.Machine) { s.SetEtcdMember(members[1], metav1.ConditionFalse) },
			ends:   func(s *stage.Stage, members []*clusterv1.Machine) { s.SetEtcdMember(members[1], metav1.ConditionTrue) },
		},
		{
			why: "while it counts, and not any more when its own member is lost", members: 3, holds: "Held QuorumAtRisk",
			before: func(s *stage.Stage, members []*clusterv1.Machine) { s.SetEtcdMember(members[1], metav1.ConditionFalse) },
			ends:   func(s *stage.Stage, members []*clusterv1.Machine) { s.SetEtcdMember(members[0], metav1.ConditionFalse) },
		},
		{
			why: "where nobody knows of its members", members: 3, holds: "Held QuorumUnknown",
			before: func(s *stage.Stage, members []*clusterv1.Machine) {
				blind(s)
				for _, m := range members {
					s.ChangeStatus(m, func() { m.Status.Conditions = nil })
				}
			},
			ends: func(s *stage.Stage, members []*clusterv1.Machine) {
				for i := len(members) - 1; i >= 0; i-- {
					s.SetEtcdMember(members[i], metav1.ConditionTrue)
				}
			},
		},
		{why: "where it is the only one", members: 1, holds: "Held SingleControlPlane"},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			stage.LockControlPlane(t)
			s := stage.New(t)
			members := s.CreateControlPlane(test.members)
			if test.before != nil {
				test.before(s, members)
			}
			s.FailNode("cp-1")
			check := s.CreateCheck("control", stage.OfPool("control"), stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft")))
			c := s.Start()
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("cp-1"), Equal(test.holds)))
			c.WaitIdle()
			s.Expect(s.Requests(remediator.Metal3)).To(BeEmpty())
			s.Expect(s.ControlPlaneLeaseHolder()).To(BeEmpty())
			if test.ends == nil {
				return
			}
			test.ends(s, members)
			s.WaitRequest(remediator.Metal3, "cp-1")
			recovers(s, "cp-1")
			s.Eventually(s.ControlPlaneLeaseHolder).Should(BeEmpty())
		})
	}
}
