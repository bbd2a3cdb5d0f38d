// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// oneControlPlane is held by the test that plays at the control plane: all stages share the cluster that has the Lease by which turns are taken.
var oneControlPlane sync.Mutex

// alone keeps all others from the control plane until the test is over.
func alone(t *testing.T) {
	t.Helper()
	oneControlPlane.Lock()
	t.Cleanup(func() {
		defer oneControlPlane.Unlock()
		kubelet, err := client.New(guest.Admin, client.Options{})
		NewWithT(t).Expect(err).ToNot(HaveOccurred())
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "remedy-control-plane"}}
		// A test that fails leaves it behind.
		NewWithT(t).Expect(client.IgnoreNotFound(kubelet.Delete(context.WithoutCancel(t.Context()), lease))).To(Succeed())
	})
}

const etcdMember = "EtcdMemberHealthy"

// member makes a Machine of the control plane, whose etcd member is healthy as far as its owner knows.
func (s *stage) member(name string, changes ...func(*clusterv1.Machine)) *clusterv1.Machine {
	s.t.Helper()
	m := s.machine(name, append([]func(*clusterv1.Machine){func(m *clusterv1.Machine) {
		m.Labels = map[string]string{clusterv1.ClusterNameLabel: "prod", clusterv1.MachineControlPlaneLabel: "", "pool": "control"}
		m.OwnerReferences[0].APIVersion, m.OwnerReferences[0].Kind = "controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane"
	}}, changes...)...)
	s.etcd(m, metav1.ConditionTrue)
	return m
}

// etcd is what the owner of the control plane says about a member.
func (s *stage) etcd(m *clusterv1.Machine, status metav1.ConditionStatus) {
	s.t.Helper()
	s.changeStatus(m, func() { conditions.Set(m, metav1.Condition{Type: etcdMember, Status: status, Reason: "Test"}) })
}

// members are so many of them.
func (s *stage) members(n int) []*clusterv1.Machine {
	s.t.Helper()
	all := make([]*clusterv1.Machine, n)
	for i := range all {
		all[i] = s.member(fmt.Sprintf("cp-%d", i+1))
	}
	return all
}

// fails lets the Node of a Machine be silent for ten minutes.
func (s *stage) fails(name string) { s.ready(name, corev1.ConditionUnknown, 10*time.Minute) }

// ofPool lets a check select the Machines of a pool.
func ofPool(pool string) func(*remedyv1.MachineHealthCheckSpec) {
	return func(spec *remedyv1.MachineHealthCheckSpec) {
		spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": remedyv1.LabelValue(pool)}
	}
}

