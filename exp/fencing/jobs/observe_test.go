// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package jobs_test

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/jobs"
)

// ended is a Pod of a Job whose first container has ended.
func ended(job *batchv1.Job, exitCode int32, message string) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: job.UID, Controller: ptr.To(true)}}}}
	pod.Status.Phase = corev1.PodFailed
	if exitCode == 0 {
		pod.Status.Phase = corev1.PodSucceeded
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		// A webhook has added it.
		{Name: "injected", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Message: "Status: OFF\n"}}},
		{Name: job.Spec.Template.Spec.Containers[0].Name, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode, Message: message},
		}},
	}
	return pod
}

func finish(job *batchv1.Job, condition batchv1.JobConditionType, reason string) *batchv1.Job {
	job = job.DeepCopy()
	job.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue, Reason: reason}}
	return job
}

func TestObserve_Answers_OfAgentsAndOwnImages(t *testing.T) {
	long, wide := strings.Repeat("x\n", 2000), strings.Repeat("x", 2000)
	on, off, unknown := fencingv1.JobSucceeded, fencingv1.JobOff, fencingv1.JobUnknown
	for name, row := range map[string]struct {
		action   fencingv1.Action
		own      bool
		exitCode int32
		message  string
		result   fencingv1.JobResult
	}{
		"on":                         {action: "status", message: "Status: ON\n", result: on},
		"off":                        {action: "status", exitCode: 2, message: "Status: OFF\n", result: off},
		"off without newline":        {action: "status", exitCode: 2, message: "Status: OFF", result: off},
		"off with blanks":            {action: "status", exitCode: 2, message: "Status: OFF \t\r\n", result: off},
		"off after others":           {action: "status", exitCode: 2, message: "hello\nStatus: OFF\nbye\n", result: off},
		"off after many":             {action: "status", exitCode: 2, message: long + "Status: OFF\n", result: off},
		"off, of an own image":       {action: "status", own: true, exitCode: 2, message: "PLAY [all]\nStatus: OFF\n", result: off},
		"on, of an own image":        {action: "status", own: true, result: on},
		"contradiction of own image": {action: "status", own: true, message: "Status: OFF\n", result: unknown},
		"failed":                     {action: "status", exitCode: 1, message: "Status: OFF\n", result: fencingv1.JobFailed},
		"only exit code 2":           {action: "status", exitCode: 2, result: unknown},
		"part of a line":             {action: "status", exitCode: 2, message: "The last was Status: OFF\n", result: unknown},
		"longer line":                {action: "status", exitCode: 2, message: "Status: OFFLINE\n", result: unknown},
		"indented":                   {action: "status", exitCode: 2, message: " Status: OFF\n", result: unknown},
		"lower case":                 {action: "status", exitCode: 2, message: "status: off\n", result: unknown},
		"both":                       {action: "status", exitCode: 2, message: "Status: ON\nStatus: OFF\n", result: unknown},
		"may be cut at its begin":    {action: "status", exitCode: 2, message: "Status: OFF\n" + long, result: unknown},
		"may be cut at its end":      {action: "status", exitCode: 2, message: long + "Status: OFF", result: unknown},
		"one long line":              {action: "status", exitCode: 2, message: wide, result: unknown},
		"off with exit code 0":       {action: "status", message: "Status: OFF\n", result: unknown},
		"on with exit code 2":        {action: "status", exitCode: 2, message: "Status: ON\n", result: unknown},
		"silent exit code 0":         {action: "status", result: unknown},
		"no permission":              {action: "status", exitCode: 126, result: unknown},
		"no agent":                   {action: "status", exitCode: 127, result: unknown},
		"killed":                     {action: "status", exitCode: 137, message: "Status: OFF\n", result: unknown},
		"negative":                   {action: "status", exitCode: -1, result: unknown},
		"switched off":               {action: "off", message: "Success: Powered OFF\n", result: on},
		"switched on":                {action: "on", message: "Success: Already ON\n", result: on},
		"run":                        {action: "run", own: true, result: on},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := request(row.action)
			if row.own {
				r = ownPod(row.action, func(*corev1.PodSpec) {})
			}
			job := build(g, r)
			condition := batchv1.JobFailed
			if row.exitCode == 0 {
				condition = batchv1.JobComplete
			}
			g.Expect(jobs.Observe(finish(job, condition, ""), []corev1.Pod{ended(job, row.exitCode, row.message)})).To(Equal(
				jobs.Observed{Exists: true, Finished: true, Result: row.result, ExitCode: &row.exitCode}))
		})
	}
}

