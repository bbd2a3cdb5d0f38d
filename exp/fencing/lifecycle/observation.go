// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/jobs"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

// Observation is what was read for one decision.
type Observation struct {
	// Spec and UID are those of the NodeFence.
	Spec *fencingv1.NodeFenceSpec
	UID  types.UID
	// Deleting: the NodeFence is being deleted. Canceled: its requester or a person has withdrawn it.
	Deleting, Canceled bool
	// Finalizer and BlockMove: it has them. Finished is the value of its annotation.
	Finalizer, BlockMove bool
	Finished             string
	// Paused: the NodeFence or its Cluster is paused. Observe: the manager only observes.
	Paused, Observe bool
	// TargetGone: the Machine of the Node is being deleted, or its Cluster no longer exists.
	TargetGone bool

	// Problem is why the target or its profile is not known; nil if Plan is set.
	Problem *profile.Problem
	Plan    *profile.Plan
	Node    Node
	// Unreadable is why the Node or its cluster was not read.
	Unreadable string
	// Cluster is nil unless NeedsCluster.
	Cluster *Cluster
	// Workload is nil unless NeedsWorkload, and if it was not read.
	Workload *Workload
	// ConfirmedOff: a person has confirmed that the machine of the Node with this UID is off.
	ConfirmedOff types.UID

	// Job is the Job of the last action of the record.
	Job jobs.Observed
	// Busy are the methods whose device another Job uses.
	Busy map[fencingv1.MethodName]bool
}

// NodeState is whether a Node was read.
type NodeState int

// The states of a Node.
const (
	// NodeUnreadable: no API server answered.
	NodeUnreadable NodeState = iota
	// NodePresent: it exists.
	NodePresent
	// NodeGone: its API server answered that it does not exist.
	NodeGone
)

// Node is the Node of a fence, read live.
type Node struct {
	State        NodeState
	Name         string
	UID          types.UID
	ProviderID   string
	BootID       string
	ClusterName  string
	MachineName  string
	ControlPlane bool
	// Ready is the status of its condition Ready; Unknown if it has none.
	Ready corev1.ConditionStatus
	// Conditions are the status of all conditions.
	Conditions map[string]corev1.ConditionStatus
	// Fence is the value of the fencing taint, the UID of a NodeFence; empty without the taint.
	Fence string
	// Marked: the Node has a taint of this fence, also if another fence counts.
	Marked bool
	// Evicts: the fencing taint of this fence also evicts Pods. OutOfService: the Node has the taint out-of-service, of whichever party.
	// ReleaseTaint: it has it with the value and the effect that a fence adds.
	Evicts, OutOfService, ReleaseTaint bool
	// Disruption is the taint of an autoscaler that deletes the Node; empty without one.
	Disruption string
}

// Cluster is all Nodes of the cluster of the Node, read live.
type Cluster struct {
	// Nodes and NotReady count all Nodes, the Node of the fence too.
	Nodes, NotReady int
	// Fenced counts the other Nodes that have the taint of a fence.
	Fenced int
	// FencedBefore counts those of them whose fence has a smaller UID.
	FencedBefore int
	// OtherControlPlane counts the other Nodes of the control plane, and UnavailableControlPlane those of them that are not Ready or are
	// fenced.
	OtherControlPlane, UnavailableControlPlane int
}

// WorkloadScope is which Pods of a Node matter to a decision. Mirror Pods, Pods of DaemonSets and Pods that have ended never do.
type WorkloadScope string

// The scopes of workload.
const (
	// NoWorkload: no Pods are read.
	NoWorkload WorkloadScope = ""
	// DrainScope is every other Pod.
	DrainScope WorkloadScope = "Drain"
	// NodeScope is every other Pod that does not tolerate the fencing taint with effect NoExecute.
	NodeScope WorkloadScope = "Node"
	// StorageScope is every other Pod with a PersistentVolumeClaim whose volumes all have a class that the isolation covers.
	StorageScope WorkloadScope = "Storage"
)

// Workload is what runs on a Node, read live.
type Workload struct {
	// Pods are the Pods of the scope. Staying are those of them without a deletion timestamp.
	Pods, Staying int
	// Attachments are the VolumeAttachments of the Node. They do not matter to a drain, nor to a release of storage.
	Attachments int
	// Names name at most ten of all these.
	Names []string
}

// Effect is what is done after the record was written.
type Effect string

// The effects.
const (
	// NoEffect changes nothing but the record.
	NoEffect Effect = ""
	// AddFinalizer adds the finalizer and the annotation block-move to the NodeFence.
	AddFinalizer Effect = "AddFinalizer"
	// AddTaint adds the fencing taint to the Node, unless it has changed since it was read.
	AddTaint Effect = "AddTaint"
	// RunJob creates the Job of the action of the record, unless it exists.
	RunJob Effect = "RunJob"
	// DeleteJob deletes the Job of the action of the record, so that it does not act later.
	DeleteJob Effect = "DeleteJob"
	// Unblock removes the finalizer and the annotation block-move from a NodeFence that waits to begin.
	Unblock Effect = "Unblock"
	// EvictPods evicts the Pods of a drain, but those that end by themselves.
	EvictPods Effect = "EvictPods"
	// AddNoExecute lets the fencing taint evict Pods.
	AddNoExecute Effect = "AddNoExecute"
	// TerminatePods deletes Pods of the scope that stay, gracefully: as many as a second allows.
	TerminatePods Effect = "TerminatePods"
	// AddOutOfService adds the taint out-of-service to the Node, unless it has it.
	AddOutOfService Effect = "AddOutOfService"
	// RemovePods removes terminating Pods of the scope from the API, without their grace period.
	RemovePods Effect = "RemovePods"
	// RemoveOutOfService removes the taint out-of-service from the Node.
	RemoveOutOfService Effect = "RemoveOutOfService"
	// RemoveTaint removes the fencing taint from the Node, with every effect.
	RemoveTaint Effect = "RemoveTaint"
	// Finish sets the annotation finished, and removes the finalizer and block-move.
	Finish Effect = "Finish"
)

// Outcome is a decision.
type Outcome struct {
	// Record is the next record. If it differs from the last one, it is written before the effect.
	Record fencingv1.NodeFenceStatus
	Effect Effect
	// Why is what the fence waits for; empty if it does not wait.
	Why Why
	// Wake is when to decide again if nothing changes before; zero for at once.
	Wake time.Time
}

// Why is what a fence waits for, or why it has failed.
type Why struct {
	Reason string
	// Detail is a part of the message that follows from no other fact, such as the names of two profiles.
	Detail string
	// Count of Total, where a limit allows Allowed.
	Count, Total, Allowed int
}
