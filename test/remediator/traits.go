// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The finalizers of remediators that report conditions. MachineDeletion and CustomizedUser have none.
const (
	FenceAgentsFinalizer  = "fence-agents-remediation.medik8s.io/far-finalizer"
	ExampleFinalizer      = "remediation.example.com/reboot"
	SelfNodeFinalizer     = "self-node-remediation.medik8s.io/snr-finalizer"
	StorageBasedFinalizer = "medik8s.io/sbr-remediation-finalizer"
)

// traits are what differs between the remediators of medik8s, and of the example.
type traits struct {
	// finalizer is empty if it has none.
	finalizer string
	// finalizerFirst: it adds the finalizer before it reads the Node, so a request for a Node that does not exist is stuck.
	finalizerFirst bool
	// target is the name of the Node, or a stuckError.
	target func(request *unstructured.Unstructured) (string, error)
	// ignoresTimedOut: it does not read the timed-out annotation.
	ignoresTimedOut bool
	// excludes: it does not start while the Node has the label for the exclusion from remediation.
	excludes bool
	// missingFirst: it looks for the Node before anything else. A missing one fails the request, and a running agent goes on.
	missingFirst bool
	// outOfService: it sets this taint when it has succeeded, until the deletion of the request.
	outOfService bool
	// lastError is what it reports while it hangs, or does not find its target; empty if it does not report that.
	lastError string
	// runsScript: it runs a script in each reconcile, and reports nothing.
	runsScript bool
	// taint is on the Node from the start to the deletion of the request; cordons is spec.unschedulable for that time.
	taint   string
	cordons bool
	// deletesNode: it deletes the Machine of the Node, and the Node with it.
	deletesNode bool
	// reports are the conditions for each progress.
	reports map[progress]report
}

// progress is how far a remediator is with a request.
type progress uint8

const (
	started progress = iota + 1
	succeeded
	failed
	stopped
	nodeNotFound
	machineNotFound
)

// report is what a remediator reports. Other conditions stay.
type report struct {
	reason     string
	conditions map[string]corev1.ConditionStatus
}

// both are the conditions of most remediators.
func both(reason string, processing, succeeded corev1.ConditionStatus) report {
	return report{reason, map[string]corev1.ConditionStatus{processingCondition: processing, succeededCondition: succeeded}}
}

// withAgent adds the condition of the fence agent.
func (r report) withAgent(status corev1.ConditionStatus) report {
	r.conditions[agentCondition] = status
	return r
}

// only are the conditions of a remediator that does not report Succeeded.
func only(reason string, conditions map[string]corev1.ConditionStatus) report {
	return report{reason, conditions}
}

// The conditions of several remediators.
const (
	processingCondition = "Processing"
	succeededCondition  = "Succeeded"
	fencingCondition    = "FencingInProgress"
	readyCondition      = "Ready"
	disabledCondition   = "Disabled"
	agentCondition      = "FenceAgentActionSucceeded"
	deletionCondition   = "PermanentNodeDeletionExpected"
)

const (
	yes     = corev1.ConditionTrue
	no      = corev1.ConditionFalse
	unknown = corev1.ConditionUnknown
)

var medik8sTraits = map[schema.GroupKind]*traits{
	Example.GroupKind(): {
		finalizer: ExampleFinalizer, target: byAnnotation, taint: "remediation.example.com/reboot",
		reports: map[progress]report{
			started:      both("Started", yes, unknown),
			succeeded:    both("Rebooted", no, yes),
			failed:       both("RebootFailed", no, no),
			stopped:      both("Stopped", no, no),
			nodeNotFound: both("NodeNotFound", no, no),
		},
	},
	CustomizedUser.GroupKind(): {target: byName, runsScript: true},
	FenceAgents.GroupKind(): {
		finalizer: FenceAgentsFinalizer, target: byAnnotation, taint: "remediation.medik8s.io/fence-agents-remediation",
		missingFirst: true, outOfService: true,
		reports: map[progress]report{
			started:      both("RemediationStarted", yes, unknown).withAgent(unknown),
			succeeded:    both("RemediationFinishedSuccessfully", no, yes).withAgent(yes),
			failed:       both("FenceAgentFailed", no, no).withAgent(no),
			stopped:      both("RemediationInterruptedByNHC", no, no).withAgent(no),
			nodeNotFound: both("RemediationFinishedNodeNotFound", no, no).withAgent(no),
		},
	},
	SelfNode.GroupKind(): {
		finalizer: SelfNodeFinalizer, target: byOwner, taint: "remediation.medik8s.io/self-node-remediation", excludes: true,
		outOfService: true, lastError: "Node is not capable to reboot itself",
		reports: map[progress]report{
			started:   both("RemediationStarted", yes, unknown),
			succeeded: both("RemediationFinishedSuccessfully", no, yes),
			// A reboot never fails. What fails is an installation without a configuration, and that is not reported as Succeeded=False.
			failed:       only("ConfigurationNotFound", map[string]corev1.ConditionStatus{disabledCondition: yes}),
			stopped:      both("RemediationTimeoutByNHC", no, no),
			nodeNotFound: both("RemediationSkippedNodeNotFound", no, no),
		},
	},
	MachineDeletion.GroupKind(): {
		target: byName, deletesNode: true,
		reports: map[progress]report{
			started:         both("RemediationStarted", yes, unknown),
			succeeded:       both("MachineDeleted", no, yes),
			failed:          both("RemediationCannotStartNoControllerOwner", no, no),
			stopped:         both("RemediationStoppedByNHC", no, no),
			nodeNotFound:    both("RemediationCannotStartNodeNotFound", no, no),
			machineNotFound: both("RemediationCannotStartMachineNotFound", no, no),
		},
	},
	StorageBased.GroupKind(): {
		finalizer: StorageBasedFinalizer, finalizerFirst: true, target: byName, ignoresTimedOut: true, cordons: true,
		reports: map[progress]report{
			started: only("InProgress", map[string]corev1.ConditionStatus{"LeadershipAcquired": yes, fencingCondition: yes}),
			succeeded: only("Completed", map[string]corev1.ConditionStatus{
				fencingCondition: no, "FencingSucceeded": yes, readyCondition: yes,
			}),
			failed: only("Failed", map[string]corev1.ConditionStatus{fencingCondition: no, readyCondition: no}),
		},
	},
}
