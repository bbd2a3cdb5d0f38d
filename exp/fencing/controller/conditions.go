// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/jobs"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

// setConditions sets the conditions that follow from a record, and from what it waits for.
func setConditions(out *lifecycle.Outcome, observed *observed, fence *fencingv1.NodeFence, now time.Time) {
	s, o := &out.Record, &observed.Observation
	if observed.failure != "" && out.Effect != lifecycle.NoEffect {
		out.Why = lifecycle.Why{Reason: lifecycle.ReasonEffectFailed, Detail: observed.failure}
	}
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: fence.Generation,
			LastTransitionTime: metav1.NewTime(now),
		})
	}
	if waits(s) {
		// Deciding again at once is no reason to wait.
		if out.Why.Reason == "" {
			return
		}
		set(fencingv1.AdmittedCondition, metav1.ConditionFalse, out.Why.Reason, waitMessage(s, o, out.Why))
	} else if s.Node != nil {
		set(fencingv1.AdmittedCondition, metav1.ConditionTrue, lifecycle.ReasonAdmitted, "The fence of Node "+s.Node.Name+" has begun")
	}
	if names := methodsOf(s, func(m *fencingv1.MethodRecord) bool {
		return m.Step == fencingv1.StepIsolation && m.OffRequested != nil
	}); len(names) > 0 {
		if isIsolated(s) || meta.IsStatusConditionTrue(s.Conditions, fencingv1.IsolatedCondition) {
			set(fencingv1.IsolatedCondition, metav1.ConditionTrue, "Isolated", "The Node was isolated by "+list(names))
		} else {
			set(fencingv1.IsolatedCondition, metav1.ConditionFalse, "NotIsolated", "The Node is not isolated by "+list(names))
		}
	}
	setFenced(s, o.Plan, set)
	if s.Rejoined != nil && s.Phase == fencingv1.PhaseFinal {
		set(fencingv1.RecoveredCondition, metav1.ConditionTrue, lifecycle.ReasonRejoined,
			"Node "+s.Node.Name+" was Ready at "+text(s.Rejoined)+", and everything was undone")
	}
	ended := s.Phase == fencingv1.PhaseFinal || s.Result != "" && s.Phase != fencingv1.PhaseRunning
	if ended {
		end := "The fence has ended"
		if observed.failure != "" && out.Effect == lifecycle.Finish {
			end += ", and its finalizer is not removed: " + observed.failure
		}
		set(remedyv1.ProcessingCondition, metav1.ConditionFalse, string(s.Result), end)
		set(remedyv1.SucceededCondition, succeeded(s), s.Reason, result(s))
		return
	}
	reason, message := progress(s, o, out.Why)
	set(remedyv1.ProcessingCondition, metav1.ConditionTrue, reason, message)
	set(remedyv1.SucceededCondition, metav1.ConditionUnknown, reason, message)
}

func setFenced(s *fencingv1.NodeFenceStatus, plan *profile.Plan, set func(string, metav1.ConditionStatus, string, string)) {
	switch {
	case s.Evidence != nil:
		message := "Node " + s.Node.Name + " was proven off at " + text(&s.Evidence.RecordedAt) + ": every device of level " +
			fmt.Sprint(s.Evidence.Level+1) + " answered OFF"
		if level := plan.Level(s.Evidence.Level); level != nil && !slices.ContainsFunc(level, func(name fencingv1.MethodName) bool {
			return !slices.ContainsFunc(s.Methods, func(m fencingv1.MethodRecord) bool { return m.Name == name && m.Confirmed })
		}) {
			message += " twice"
		}
		if s.PoweredOn != nil {
			message += ". It was switched on at " + text(s.PoweredOn)
		}
		set(fencingv1.FencedCondition, metav1.ConditionTrue, string(s.Evidence.Class), message)
	case lifecycle.SwitchedOff(s):
		set(fencingv1.FencedCondition, metav1.ConditionFalse, lifecycle.ReasonNotProvenOff, "No level of devices has proven that the Node is off")
	}
}