// turn is who has the turn at the control plane; empty if nobody has.
func (s *stage) turn() string {
	s.t.Helper()
	lease := &coordinationv1.Lease{}
	if err := s.kubelet.Get(s.ctx, keyOf("kube-system", "remedy-control-plane"), lease); err != nil {
		s.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return ""
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// recovers is what ends a request: its remediator is done, and the Node is ready.
func (s *stage) recovers(name string) {
	s.t.Helper()
	s.acts(remediator.Metal3, remediator.Succeeds)
	s.ready(name, corev1.ConditionTrue, 0)
	s.Eventually(func() any {
		s.acts(remediator.Metal3, remediator.Succeeds)
		return s.request(remediator.Metal3, name)()
	}).Should(BeNil())
}

// starts are the writes by which requests were made and deleted, in their order. Who has not heard yet that a deletion was asked for asks for it
// once more: that counts once.
func starts(c *controller) []string {
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
	alone(t)
	s := newStage(t)
	s.members(5)
	s.fails("cp-1")
	s.fails("cp-2")
	check := s.check("control", ofPool("control"), by(s.template(remediator.Metal3, "soft")))
	c := s.start()
	s.requested(remediator.Metal3, "cp-1")
	s.Eventually(get(s, check)).Should(WithTransform(holds("cp-2"), Equal("Held ControlPlaneBusy")))
	s.Expect(s.turn()).To(Equal("MachineHealthCheck/" + s.namespace + "/control"))
	c.settle()
	s.Expect(starts(c)).To(Equal([]string{"create cp-1"}))

	s.recovers("cp-1")
	s.requested(remediator.Metal3, "cp-2")
	s.Expect(s.turn()).To(Equal("MachineHealthCheck/" + s.namespace + "/control"))
	s.recovers("cp-2")
	s.Eventually(s.turn).Should(BeEmpty(), "it is given back")
	c.settle()
	s.Expect(starts(c)).To(Equal([]string{"create cp-1", "delete cp-1", "create cp-2", "delete cp-2"}))
}

// TestTwoChecksTakeTurnsAtAControlPlane also where neither hears of what the other one does.
func TestTwoChecksTakeTurnsAtAControlPlane(t *testing.T) {
	t.Parallel()
	for name, deaf := range map[string]bool{"who hear of each other": false, "who only have the Lease": true} {
		t.Run(name, func(t *testing.T) {
			alone(t)
			s := newStage(t, withWorkers)
			s.members(5)
			template := by(s.template(remediator.Metal3, "soft"))
			for _, n := range []string{"1", "2"} {
				m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "cp-" + n}}
				s.change(m, func() { m.Labels["pool"] = "pool-" + n })
				s.check("check-"+n, ofPool("pool-"+n), template)
			}
			c := s.start()
			c.settle()
			if deaf {
				c.Watches().Hold("metal3remediations.infrastructure.cluster.x-k8s.io", "machines.cluster.x-k8s.io")
			}
			s.fails("cp-1")
			s.fails("cp-2")
			s.Eventually(func() int { return len(s.requests(remediator.Metal3)) }).Should(Equal(1), s.seen)
			c.pass()
			c.pass()
			first := s.requests(remediator.Metal3)[0].GetName()
			s.Expect(starts(c)).To(Equal([]string{"create " + first}))
			second := map[string]string{"cp-1": "cp-2", "cp-2": "cp-1"}[first]
			waiting := &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "check-" + second[3:]}}
			s.Eventually(get(s, waiting)).Should(WithTransform(holds(second), Equal("Held ControlPlaneBusy")))
			s.Expect(s.turn()).To(Equal("MachineHealthCheck/" + s.namespace + "/check-" + first[3:]))

			c.Watches().Release()
			s.recovers(first)
			s.Eventually(func() any {
				s.nudge()
				return s.request(remediator.Metal3, second)()
			}).ShouldNot(BeNil())
			s.recovers(second)
			s.Eventually(s.turn).Should(BeEmpty())
			c.settle()
			s.Expect(starts(c)).To(Equal([]string{"create " + first, "delete " + first, "create " + second, "delete " + second}))
		})
	}
}

// TestWhoWaitsForItsTurnIsToldWhenItComes: the Lease is in the cluster of the Nodes, where nobody follows it.
func TestWhoWaitsForItsTurnIsToldWhenItComes(t *testing.T) {
	t.Parallel()
	alone(t)
	s := newStage(t, withClock)
	s.members(5)
	template := by(s.template(remediator.Metal3, "soft"))
	checks := make([]*remedyv1.MachineHealthCheck, 0, 2)
	for _, n := range []string{"1", "2"} {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "cp-" + n}}
		s.change(m, func() { m.Labels["pool"] = "pool-" + n })
		checks = append(checks, s.check("check-"+n, ofPool("pool-"+n), template))
	}
	s.start()
	s.fails("cp-1")
	s.requested(remediator.Metal3, "cp-1")
	s.fails("cp-2")
	s.Eventually(get(s, checks[1])).Should(WithTransform(holds("cp-2"), Equal("Held ControlPlaneBusy")))
	// Its request goes, and the turn stays with the first check, which may do nothing.
	s.annotate(checks[0], clusterv1.PausedAnnotation, "yes")
	s.Eventually(get(s, checks[0])).Should(WithTransform(tells(remedyv1.PausedCondition), Equal("True Paused")))
	s.ready("cp-1", corev1.ConditionTrue, 0)
	s.Expect(s.admin.Delete(s.ctx, s.request(remediator.Metal3, "cp-1")())).To(Succeed())
	s.Eventually(get(s, checks[1])).Should(WithTransform(said("cp-2"), ContainSubstring("check-1")))
	s.Expect(s.requests(remediator.Metal3)).To(BeEmpty())
	// It gives it back. Nothing else happens that would wake the other one, and no time passes.
	s.annotate(checks[0], clusterv1.PausedAnnotation, "")
	s.requested(remediator.Metal3, "cp-2")
	s.recovers("cp-2")
	s.Eventually(s.turn).Should(BeEmpty())
}

