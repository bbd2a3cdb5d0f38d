// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

const cycle = "ipmi status, ipmi off, ipmi status, ipmi status, ipmi on"

func TestReconcile_NodeOfManager_IsSwitchedOffAndOn(t *testing.T) {
	s := newStage(t)
	s.profile()
	f := s.fence("by-hand")
	s.run(f, final)
	found := s.get(f)
	s.Expect(strings.Join(s.played, ", ")).To(Equal(cycle))
	s.Expect(condition(found, "Succeeded")).To(Equal("True Rejoined"))
	s.Expect(condition(found, "Fenced")).To(Equal("True PowerOff"))
	s.Expect(condition(found, "Recovered")).To(Equal("True Rejoined"))
	s.Expect(condition(found, "Processing")).To(Equal("False Succeeded"))
	s.Expect(found.Finalizers).To(BeEmpty())
	s.Expect(found.Annotations).ToNot(HaveKey(fencingv1.BlockMoveAnnotation))
	node := s.getNode("worker-1")
	s.Expect(nodeFacts(node, "").Fence).To(BeEmpty())
	s.Expect(node.Annotations).To(HaveKeyWithValue(fencingv1.RemediationPodNameAnnotation, s.namespace+"/by-hand"))
	s.Expect(s.drained()).To(Equal("FenceAdmitted PowerOffRequested NodeFenced PowerOnRequested NodeRejoined NodeRecovered"))
}

// After every write, the manager is killed before the write returns. Nothing is switched twice.
func TestReconcile_KilledAfterEachWrite_RepeatsNothing(t *testing.T) {
	s := newStage(t)
	s.mortal = true
	s.profile(func(p *fencingv1.FenceProfile) {
		p.Spec.Methods = append(p.Spec.Methods, fencingv1.FenceMethod{Name: "fabric", Agent: "fence_brocade"})
		p.Spec.Isolation = []fencingv1.MethodName{"fabric"}
	})
	s.answer = func(method, action string) (int32, string) {
		switch method + " " + action {
		case "fabric status":
			return 2, "Status: OFF"
		case "fabric off", "fabric on":
			return 0, "Success"
		}
		return s.honest(method, action)
	}
	f := s.fence("killed")
	s.run(f, final)
	s.Expect(strings.Join(s.played, ", ")).To(Equal("fabric off, fabric status, " + cycle + ", fabric on"))
	s.Expect(condition(s.get(f), "Succeeded")).To(Equal("True Rejoined"))
	s.Expect(condition(s.get(f), "Isolated")).To(Equal("True Isolated"))
	s.Expect(s.kills).To(BeNumerically(">", 20))
}

func TestReconcile_Blocked_ReportsWhyAndChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		set    func(*stage)
	}{
		"another namespace": {"NodeNotFound", func(s *stage) { s.r.OwnNodesNamespace = "another" }},
		"no profile": {"ProfileNotResolved", func(s *stage) {
			s.Expect(s.admin.DeleteAllOf(t.Context(), &fencingv1.FenceProfile{}, client.InNamespace(s.namespace))).To(Succeed())
		}},
		"Ready":     {"NodeReady", func(s *stage) { s.ready("worker-1", corev1.ConditionTrue, "boot-1") }},
		"observing": {"ObserveMode", func(s *stage) { s.r.Observe = true }},
		"too many": {"TooManyNotReady", func(s *stage) {
			s.ready("worker-2", corev1.ConditionUnknown, "b")
			s.ready("worker-3", corev1.ConditionFalse, "b")
		}},
		"another fence": {"TooManyFences", func(s *stage) {
			node := s.getNode("worker-2")
			node.Spec.Taints = []corev1.Taint{{Key: fencingv1.FencingTaint, Value: "another", Effect: corev1.TaintEffectNoSchedule}}
			s.Expect(s.admin.Update(t.Context(), node)).To(Succeed())
		}},
		"autoscaler": {"NodeDisrupted", func(s *stage) {
			node := s.getNode("worker-1")
			node.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}
			s.Expect(s.admin.Update(t.Context(), node)).To(Succeed())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.profile()
			f := s.fence("blocked")
			c.set(s)
			result := s.reconcile(f)
			found := s.get(f)
			s.Expect(condition(found, "Admitted")).To(Equal("False " + c.reason))
			s.Expect(condition(found, "Succeeded")).To(Equal("Unknown " + c.reason))
			s.Expect(found.Finalizers).To(BeEmpty())
			s.Expect(result.RequeueAfter).To(BeNumerically("~", 10*time.Second, time.Second))
			s.Expect(s.playJobs()).To(BeFalse())
			s.Expect(nodeFacts(s.getNode("worker-1"), "").Fence).To(BeEmpty())
		})
	}
}

func TestReconcile_TwoFences_OneWaits(t *testing.T) {
	s := newStage(t)
	s.profile()
	first, second := s.fence("first"), s.fence("second")
	s.reconcile(first)
	s.reconcile(second)
	s.Expect(condition(s.get(second), "Admitted")).To(Equal("False Queued"))
	s.run(first, final)
	s.reconcile(second)
	s.Expect(condition(s.get(second), "Admitted")).To(Equal("False NodeReady"))
	s.Expect(strings.Join(s.played, ", ")).To(Equal(cycle))
}

