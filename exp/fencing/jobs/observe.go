// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// The answers of a status action, each on a line of its own.
const (
	answerOn  = "Status: ON"
	answerOff = "Status: OFF"
	// uncut is how long a termination message can be without being cut: the kubelet cuts that of a container at 4096 bytes, those from a
	// log at 2048 bytes, and those of a Pod at 12 KiB together.
	uncut = 1000
)

// Observed is what a Job has done.
type Observed struct {
	Exists bool
	// Deleting is whether it is being deleted, so that no other Pod starts.
	Deleting bool
	// Finished is whether all of its Pods have ended. Result is empty until then.
	Finished bool
	Result   fencingv1.JobResult
	// ExitCode is that of its first container. It is nil if it is not known.
	ExitCode *int32
}

// Observe reads the result of a Job, which is nil if it does not exist. Pods of other Jobs do not count.
func Observe(job *batchv1.Job, pods []corev1.Pod) Observed {
	if job == nil {
		return Observed{}
	}
	o := Observed{Exists: true, Deleting: !job.DeletionTimestamp.IsZero()}
	timedOut := false
	for _, condition := range job.Status.Conditions {
		if condition.Status == corev1.ConditionTrue && (condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) {
			o.Finished = true
			timedOut = timedOut || condition.Reason == batchv1.JobReasonDeadlineExceeded
		}
	}
	seen := false
	for i := range pods {
		pod := &pods[i]
		if owner := metav1.GetControllerOf(pod); owner == nil || owner.UID != job.UID {
			continue
		}
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			o.Finished = false
		}
		result, exitCode := read(job, pod)
		if seen && result != o.Result {
			result, exitCode = fencingv1.JobUnknown, nil
		}
		o.Result, o.ExitCode, seen = result, exitCode, true
	}
	switch {
	case !o.Finished:
		return Observed{Exists: true, Deleting: o.Deleting}
	case !seen || timedOut:
		o.Result = fencingv1.JobUnknown
	}
	return o
}

// read reads the result of a Pod of a Job. Its first container counts, which is not always the first one of the Pod: webhooks add others.
func read(job *batchv1.Job, pod *corev1.Pod) (fencingv1.JobResult, *int32) {
	if len(job.Spec.Template.Spec.Containers) == 0 {
		return fencingv1.JobUnknown, nil
	}
	first := &job.Spec.Template.Spec.Containers[0]
	var ended *corev1.ContainerStateTerminated
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; status.Name == first.Name {
			ended = status.State.Terminated
		}
	}
	if ended == nil {
		return fencingv1.JobUnknown, nil
	}
	on, off := answers(ended.Message)
	// An agent answers on its standard output also if the power is on. That of a podTemplate is read from the log, but only if it has failed.
	mustAnswer := job.Labels[ActionLabel] == string(fencingv1.ActionStatus) &&
		first.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError
	switch {
	case ended.ExitCode == 0 && !off && (on || !mustAnswer):
		return fencingv1.JobSucceeded, &ended.ExitCode
	case ended.ExitCode == 2 && off && !on:
		return fencingv1.JobOff, &ended.ExitCode
	case ended.ExitCode == 1:
		return fencingv1.JobFailed, &ended.ExitCode
	}
	return fencingv1.JobUnknown, &ended.ExitCode
}

// answers returns which answers a message has. Lines that may have been cut do not count.
func answers(message string) (on, off bool) {
	lines := strings.Split(message, "\n")
	if len(message) > uncut {
		lines = lines[min(1, len(lines)-1) : len(lines)-1]
	}
	for _, line := range lines {
		line = strings.TrimRight(line, " \t\r")
		on, off = on || line == answerOn, off || line == answerOff
	}
	return on, off
}
