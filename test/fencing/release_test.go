// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fencing

package fencing_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// terminated matches a fence that has recorded that every Pod is terminating.
func terminated(f *fencingv1.NodeFence) bool {
	return f.Status.Release != nil && f.Status.Release.TerminatingAt != nil
}

// released matches a fence that has released the workload.
func released(f *fencingv1.NodeFence) bool {
	return condition(f, fencingv1.ReleasedCondition) == metav1.ConditionTrue
}

// undone waits until nothing of a fence is left on its Node.
func (m *machine) undone() {
	m.t.Helper()
	m.g.Eventually(func() []corev1.Taint {
		return slices.DeleteFunc(m.node().Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key != fencingv1.FencingTaint && taint.Key != corev1.TaintNodeOutOfService
		})
	}, limit, 50*time.Millisecond).Should(BeEmpty())
}

// A kubelet hangs on a machine with a StatefulSet. The StatefulSet runs on another Node as soon as the machine is proven off, and never on
// both. The machine joins again.
func TestFenceRelease_KubeletHangs_WorkloadMoves(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, theWorld(t), "release-hangs")
	first := d.pod("db-0").UID
	d.hang()
	fence := d.fence()
	d.until(fence, "the Node is proven off", func(f *fencingv1.NodeFence) bool { return f.Status.Evidence != nil })
	d.until(fence, "every Pod is terminating", terminated)
	second := d.untilRuns("db-0", d.spare.Name)
	d.log("the replacement runs")
	d.g.Expect(second).ToNot(Equal(first))
	done := d.until(fence, "the workload is released", released)
	d.g.Expect(condition(done, fencingv1.FencedCondition)).To(Equal(metav1.ConditionTrue))
	d.g.Expect(done.Status.Evidence.Class).To(Equal(fencingv1.EvidencePowerOff))
	ended := d.untilEnded(fence)
	d.g.Expect(ended.Status.Reason).To(Equal("Rejoined"))
	d.undone()

	d.g.Expect(d.runUIDs()).To(HaveExactElements(first, second))
	d.g.Expect(d.attachments()).To(Equal([]string{d.spare.Name}))
	d.g.Expect(d.OffRequests()).To(Equal(1))
	d.g.Expect(d.OnRequests()).To(Equal(1))
	release := ended.Status.Release
	d.g.Expect(release).ToNot(BeNil())
	d.g.Expect(release.Scope).To(Equal(fencingv1.ScopeNode))
	d.g.Expect(release.Pods).To(Equal(int32(1)))
	d.g.Expect(release.OutOfServiceTaint).To(BeTrue())
	d.g.Expect(release.Left).To(BeEmpty())
	for _, at := range []*metav1.Time{release.TerminatingAt, release.ProvenAt, release.EndedAt} {
		d.g.Expect(at).ToNot(BeNil())
	}
	d.g.Expect(release.ProvenAt.Time).ToNot(BeTemporally("<", release.TerminatingAt.Time))
	d.g.Expect(d.world.API.Delete(t.Context(), fence)).To(Succeed())
	d.untilGone(fence)
}

// A StatefulSet is scaled down while one of the members to remove is on a Node that is Unknown. It waits for that member until the fence
// has released it. Then it can be scaled up again.
func TestFenceRelease_ScaleDownDeadMember_GoesOn(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	d := newDatabase(t, w, "release-scale-down", replicas(2))
	set := func() *appsv1.StatefulSet {
		set := &appsv1.StatefulSet{}
		d.g.Expect(w.API.Get(t.Context(), client.ObjectKeyFromObject(d.set), set)).To(Succeed())
		return set
	}
	scale := func(to int32) {
		scaled := set()
		change := client.MergeFrom(scaled.DeepCopy())
		scaled.Spec.Replicas = &to
		d.g.Expect(w.API.Patch(t.Context(), scaled, change)).To(Succeed())
	}
	d.hang()
	scale(1)
	d.g.Eventually(func() bool { return d.pod("db-1").DeletionTimestamp != nil }, limit).Should(BeTrue())
	d.log("the dead member is terminating, and stays")
	d.g.Expect(set().Status.Replicas).To(Equal(int32(2)))
	fence := d.fence()
	d.untilRuns("db-0", d.spare.Name)
	d.g.Eventually(func() int32 { return set().Status.Replicas }, limit).Should(Equal(int32(1)))
	d.log("the StatefulSet is scaled down")
	scale(2)
	d.untilRuns("db-1", d.spare.Name)
	d.g.Expect(d.untilEnded(fence).Status.Reason).To(Equal("Rejoined"))
	d.undone()
}