func TestReconcile_DeadBMC_EndsInErrorAndIsUndoneWhenDeleted(t *testing.T) {
	s := newStage(t)
	s.answer = func(_, _ string) (int32, string) { return 1, "" }
	s.profile()
	f := s.fence("dead")
	s.run(f, failed)
	found := s.get(f)
	s.Expect(condition(found, "Succeeded")).To(Equal("False NotProvenOff"))
	s.Expect(found.Status.Evidence).To(BeNil())
	s.Expect(strings.Join(s.played, ", ")).To(Equal(strings.TrimSuffix(strings.Repeat("ipmi status, ", 6), ", ")))
	s.Expect(nodeFacts(s.getNode("worker-1"), "").Fence).To(Equal(string(f.UID)))
	s.Expect(s.admin.Delete(t.Context(), f)).To(Succeed())
	s.run(f, func(*fencingv1.NodeFence) bool { return false })
	s.Expect(nodeFacts(s.getNode("worker-1"), "").Fence).To(BeEmpty())
	s.Expect(s.drained()).To(Equal("FenceAdmitted FenceFailed"))
}

// A BMC that reports OFF with another exit code, or the exit code of a missing program, proves nothing.
func TestReconcile_AnswersWithoutProof_AreNoEvidence(t *testing.T) {
	for name, answer := range map[string]struct {
		code    int32
		message string
	}{"exit code alone": {2, "python3: can't open file"}, "line alone": {0, "Status: OFF"}, "killed": {137, "Status: OFF"}} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.answer = func(_, _ string) (int32, string) { return answer.code, answer.message }
			s.profile()
			f := s.fence("lies")
			s.run(f, failed)
			s.Expect(s.get(f).Status.Evidence).To(BeNil())
		})
	}
}

func TestReconcile_DeletedBeforeOff_LeavesNothing(t *testing.T) {
	s := newStage(t)
	s.profile()
	f := s.fence("deleted")
	s.reconcile(f)
	s.Expect(nodeFacts(s.getNode("worker-1"), "").Fence).To(Equal(string(f.UID)))
	s.Expect(s.admin.Delete(t.Context(), f)).To(Succeed())
	s.run(f, func(*fencingv1.NodeFence) bool { return false })
	node := s.getNode("worker-1")
	s.Expect(nodeFacts(node, "").Fence).To(BeEmpty())
	s.Expect(node.Annotations).To(BeEmpty())
	s.Expect(s.played).To(Equal([]string{"ipmi status"}))
}

func TestReconcile_CheckMode_AsksOnly(t *testing.T) {
	s := newStage(t)
	s.ready("worker-1", corev1.ConditionTrue, "boot-1")
	s.profile()
	f := s.fence("drill", func(f *fencingv1.NodeFence) { f.Spec.Mode = fencingv1.CheckDevices })
	s.run(f, final)
	s.Expect(condition(s.get(f), "Succeeded")).To(Equal("True DevicesAnswered"))
	s.Expect(s.played).To(Equal([]string{"ipmi status"}))
	s.Expect(nodeFacts(s.getNode("worker-1"), "").Fence).To(BeEmpty())
}

func TestReconcile_JobOfAnotherOwner_IsRefused(t *testing.T) {
	s := newStage(t)
	s.profile()
	f := s.fence("forged")
	s.Expect(s.admin.Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "nf-" + string(f.UID)[:8] + "-1"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "b"}},
		}}},
	})).To(Succeed())
	reconcile := func() error {
		_, err := s.r.Reconcile(t.Context(), requestFor(f))
		return err
	}
	s.Expect(reconcile()).To(MatchError(ContainSubstring("belongs to another object")))
	s.Expect(reconcile()).To(HaveOccurred())
	found := s.get(f)
	s.Expect(condition(found, "Processing")).To(Equal("True EffectFailed"))
	s.Expect(message(found, "Succeeded")).To(ContainSubstring("belongs to another object: delete it"))
	// At its deadline, its result is unknown, and the next action has another name.
	s.clock.Step(4 * time.Minute)
	s.run(f, final)
	s.Expect(condition(s.get(f), "Succeeded")).To(Equal("True Rejoined"))
	s.Expect(s.get(f).Status.Jobs[0].Result).To(Equal(fencingv1.JobUnknown))
}

func TestReconcile_MovedFence_IsNotRepeated(t *testing.T) {
	s := newStage(t)
	s.profile()
	f := s.fence("moved", func(f *fencingv1.NodeFence) { f.Annotations[fencingv1.FinishedAnnotation] = "Succeeded" })
	s.run(f, final)
	s.Expect(condition(s.get(f), "Succeeded")).To(Equal("True Moved"))
	s.Expect(s.played).To(BeEmpty())
}

func TestReconcile_StatusForged_IsDenied(t *testing.T) {
	s := newStage(t)
	s.profile()
	f := s.fence("forged")
	f.Status.Evidence = &fencingv1.Evidence{Class: fencingv1.EvidencePowerOff, RecordedAt: metav1.Now()}
	s.Expect(apierrors.IsForbidden(s.admin.Status().Update(t.Context(), f))).To(BeTrue())
}
