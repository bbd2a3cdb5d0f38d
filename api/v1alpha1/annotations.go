// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Prefix is the prefix of every annotation, label and finalizer of Remedy. kubectl remedy uninstall removes every key with it.
const Prefix = "remedy.cluster.x-k8s.io/"

// Annotations that users set.
const (
	// AdoptAnnotation on an in-tree MachineHealthCheck with the value "true" makes the manager adopt that check. On a Cluster, it makes the
	// manager adopt the checks that the topology of the Cluster generates.
	AdoptAnnotation = Prefix + "adopt"

	// SkipRemediationAnnotation on a Node, with any value, keeps NodeHealthChecks from monitoring it.
	SkipRemediationAnnotation = Prefix + "skip-remediation"

	// RemediateNodeAnnotation on a Node, with any value, makes it unhealthy at once for NodeHealthChecks.
	RemediateNodeAnnotation = Prefix + "remediate-node"

	// RequestPluralsAnnotation on a check names the plurals of request kinds that do not simply end in "s", such as
	// "FooProxy=fooproxies,Gas=gases". It is necessary where the author of the check must be allowed to create requests of such a kind.
	RequestPluralsAnnotation = Prefix + "request-plurals"
)

// Pause is the value of the annotation cluster.x-k8s.io/paused on a check that the manager has adopted.
const Pause = "remedy.cluster.x-k8s.io"

// Annotations that the manager sets. They survive a restart and a move to another management cluster.
const (
	// MarkedByAnnotation on a Machine is the check that has set its conditions, as kind/name. It is written before them.
	MarkedByAnnotation = Prefix + "marked-by"
	// OwnerRequestedAtAnnotation on a Machine is when this check has set OwnerRemediated=False (RFC3339). It is written before the condition.
	// A condition with another transition time was set by another component, and this check does not remove it.
	OwnerRequestedAtAnnotation = Prefix + "owner-requested-at"

	// NodeGoneSinceAnnotation on a Machine is since when its Node does not exist (RFC3339). It is removed when the Node exists again.
	NodeGoneSinceAnnotation = Prefix + "node-gone-since"

	// AttemptsAnnotation on a Machine or a Node is the number of remediations that have failed in a row.
	AttemptsAnnotation = Prefix + "failed-remediations"

	// NotBeforeAnnotation on a Machine or a Node is when the next remediation can begin (RFC3339).
	NotBeforeAnnotation = Prefix + "not-before"

	// TriedAnnotation on a Machine or a Node is the escalation step that was given up last, as order and template. It is removed when a new
	// attempt begins.
	TriedAnnotation = Prefix + "tried"

	// ReplacingAnnotation on a check is the Machines that their owners have still to replace. maxInFlight counts them.
	ReplacingAnnotation = Prefix + "replacing"

	// StormSinceAnnotation on a check is when the limit was exceeded (RFC3339). It is removed when the storm ends.
	StormSinceAnnotation = Prefix + "storm-since"

	// RequestKindsAnnotation on a check lists the kinds of requests that it may have created, such as "Metal3Remediation.v1beta1.example.com".
	// A cluster-scoped check adds their namespace, such as "Metal3Remediation.v1beta1.example.com@default".
	// It is written with the finalizer, before the first request of a kind, so that requests of a kind that the check no longer names are
	// found.
	RequestKindsAnnotation = Prefix + "request-kinds"

	// CooldownSinceAnnotation on a check is since when the limit has been kept, during a storm (RFC3339).
	CooldownSinceAnnotation = Prefix + "cooldown-since"

	// CheckAnnotation on a request is the check that it was created for, as kind/namespace/name.
	CheckAnnotation = Prefix + "check"

	// StepAnnotation on a request is the order of the escalation step that it belongs to.
	StepAnnotation = Prefix + "step"

	// AttemptAnnotation on a request is the number of the attempt that it belongs to.
	AttemptAnnotation = Prefix + "attempt"

	// StartedAnnotation on a request is when it was created (RFC3339): a move gives it a new creation time.
	StartedAnnotation = Prefix + "started"

	// NodeUIDAnnotation on a request is the UID of the Node that it was created for.
	NodeUIDAnnotation = Prefix + "node-uid"

	// HealthySinceAnnotation on a request is since when its target is healthy again (RFC3339). It is removed when the target becomes
	// unhealthy.
	HealthySinceAnnotation = Prefix + "healthy-since"

	// AdoptionIDAnnotation on an in-tree MachineHealthCheck identifies its adoption, and the manager that adopts it. It is written before the
	// condition Adopted.
	AdoptionIDAnnotation = Prefix + "adoption-id"
)

// Labels of Remedy.
const (
	// AggregateToManagerLabel with the value "true" on a ClusterRole gives its permissions to the manager, which needs them to read templates
	// and create requests.
	AggregateToManagerLabel = Prefix + "aggregate-to-manager"

	// CheckLabel on a request in a workload cluster identifies the check and the Cluster that it was created for.
	CheckLabel = Prefix + "check"
)

// CleanupFinalizer is on a check while there is something to clean up when it is deleted.
const CleanupFinalizer = Prefix + "cleanup"

// Annotations and labels of other projects.
const (
	// AggregateToRemediationLabel on a ClusterRole gives its permissions to the operator of medik8s, and to the manager only with the
	// component medik8s-aggregation.
	AggregateToRemediationLabel = "rbac.ext-remediation/aggregate-to-ext-remediation"

	// ExcludeLabel with the value "true" on a Node excludes it from remediation.
	ExcludeLabel = "remediation.medik8s.io/exclude-from-remediation"

	// ControlPlaneRequestLabel on a request means that its Node belongs to the control plane.
	ControlPlaneRequestLabel = "remediation.medik8s.io/isControlPlaneNode"

	// ConfirmedHealthyAnnotation on a Node means that a person has confirmed that it is healthy.
	ConfirmedHealthyAnnotation = "remediation.medik8s.io/manually-confirmed-healthy"

	// NodeNameAnnotation on a request is the name of the Node that it was created for.
	NodeNameAnnotation = "remediation.medik8s.io/node-name"

	// TemplateNameAnnotation on a request is the name of the template that it was created from.
	TemplateNameAnnotation = "remediation.medik8s.io/template-name"

	// TimedOutAnnotation on a request makes its remediator stop (RFC3339).
	TimedOutAnnotation = "remediation.medik8s.io/nhc-timed-out"
)