func succeeded(s *fencingv1.NodeFenceStatus) metav1.ConditionStatus {
	if s.Result == fencingv1.ResultSucceeded {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// progress is what the fence does at present.
func progress(s *fencingv1.NodeFenceStatus, o *lifecycle.Observation, why lifecycle.Why) (reason, message string) {
	if why.Reason != "" {
		return why.Reason, waitMessage(s, o, why)
	}
	action := s.Action
	if action == nil || action.Ended {
		return string(s.Step), string(s.Phase) + " " + string(s.Step)
	}
	message = fmt.Sprintf("Method %s: Job %s performs %s", action.Method, jobs.Name(o.UID, action.Sequence), action.Action)
	if s.Retries > 0 {
		message += fmt.Sprintf(" after %s", plural(int(s.Retries), "failure"))
	}
	return lifecycle.ReasonWaitingForJob, message + until(s.Deadline)
}

// waitMessage is what the fence waits for, why, and what to do.
func waitMessage(s *fencingv1.NodeFenceStatus, o *lifecycle.Observation, why lifecycle.Why) string {
	node := "The Node"
	if o.Node.Name != "" {
		node = "Node " + o.Node.Name
	}
	switch why.Reason {
	case lifecycle.ReasonPaused:
		return "The NodeFence or its Cluster is paused: remove the annotation cluster.x-k8s.io/paused, or set spec.paused of the Cluster to false"
	case lifecycle.ReasonObserveMode:
		return "The manager only observes (--mode=Observe): no fence begins"
	case lifecycle.ReasonTargetUnreadable:
		return strings.TrimSuffix(node+" cannot be read, so it is not fenced: "+why.Detail, ": ")
	case lifecycle.ReasonNodeNotFound:
		if why.Detail != "" {
			return why.Detail
		}
		return node + " does not exist: set the annotation " + remedyv1.NodeNameAnnotation + ", or name the NodeFence after the Node"
	case lifecycle.ReasonNodeReady:
		return node + " is Ready, so it is not switched off"
	case lifecycle.ReasonQueued:
		return node + " is fenced by another NodeFence (UID " + why.Detail + "); this one is evaluated again after it"
	case lifecycle.ReasonNodeDisrupted:
		return node + " has the taint " + why.Detail + ": an autoscaler deletes it"
	case lifecycle.ReasonTooManyFences:
		return fmt.Sprintf("%s being fenced, and maxParallel allows %d", are(why.Count), why.Allowed)
	case lifecycle.ReasonTooManyNotReady:
		return fmt.Sprintf("%d of %d Nodes are not Ready, and maxNotReady allows %d of them, but not all. Check for a common cause",
			why.Count, why.Total, why.Allowed)
	case lifecycle.ReasonBlockingCondition:
		return node + " has the condition " + why.Detail + ", which is in blockingConditions"
	case lifecycle.ReasonControlPlane:
		return fmt.Sprintf("%s belongs to the control plane, and %d of its %d other Nodes are not Ready or are fenced: there must be one at "+
			"least, and all must be Ready", node, why.Count, why.Total)
	case lifecycle.ReasonDeviceBusy:
		return "Another Job uses the device of method " + why.Detail
	case lifecycle.ReasonPowerDelay:
		return node + " can become Ready" + until(s.Deadline) + " (powerDelay)"
	case lifecycle.ReasonWaitingForNode:
		return node + " was switched on, and is not Ready with a new boot yet" + until(s.Deadline)
	case lifecycle.ReasonWaitingForJob:
		_, message := progress(s, o, lifecycle.Why{})
		return message
	}
	return why.Detail
}

// result is how the fence ended, and what to do.
func result(s *fencingv1.NodeFenceStatus) string {
	message := failure(s)
	if left := leftOff(s); len(left) > 0 {
		if s.Rejoined != nil {
			return message + ". These methods did not switch on again: " + list(left)
		}
		message += ". The Node may be off: it was not switched on by " + list(left)
	}
	return message
}

// failure is why the fence ended, and what to do.
func failure(s *fencingv1.NodeFenceStatus) string {
	name := ""
	if s.Node != nil {
		name = s.Node.Name
	}
	switch s.Reason {
	case lifecycle.ReasonRejoined:
		return "Node " + name + " was switched off and on, and is Ready"
	case lifecycle.ReasonNodeReady:
		if lifecycle.SwitchedOff(s) {
			return "Node " + name + " is Ready, and was not proven off"
		}
		return "Node " + name + " became Ready, so it was not switched off"
	case lifecycle.ReasonPoweredOffBefore:
		return "Node " + name + " was off before, so it is not switched on: a person may be working on it. Switch it on, or delete the NodeFence"
	case lifecycle.ReasonNotSwitchedOff:
		return "Node " + name + " was isolated, and not switched off; the isolation is undone when it is Ready, or when the NodeFence is deleted"
	case lifecycle.ReasonDevicesAnswered:
		return "All devices answered: " + answers(s)
	case lifecycle.ReasonDeviceFailed:
		return "Not all devices answered: " + answers(s) + ". " + logs(s)
	case lifecycle.ReasonCanceled:
		return "The request was withdrawn before the Node was switched off"
	case lifecycle.ReasonTargetDeleted:
		return "The Machine of Node " + name + " is being deleted, or its Cluster does not exist"
	case lifecycle.ReasonMoved:
		return "The NodeFence was moved from another management cluster, where it has ended"
	case lifecycle.ReasonNodeReplaced:
		return "Node " + name + " no longer exists or was replaced, so nothing more is done to it or its machine"
	case lifecycle.ReasonNotIsolated:
		return "The Node is not isolated. " + logs(s)
	case lifecycle.ReasonNotProvenOff:
		return "No level of devices has proven that Node " + name + " is off. " + logs(s)
	case lifecycle.ReasonNotPoweredOn:
		return "Node " + name + " was proven off, and could not be switched on. " + logs(s)
	case lifecycle.ReasonNotRejoined:
		return "Node " + name + " was switched on, and did not become Ready within rejoinTimeout. Look at its console"
	case lifecycle.ReasonNotUnisolated:
		return "Node " + name + " is still isolated. " + logs(s)
	case lifecycle.ReasonWrongMachine:
		return "The devices answered OFF, but Node " + name + " runs with the same boot: they belong to another machine, which may be off. " +
			"Correct its row in FenceProfile " + profileOf(s)
	case lifecycle.ReasonJobNotEnding:
		return "A Job does not end. " + logs(s)
	case lifecycle.ReasonDeviceChanged:
		return "The method of a device that this fence has switched off has other parameters now, or no longer exists, so its answers prove " +
			"nothing about Node " + name + ". Change FenceProfile " + profileOf(s) + " back, or switch the Node on yourself"
	}
	return s.Reason
}

func profileOf(s *fencingv1.NodeFenceStatus) string {
	if s.Node == nil {
		return ""
	}
	return s.Node.ProfileName
}

// answers are what each device answered.
func answers(s *fencingv1.NodeFenceStatus) string {
	all := make([]string, 0, len(s.Methods))
	for i := range s.Methods {
		all = append(all, string(s.Methods[i].Name)+" "+strings.ToUpper(string(s.Methods[i].Power)))
	}
	return list(all)
}

// logs is how to read why a device failed. A message never has the text of a device.
func logs(s *fencingv1.NodeFenceStatus) string {
	for i := len(s.Jobs) - 1; i >= 0; i-- {
		job := &s.Jobs[i]
		if job.Result == fencingv1.JobSucceeded || job.Result == fencingv1.JobOff {
			continue
		}
		exit := ""
		if job.ExitCode != nil {
			exit = fmt.Sprintf(" (exit code %d)", *job.ExitCode)
		}
		return fmt.Sprintf("Method %s: %s failed%s. Read the log: kubectl logs job/%s", job.Method, job.Action, exit, job.Name)
	}
	return "Compare the power of the machine with its row in FenceProfile " + profileOf(s)
}

func until(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return " until " + text(t)
}

func text(t *metav1.Time) string { return t.UTC().Format(time.RFC3339) }

func list(names []string) string { return strings.Join(names, ", ") }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func are(n int) string {
	if n == 1 {
		return "1 other Node is"
	}
	return fmt.Sprintf("%d other Nodes are", n)
}
