// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Conditions of a NodeFence.
const (
	// AdmittedCondition is True when the fence has begun, and False with what it waits for.
	AdmittedCondition = "Admitted"
	// IsolatedCondition is True when all methods of isolation have succeeded.
	IsolatedCondition = "Isolated"
	// FencedCondition is True from when the Node, or its storage, was proven off. Its reason is the class of the evidence.
	FencedCondition = "Fenced"
	// ReleasedCondition is True when the workload is released.
	ReleasedCondition = "Released"
	// RecoveredCondition is True when the Node has joined again and everything is undone.
	RecoveredCondition = "Recovered"
)

// Annotations of a NodeFence.
const (
	// ConfirmOffAnnotation on a NodeFence is the UID of its Node: a person confirms that the machine is off, and stays off until the workload is
	// released. It needs the verb confirm.
	ConfirmOffAnnotation = "remedy.cluster.x-k8s.io/confirm-off"
	// CancelAnnotation on a NodeFence, with any value, withdraws the request: before the Node is switched off everything is undone, after
	// that the fence goes on to its end.
	CancelAnnotation = "remedy.cluster.x-k8s.io/cancel"
	// FinishedAnnotation on a NodeFence is its result. A NodeFence with it that has no status was moved, and is not fenced again.
	FinishedAnnotation = "remedy.cluster.x-k8s.io/finished"
	// FenceFinalizer is on a NodeFence from before its first change of a Node until everything is undone.
	FenceFinalizer = "remedy.cluster.x-k8s.io/fence"
	// BlockMoveAnnotation makes clusterctl move wait.
	BlockMoveAnnotation = "clusterctl.cluster.x-k8s.io/block-move"
)

// Taint and annotations of a Node.
const (
	// FencingTaint on a Node has the UID of its NodeFence as value. It is the lock of the Node, and what maxParallel counts.
	FencingTaint = "remedy.cluster.x-k8s.io/fencing"
	// RemediationTimestampAnnotation on a Node is when it was fenced last (RFC3339).
	RemediationTimestampAnnotation = "remedy.cluster.x-k8s.io/remediation-timestamp"
	// RemediationPodNameAnnotation on a Node is the NodeFence that fenced it last, as namespace/name.
	RemediationPodNameAnnotation = "remedy.cluster.x-k8s.io/remediation-podname"
)

// Names of what is generated from a NodeRemedy.
const (
	// NodeRemedyLabel on an object is the name of the NodeRemedy that it is generated from.
	NodeRemedyLabel = "remedy.cluster.x-k8s.io/node-remedy"
	// NodeRemedyFinalizer is on a NodeRemedy, and on its FenceProfile, until its check and the fences of the FenceProfile have ended.
	NodeRemedyFinalizer = "remedy.cluster.x-k8s.io/node-remedy"
)
