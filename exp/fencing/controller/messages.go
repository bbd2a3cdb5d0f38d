// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/describe"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

// waiting are what a fence waits for, why, and what to do. $ begins a variable of waitMessage.
var waiting = map[string]string{
	lifecycle.ReasonPaused: "The NodeFence or its Cluster is paused: remove the annotation cluster.x-k8s.io/paused, or set spec.paused " +
		"of the Cluster to false",
	lifecycle.ReasonObserveMode:      "The manager only observes (--mode=Observe): no fence begins",
	lifecycle.ReasonTargetUnreadable: "$node cannot be read, so it is not fenced: $detail",
	lifecycle.ReasonNodeNotFound: "$node does not exist: set the annotation " + remedyv1.NodeNameAnnotation + ", or name the NodeFence " +
		"after the Node. For the check of a FenceProfile, correct the row",
	lifecycle.ReasonNodeReady:     "$node is Ready, so it is not switched off",
	lifecycle.ReasonQueued:        "$node is fenced by another NodeFence (UID $detail); this one is evaluated again after it",
	lifecycle.ReasonNodeDisrupted: "$node has the taint $detail: an autoscaler deletes it",
	lifecycle.ReasonTooManyFences: "$others being fenced, and maxParallel allows $allowed",
	lifecycle.ReasonTooManyNotReady: "$count of $total Nodes are not Ready, and maxNotReady allows $allowed of them, but not all. Check " +
		"for a common cause",
	lifecycle.ReasonBlockingCondition: "$node has the condition $detail, which is in blockingConditions",
	lifecycle.ReasonControlPlane: "$node belongs to the control plane, and $count of its $total other Nodes are not Ready or are fenced: " +
		"there must be one at least, and all must be Ready",
	lifecycle.ReasonDeviceBusy:     "Another Job uses the device of method $detail",
	lifecycle.ReasonPowerDelay:     "$node can become Ready$until (powerDelay)",
	lifecycle.ReasonWaitingForNode: "$node was switched on, and is not Ready with a new boot yet$until",
	lifecycle.ReasonDraining: "$node is Ready, so its Pods are evicted before it is fenced$until. These have not ended: $names. If one " +
		"stays, check its PodDisruptionBudget: kubectl get pdb -A",
	lifecycle.ReasonNodeStillReports: "$node is proven off, but its kubelet is not silent (Ready is not Unknown), so its Pods are not " +
		"removed$until. Kubernetes reports a silent kubelet after about 50 seconds. If this lasts, another machine was switched off: " +
		"compare its row in FenceProfile $profile",
	lifecycle.ReasonWaitingForPods: "Pods of $node are being deleted, and $count do not terminate yet$until. All of them: $names",
	lifecycle.ReasonReleasing:      "These are being removed from $node$until: $names",
	lifecycle.ReasonWaitingForNewBoot: "Pods of $node were removed because it was cut off from their storage, so it gets its storage " +
		"back after a new boot. Reboot it. Or switch it off and confirm that: $confirm",
}

// waitMessage is what the fence waits for, why, and what to do.
func waitMessage(fence *fencingv1.NodeFence, o *lifecycle.Observation, why lifecycle.Why) string {
	message, found := waiting[why.Reason]
	switch {
	case why.Reason == lifecycle.ReasonWaitingForJob:
		_, message = progress(fence, o, lifecycle.Why{})
		return message
	case !found, why.Reason == lifecycle.ReasonNodeNotFound && why.Detail != "":
		return why.Detail
	case why.Reason == lifecycle.ReasonTargetUnreadable && !waits(&fence.Status):
		message = "$node or its Pods cannot be read: $detail"
	}
	node, names := "The Node", ""
	if o.Node.Name != "" {
		node = "Node " + o.Node.Name
	}
	if o.Workload != nil {
		names = list(o.Workload.Names)
	}
	return strings.TrimSuffix(strings.NewReplacer(
		"$node", node, "$detail", why.Detail, "$others", are(why.Count), "$count", strconv.Itoa(why.Count), "$total", strconv.Itoa(why.Total),
		"$allowed", strconv.Itoa(why.Allowed), "$until", until(fence.Status.Deadline), "$names", cmp.Or(names, "none"),
		"$profile", profileOf(&fence.Status), "$confirm", describe.ConfirmOff(fence),
	).Replace(message), ": ")
}

// result is how the fence ended, and what to do.
func result(fence *fencingv1.NodeFence) string {
	message := failure(fence)
	if left := leftOff(&fence.Status); len(left) > 0 {
		if fence.Status.Rejoined != nil {
			return message + ". These methods did not switch on again: " + list(left)
		}
		message += ". The Node may be off: it was not switched on by " + list(left)
	}
	return message
}