func TestObserve_PodsAndConditions_DecideWhatCounts(t *testing.T) {
	g := NewWithT(t)
	job := build(g, request(fencingv1.ActionStatus))
	isOff := ended(job, 2, "Status: OFF\n")
	observe := func(job *batchv1.Job, pods ...corev1.Pod) jobs.Observed { return jobs.Observe(job, pods) }
	failed := finish(job, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
	off := jobs.Observed{Exists: true, Finished: true, Result: fencingv1.JobOff, ExitCode: ptr.To[int32](2)}
	notFinished, unknown := jobs.Observed{Exists: true}, jobs.Observed{Exists: true, Finished: true, Result: fencingv1.JobUnknown}

	g.Expect(observe(nil, isOff)).To(Equal(jobs.Observed{}))
	g.Expect(observe(job, isOff)).To(Equal(notFinished), "no condition")
	g.Expect(observe(finish(job, batchv1.JobFailureTarget, ""), isOff)).To(Equal(notFinished), "its Pods have not ended")
	g.Expect(observe(finish(job, batchv1.JobSuccessCriteriaMet, ""), isOff)).To(Equal(notFinished))
	stopped := failed.DeepCopy()
	stopped.Status.Conditions[0].Status = corev1.ConditionFalse
	g.Expect(observe(stopped, isOff)).To(Equal(notFinished))
	g.Expect(observe(failed, isOff)).To(Equal(off))
	g.Expect(observe(failed)).To(Equal(unknown), "no Pod")
	late := observe(finish(job, batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded), isOff)
	g.Expect(late.Result).To(Equal(fencingv1.JobUnknown), "deadline")

	foreign := isOff.DeepCopy()
	foreign.OwnerReferences[0].UID = "other"
	g.Expect(observe(failed, *foreign)).To(Equal(unknown))
	foreign.OwnerReferences[0].UID, foreign.OwnerReferences[0].Controller = job.UID, nil
	g.Expect(observe(failed, *foreign)).To(Equal(unknown), "an owner that is no controller")
	g.Expect(observe(failed, *foreign, isOff)).To(Equal(off))

	g.Expect(observe(failed, isOff, isOff)).To(Equal(off))
	for _, other := range []corev1.Pod{ended(job, 0, "Status: ON\n"), ended(job, 1, ""), ended(job, 137, "")} {
		g.Expect(observe(failed, isOff, other)).To(Equal(unknown))
		g.Expect(observe(failed, other, isOff)).To(Equal(unknown))
		g.Expect(observe(failed, isOff, other, isOff)).To(Equal(unknown))
	}
	running := isOff.DeepCopy()
	running.Status.Phase = corev1.PodRunning
	g.Expect(observe(failed, isOff, *running)).To(Equal(notFinished), "one of its Pods has not ended")
	silent := isOff.DeepCopy()
	silent.Status.ContainerStatuses = silent.Status.ContainerStatuses[:1]
	g.Expect(observe(failed, *silent)).To(Equal(unknown), "the answer of another container")
}

// Whatever a container prints, OFF needs exit code 2 and a whole line.
func TestObserve_AnyOutput_OffNeedsCodeAndLine(t *testing.T) {
	pieces := rapid.SampledFrom([]string{"Status: OFF", "Status: ON", "\n", "\r", " ", "x", "status: OFF", strings.Repeat("y", 600)})
	job := build(NewWithT(t), request(fencingv1.ActionStatus))
	failed := finish(job, batchv1.JobFailed, "")
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		message := strings.Join(rapid.SliceOfN(pieces, 0, 8).Draw(t, "message"), "")
		exitCode := rapid.Int32Range(-1, 4).Draw(t, "exit code")
		got := jobs.Observe(failed, []corev1.Pod{ended(job, exitCode, message)})
		g.Expect(got.Finished).To(BeTrue())
		if got.Result == fencingv1.JobOff {
			lines := strings.Split(message, "\n")
			g.Expect(exitCode).To(Equal(int32(2)))
			isOff := func(line string) bool { return strings.TrimRight(line, " \r\t") == "Status: OFF" }
			g.Expect(slices.ContainsFunc(lines, isOff)).To(BeTrue(), "%q", message)
		}
		if got.Result == fencingv1.JobSucceeded {
			g.Expect(exitCode).To(BeZero())
		}
	})
}
