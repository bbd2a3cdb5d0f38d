// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Snapshot is the facts that verdicts are based on, read at one moment.
type Snapshot struct {
	Cluster ClusterFacts
	Targets []Target
}

// ClusterFacts are the facts that all targets share.
type ClusterFacts struct {
	ControlPlaneInitialized Milestone
	InfrastructureReady     Milestone
	// ReconnectingUntil is the end of the grace period after a lost connection was restored.
	ReconnectingUntil time.Time
}

// Milestone is a state that is reached once. Since is zero if it is not recorded.
type Milestone struct {
	Reached bool
	Since   time.Time
}

// Target is a Machine with its Node, or a Node.
type Target struct {
	// Name is that of the Machine, or else of the Node.
	Name string
	// Machine is nil for a Node.
	Machine     *MachineFacts
	Node        NodeFacts
	Annotations Annotations
}

// Annotations are annotations of users on the target.
type Annotations struct {
	Paused          bool
	SkipRemediation bool
	Remediate       bool
}

// MachineFacts are the facts about a Machine.
type MachineFacts struct {
	CreatedAt           time.Time
	Deleting            bool
	ControlPlane        bool
	InfrastructureReady Milestone
	ProviderID          string
	// Failure is the deprecated failureReason or failureMessage.
	Failure string
	// NodeGoneSince is the recorded time since which its Node does not exist; zero if there is none.
	NodeGoneSince time.Time
	Conditions    []metav1.Condition
}

// NodeState is whether a Node exists.
type NodeState uint8

const (
	// Unreadable means that the Node could not be read. It is the zero value because it never leads to an action.
	Unreadable NodeState = iota
	// NotJoined is the Node of a Machine that has not joined yet. With a control plane, that was read live.
	NotJoined
	// Present is a Node that was read.
	Present
	// Gone is a Node that existed, and that was not found by a live read.
	Gone
)

// NodeFacts are the facts about a Node.
type NodeFacts struct {
	State      NodeState
	Name       string
	CreatedAt  time.Time
	ProviderID string
	// Conditions have the heartbeat only where their time was corrected: it is the time that was claimed.
	Conditions []corev1.NodeCondition
}

// nodeState is the state of the Node of the target. A Node with another provider ID than the Machine is another server.
func (t *Target) nodeState() NodeState {
	if t.Node.State == Present && t.Machine != nil &&
		t.Machine.ProviderID != "" && t.Node.ProviderID != "" && t.Machine.ProviderID != t.Node.ProviderID {
		return Gone
	}
	return t.Node.State
}