// endings are why a fence ended, and what to do. $ begins a variable of failure.
var endings = map[string]string{
	lifecycle.ReasonRejoined:  "Node $node was switched off and on, and is Ready",
	lifecycle.ReasonNodeReady: "Node $node became Ready, so it was not switched off",
	lifecycle.ReasonPoweredOffBefore: "Node $node was off before, so it is not switched on: a person may be working on it. Switch it on, " +
		"or delete the NodeFence",
	lifecycle.ReasonKeptOff: "Node $node is off, and is not switched on because powerOn is Never. Switch it on, or delete the NodeFence",
	lifecycle.ReasonNotSwitchedOff: "Node $node was isolated, and not switched off; the isolation is undone when it is Ready, or when " +
		"the NodeFence is deleted",
	lifecycle.ReasonDevicesAnswered: "All devices answered: $answers",
	lifecycle.ReasonDeviceFailed:    "Not all devices answered: $answers. $logs",
	lifecycle.ReasonCanceled:        "The request was withdrawn before the Node was switched off",
	lifecycle.ReasonTargetDeleted:   "The Machine of Node $node is being deleted, or its Cluster does not exist",
	lifecycle.ReasonMoved:           "The NodeFence was moved from another management cluster, where it has ended",
	lifecycle.ReasonNodeReplaced:    "Node $node no longer exists or was replaced, so nothing more is done to it or its machine",
	lifecycle.ReasonNotIsolated:     "The Node is not isolated. $logs",
	lifecycle.ReasonDrainTimedOut: "Node $node runs on, because Pods were left after drain.timeout: $pods. End them, or set " +
		"drain.afterTimeout to Continue in a new NodeFence",
	lifecycle.ReasonNotProvenOff: "No level of devices has proven that Node $node is off. $logs. If you have switched its machine off, " +
		"confirm that it stays off: $confirm",
	lifecycle.ReasonNotReleased: "The Pods of Node $node could not be removed within release.timeout, so it is not switched on. Read " +
		"which are left, in its cluster: kubectl get pods -A --field-selector spec.nodeName=$node",
	lifecycle.ReasonNotPoweredOn:  "Node $node was proven off, and could not be switched on. $logs",
	lifecycle.ReasonNotRejoined:   "Node $node was switched on, and did not become Ready within rejoinTimeout. Look at its console",
	lifecycle.ReasonNotRecovered:  "Node $node is Ready, and a method of recovery has failed, so it keeps the taint and gets no Pods. $logs",
	lifecycle.ReasonNotUnisolated: "Node $node is still isolated. $logs",
	lifecycle.ReasonWrongMachine: "The devices answered OFF, but Node $node runs with the same boot: they belong to another machine, " +
		"which may be off. Correct its row in FenceProfile $profile",
	lifecycle.ReasonJobNotEnding: "A Job does not end. $logs",
	lifecycle.ReasonDeviceChanged: "The method of a device that this fence has switched off has other parameters now, or no longer " +
		"exists, so its answers prove nothing about Node $node. Change FenceProfile $profile back, or switch the Node on yourself",
}

// failure is why the fence ended, and what to do.
func failure(fence *fencingv1.NodeFence) string {
	s, node := &fence.Status, fence.Annotations[remedyv1.NodeNameAnnotation]
	if s.Node != nil {
		node = s.Node.Name
	}
	message, found := endings[s.Reason]
	switch {
	case !found:
		return s.Reason
	case s.Reason == lifecycle.ReasonDevicesAnswered && answers(s) == "":
		message = "No device was asked: the power management has only " + profile.KernelDumpAgent + ", which cannot be asked for the power"
	case s.Reason == lifecycle.ReasonNodeReady && lifecycle.SwitchedOff(s):
		message = "Node $node is Ready, and was not proven off"
	case s.Reason == lifecycle.ReasonRejoined && !lifecycle.SwitchedOff(s):
		message = "Node $node has booted again, and is Ready"
	}
	return strings.NewReplacer(
		"$node", node, "$profile", profileOf(s), "$answers", answers(s), "$logs", logs(s), "$pods", cmp.Or(list(s.PodsLeft), "not read"),
		"$confirm", describe.ConfirmOff(fence),
	).Replace(message)
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
		// Without a power it was not asked.
		if s.Methods[i].Power != "" {
			all = append(all, string(s.Methods[i].Name)+" "+strings.ToUpper(string(s.Methods[i].Power)))
		}
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