// TestWhoeverHasTheTurnKeepsItUntilItRunsOut: it may be a check of another management cluster, of which nobody hears anything else.
func TestWhoeverHasTheTurnKeepsItUntilItRunsOut(t *testing.T) {
	t.Parallel()
	alone(t)
	s := newStage(t, withClock)
	s.members(3)
	s.fails("cp-1")
	s.Expect(s.kubelet.Create(s.ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "remedy-control-plane"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("MachineHealthCheck/far/away"), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: &metav1.MicroTime{Time: s.clock.Now()},
		},
	})).To(Succeed())
	check := s.check("control", ofPool("control"), by(s.template(remediator.Metal3, "soft")))
	c := s.start()
	s.Eventually(get(s, check)).Should(WithTransform(holds("cp-1"), Equal("Held ControlPlaneBusy")))
	c.settle()
	s.wait(59 * time.Minute)
	c.settle()
	s.Expect(s.requests(remediator.Metal3)).To(BeEmpty())
	s.Expect(s.turn()).To(Equal("MachineHealthCheck/far/away"))
	s.wait(time.Minute + time.Second)
	s.requested(remediator.Metal3, "cp-1")
	s.Expect(s.turn()).To(Equal("MachineHealthCheck/" + s.namespace + "/control"))
	s.recovers("cp-1")
	s.Eventually(s.turn).Should(BeEmpty())
}

// blind lets the manager see Nodes and Leases of the workload cluster, and nothing of its etcd.
func (s *stage) blind() {
	s.t.Helper()
	reader, err := guest.Config(controlplane.ServiceAccount(s.namespace, "reader"))
	s.Expect(err).ToNot(HaveOccurred())
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"*"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"*"}},
		{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}},
	}
	name := metav1.ObjectMeta{Name: s.namespace}
	s.Expect(s.kubelet.Create(s.ctx, &rbacv1.ClusterRole{ObjectMeta: name, Rules: rules})).To(Succeed())
	s.Expect(s.kubelet.Create(s.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.namespace},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: "reader"}},
	})).To(Succeed())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "prod-kubeconfig"}}
	s.change(secret, func() { secret.Data["value"] = s.kubeconfig(reader) })
}

// TestAControlPlaneIsNotPutAtRisk shows what holds a request, and what ends that.
func TestAControlPlaneIsNotPutAtRisk(t *testing.T) {
	t.Parallel()
	tests := []struct {
		why     string
		members int
		before  func(s *stage, members []*clusterv1.Machine)
		holds   string
		// ends is nil where nothing does.
		ends func(s *stage, members []*clusterv1.Machine)
	}{
		{
			why: "while another member is not healthy", members: 3, holds: "Held QuorumAtRisk",
			before: func(s *stage, members []*clusterv1.Machine) { s.etcd(members[1], metav1.ConditionFalse) },
			ends:   func(s *stage, members []*clusterv1.Machine) { s.etcd(members[1], metav1.ConditionTrue) },
		},
		{
			why: "while it counts, and not any more when its own member is lost", members: 3, holds: "Held QuorumAtRisk",
			before: func(s *stage, members []*clusterv1.Machine) { s.etcd(members[1], metav1.ConditionFalse) },
			ends:   func(s *stage, members []*clusterv1.Machine) { s.etcd(members[0], metav1.ConditionFalse) },
		},
		{
			why: "where nobody knows of its members", members: 3, holds: "Held QuorumUnknown",
			before: func(s *stage, members []*clusterv1.Machine) {
				s.blind()
				for _, m := range members {
					s.changeStatus(m, func() { m.Status.Conditions = nil })
				}
			},
			ends: func(s *stage, members []*clusterv1.Machine) {
				for i := len(members) - 1; i >= 0; i-- {
					s.etcd(members[i], metav1.ConditionTrue)
				}
			},
		},
		{why: "where it is the only one", members: 1, holds: "Held SingleControlPlane"},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			alone(t)
			s := newStage(t)
			members := s.members(test.members)
			if test.before != nil {
				test.before(s, members)
			}
			s.fails("cp-1")
			check := s.check("control", ofPool("control"), by(s.template(remediator.Metal3, "soft")))
			c := s.start()
			s.Eventually(get(s, check)).Should(WithTransform(holds("cp-1"), Equal(test.holds)))
			c.settle()
			s.Expect(s.requests(remediator.Metal3)).To(BeEmpty())
			s.Expect(s.turn()).To(BeEmpty())
			if test.ends == nil {
				return
			}
			test.ends(s, members)
			s.requested(remediator.Metal3, "cp-1")
			s.recovers("cp-1")
			s.Eventually(s.turn).Should(BeEmpty())
		})
	}
}
