// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fencing

package fencing_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing"
)

// training is a Job that ends by itself after some seconds. Its Pod is a process on the machine.
func training(namespace, site, seconds string) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "training"}}
	job.Spec.BackoffLimit = ptr.To[int32](0)
	job.Spec.Template.Labels = map[string]string{"job": "training"}
	job.Spec.Template.Spec = fencing.NewPodSpec(site)
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	job.Spec.Template.Spec.Containers[0].Command = []string{"/bin/sleep", seconds}
	return job
}

func trainingPods() *remedyv1.Selector {
	return &remedyv1.Selector{MatchLabels: map[string]remedyv1.LabelValue{"job": "training"}}
}

// A Node that is Ready is drained before it is fenced. The training Job ends by itself before the machine is switched off. Other Pods are
// evicted, one after another, because a PodDisruptionBudget allows no more.
func TestFenceRelease_DrainReadyNode_TrainingEndsFirst(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	d := newDatabase(t, w, "drain", replicas(2))
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: d.Name, Name: "db"}}
	budget.Spec.MinAvailable, budget.Spec.Selector = ptr.To(intstr.FromInt32(1)), d.set.Spec.Selector
	d.create(budget)
	d.g.Eventually(func() int32 {
		d.g.Expect(w.API.Get(t.Context(), client.ObjectKeyFromObject(budget), budget)).To(Succeed())
		return budget.Status.DisruptionsAllowed
	}, limit).Should(Equal(int32(1)))
	job := training(d.Name, d.Name, "12")
	d.create(job)
	d.g.Eventually(func() int32 {
		d.g.Expect(w.API.Get(t.Context(), client.ObjectKeyFromObject(job), job)).To(Succeed())
		return job.Status.Active
	}, limit).Should(Equal(int32(1)))

	fence := d.fence(func(f *fencingv1.NodeFence) {
		f.Spec.Drain = &fencingv1.Drain{Timeout: *duration(2 * time.Minute), WaitFor: trainingPods()}
	})
	d.untilRuns("db-0", d.spare.Name)
	d.untilRuns("db-1", d.spare.Name)
	d.log("the other Pods run elsewhere")
	d.g.Expect(d.Requests()).To(BeEmpty())
	d.until(fence, "the Node is drained", func(f *fencingv1.NodeFence) bool { return f.Status.Drained != nil })
	// The Job controller follows when the Pod has ended.
	d.g.Eventually(func() int32 {
		d.g.Expect(w.API.Get(t.Context(), client.ObjectKeyFromObject(job), job)).To(Succeed())
		return job.Status.Succeeded
	}, limit).Should(Equal(int32(1)))
	d.g.Expect(d.untilEnded(fence).Status.Reason).To(Equal("Rejoined"))
	d.undone()
	d.g.Expect(d.OffRequests()).To(Equal(1))
	pods := &corev1.PodList{}
	d.g.Expect(w.API.List(t.Context(), pods, client.InNamespace(d.Name), client.MatchingLabels{batchv1.JobNameLabel: job.Name})).To(Succeed())
	d.g.Expect(pods.Items).To(HaveLen(1))
	ended := pods.Items[0].Status.ContainerStatuses[0].State.Terminated
	d.g.Expect(d.Requests()[0].At).To(BeTemporally(">=", ended.FinishedAt.Time))
	// The second Pod has written until the replacement of the first one was there.
	var last, first time.Time
	for _, run := range w.Kubelets.Writes.Runs(d.Name, "") {
		switch {
		case run.Node == d.Name && run.Last.After(last):
			last = run.Last
		case run.Node == d.spare.Name && (first.IsZero() || run.First.Before(first)):
			first = run.First
		}
	}
	d.g.Expect(last).To(BeTemporally(">", first))
}

// A drain that does not end in time leaves the Node as it was.
func TestFenceRelease_DrainTimesOut_NodeKeepsRunning(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	d := newDatabase(t, w, "drain-times-out")
	job := training(d.Name, d.Name, "600")
	d.create(job)
	d.g.Eventually(func() int32 {
		d.g.Expect(w.API.Get(t.Context(), client.ObjectKeyFromObject(job), job)).To(Succeed())
		return job.Status.Active
	}, limit).Should(Equal(int32(1)))
	fence := d.fence(func(f *fencingv1.NodeFence) {
		f.Spec.Drain = &fencingv1.Drain{Timeout: *duration(10 * time.Second), WaitFor: trainingPods()}
	})
	ended := d.untilEnded(fence)
	d.g.Expect(ended.Status.Reason).To(Equal("DrainTimedOut"))
	d.g.Expect(condition(ended, remedyv1.SucceededCondition)).To(Equal(metav1.ConditionFalse))
	d.undone()
	d.g.Expect(d.Requests()).To(BeEmpty())
	d.g.Expect(w.API.Get(t.Context(), client.ObjectKeyFromObject(job), job)).To(Succeed())
	d.g.Expect(job.Status.Active).To(Equal(int32(1)))
}
