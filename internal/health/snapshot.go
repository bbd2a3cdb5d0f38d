// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Snapshot is everything that a judgement rests on: plain facts, read at one moment.
type Snapshot struct {
	Cluster ClusterFacts
	Targets []Target
}

// ClusterFacts are the facts that all targets share. The Nodes of the cluster we run in have a control plane and infrastructure, by the look of it.
type ClusterFacts struct {
	ControlPlaneInitialized Milestone
	InfrastructureReady     Milestone
	// FirstLookUntil is set after a lost connection has come back: until then Nodes and their controller speak first.
	FirstLookUntil time.Time
}

// Milestone is something that has been reached, or has not. Since is zero where nobody wrote down when.
type Milestone struct {
	Reached bool
	Since   time.Time
}

// Target is a Machine with the Node it has or ought to have, or a bare Node.
type Target struct {
	// Name is that of the Machine, or of the Node where there is none.
	Name string
	// Machine is nil for a bare Node.
	Machine *MachineFacts
	Node    NodeFacts
	Wishes  Wishes
}

// Wishes are what people have asked for, by annotations on the target.
type Wishes struct {
	Paused          bool
	SkipRemediation bool
	Remediate       bool
}

// MachineFacts are what is known of a Machine.
type MachineFacts struct {
	CreatedAt           time.Time
	Deleting            bool
	ControlPlane        bool
	InfrastructureReady Milestone
	ProviderID          string
	// Failure is the deprecated failureReason, or failureMessage, of a Machine that has given up.
	Failure string
	// NodeGoneSince is when its Node was first found to be gone; zero if that has not been noted yet.
	NodeGoneSince time.Time
	Conditions    []metav1.Condition
}

// NodeState is what is known about the existence of a Node.
type NodeState uint8

const (
	// Unreadable is the zero value, as it is the safe one: nothing can be said, and nothing is done for it.
	Unreadable NodeState = iota
	// NotJoined is a Machine's Node that has not come yet. Once there is a control plane, only one that can be read says so.
	NotJoined
	// Present is a Node that was read.
	Present
	// Gone is a Node that was there once, and of which a live API server says that it is not found.
	Gone
)

// NodeFacts are what is known of a Node.
type NodeFacts struct {
	State      NodeState
	Name       string
	CreatedAt  time.Time
	ProviderID string
	Conditions []corev1.NodeCondition
}

// nodeState is the state of the target's own Node. A Node with another provider ID only has its name: the Machine's Node is gone.
func (t *Target) nodeState() NodeState {
	if t.Node.State == Present && t.Machine != nil &&
		t.Machine.ProviderID != "" && t.Node.ProviderID != "" && t.Machine.ProviderID != t.Node.ProviderID {
		return Gone
	}
	return t.Node.State
}