// confirm confirms that the machine of a fence is off.
func (m *machine) confirm(fence *fencingv1.NodeFence) {
	m.t.Helper()
	change := client.MergeFrom(fence.DeepCopy())
	metav1.SetMetaDataAnnotation(&fence.ObjectMeta, fencingv1.ConfirmOffAnnotation, string(m.node().UID))
	m.g.Expect(m.world.API.Patch(m.t.Context(), fence, change)).To(Succeed())
}

// No device answers. A person cuts the power, confirms that, and switches the machine on after the workload was released.
func TestFenceRelease_ConfirmedOff_WorkloadMoves(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, theWorld(t), "release-confirmed", shortTimeout)
	d.Die()
	d.hang()
	fence := d.fence(once)
	d.notProvenOff(d.untilEnded(fence))
	d.g.Expect(d.pod("db-0").DeletionTimestamp).To(BeNil())
	d.g.Expect(d.SetPower(false)).To(Succeed())
	d.confirm(fence)
	d.untilRuns("db-0", d.spare.Name)
	done := d.until(fence, "the workload is released", released)
	d.g.Expect(done.Status.Evidence.Class).To(Equal(fencingv1.EvidenceAcknowledged))
	d.g.Expect(d.SetPower(true)).To(Succeed())
	d.until(fence, "the machine has joined again", func(f *fencingv1.NodeFence) bool {
		return condition(f, remedyv1.SucceededCondition) == metav1.ConditionTrue
	})
	d.undone()
	d.g.Expect(d.Requests()).To(BeEmpty())
}

// A row has the address of the neighbour, so the neighbour is switched off. The Node of the fence still reports, so nothing is released.
func TestFenceRelease_NeighbourOff_ReleasesNothing(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	neighbour := newMachine(t, w, "release-neighbour-b")
	d := newDatabase(t, w, "release-neighbour-a", rowOf(neighbour))
	first := d.pod("db-0").UID
	d.Kubelet.ReportNotReady()
	d.untilReady(corev1.ConditionFalse)
	fence := d.fence(once, func(f *fencingv1.NodeFence) { f.Spec.Release.Timeout = duration(time.Minute) })
	d.until(fence, "the Node still reports", func(f *fencingv1.NodeFence) bool {
		return reason(f, fencingv1.ReleasedCondition) == "NodeStillReports"
	})
	d.g.Expect(neighbour.Power()).To(BeFalse())
	untouched := func() {
		d.t.Helper()
		pod := d.pod("db-0")
		d.g.Expect(pod).ToNot(BeNil())
		d.g.Expect(pod.UID).To(Equal(first))
		d.g.Expect(pod.DeletionTimestamp).To(BeNil())
		d.g.Expect(d.writing("db-0", d.Name)).To(BeTrue())
		for _, taint := range d.node().Spec.Taints {
			d.g.Expect(taint.Key).ToNot(Equal(corev1.TaintNodeOutOfService))
			d.g.Expect(taint.Key == fencingv1.FencingTaint && taint.Effect == corev1.TaintEffectNoExecute).To(BeFalse())
		}
	}
	untouched()
	d.g.Expect(d.untilEnded(fence).Status.Reason).To(Equal("WrongMachine"))
	untouched()
	d.g.Expect(w.API.Delete(t.Context(), fence)).To(Succeed())
	d.untilGone(fence)
	d.undone()
	untouched()
	d.g.Expect(neighbour.Power()).To(BeTrue())
}

// rowOf gives the Node of a profile the device of another machine.
func rowOf(other *machine) func(*fencingv1.FenceProfile) {
	return func(profile *fencingv1.FenceProfile) {
		for i := range profile.Spec.Nodes {
			profile.Spec.Nodes[i].Parameters[string(profile.Spec.Methods[0].Name)] = fencingv1.Parameters{
				"ip": fencingv1.ParameterValue(other.IP), "ipport": fencingv1.ParameterValue(other.Port),
			}
		}
	}
}

// A release with policy None restarts the machine, and its Pods start again there.
func TestFenceRelease_PolicyNone_PodStays(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, theWorld(t), "release-none")
	first := d.pod("db-0").UID
	d.hang()
	fence := d.fence(func(f *fencingv1.NodeFence) { f.Spec.Release.Policy = fencingv1.ReleaseNone })
	d.g.Expect(d.untilEnded(fence).Status.Reason).To(Equal("Rejoined"))
	d.undone()
	d.g.Expect(d.untilRuns("db-0", d.Name)).To(Equal(first))
	d.g.Expect(d.runUIDs()).To(HaveExactElements(first))
	d.g.Expect(ptr.Deref(d.pod("db-0").DeletionGracePeriodSeconds, 0)).To(BeZero())
}
