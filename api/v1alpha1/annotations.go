// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Prefix is the prefix of every annotation, label and finalizer of Remedy. kubectl remedy release --all removes every key with it.
const Prefix = "remedy.cluster.x-k8s.io/"

// Annotations that people set.
const (
	// TakeOverAnnotation on a MachineHealthCheck of Cluster API, or on its Cluster, with the value "true", asks us to take care of that check.
	TakeOverAnnotation = Prefix + "take-over"

	// RequestPluralsAnnotation on a check names the plurals of request kinds that do not simply end in "s", such as "FooProxy=fooproxies,Gas=gases".
	// It is needed where the one who writes the check must be allowed to create requests of such a kind.
	RequestPluralsAnnotation = Prefix + "request-plurals"
)

// Pause is the value of Cluster API's annotation for pauses by which its own controller leaves a check to us.
const Pause = "remedy.cluster.x-k8s.io"

// Annotations that we set, to remember what must survive a restart and a move to another management cluster.
const (
	// MarkedByAnnotation on a Machine names the check that marked it, as kind/name. It is written before the mark.
	MarkedByAnnotation = Prefix + "marked-by"

	// NodeGoneSinceAnnotation on a Machine is when its Node was first found to be gone (RFC3339). It goes when the Node is back.
	NodeGoneSinceAnnotation = Prefix + "node-gone-since"

	// AttemptsAnnotation on a Machine or a Node counts the remediations that have failed in a row.
	AttemptsAnnotation = Prefix + "attempts"

	// NotBeforeAnnotation on a Machine or a Node is when the next remediation may begin at the earliest (RFC3339).
	NotBeforeAnnotation = Prefix + "not-before"

	// TriedAnnotation on a Machine or a Node is the escalation step that was given up last, as its order and its template. It goes when a new attempt begins.
	TriedAnnotation = Prefix + "tried"

	// ReplacingAnnotation on a check names the Machines that were handed to their owner and are not replaced yet, as maxInFlight has to count them.
	ReplacingAnnotation = Prefix + "replacing"

	// StormSinceAnnotation on a check is when the limit was exceeded (RFC3339). It goes when the storm is over.
	StormSinceAnnotation = Prefix + "storm-since"

	// RequestKindsAnnotation on a check lists the kinds of requests that it may have created, such as "Metal3Remediation.v1beta1.example.com". It is
	// written with the finalizer, before the first request of a kind, so that requests of a kind that the check no longer names are found.
	RequestKindsAnnotation = Prefix + "request-kinds"

	// CooldownSinceAnnotation on a check is since when the limit has been kept again, during a storm (RFC3339).
	CooldownSinceAnnotation = Prefix + "cooldown-since"

	// CheckAnnotation on a request names the check that it was created for, as kind/namespace/name.
	CheckAnnotation = Prefix + "check"

	// StepAnnotation on a request is the order of the escalation step that it belongs to.
	StepAnnotation = Prefix + "step"

	// AttemptAnnotation on a request is the number of the attempt that it belongs to.
	AttemptAnnotation = Prefix + "attempt"

	// StartedAnnotation on a request is when it was created (RFC3339): a move gives it a new creation time.
	StartedAnnotation = Prefix + "started"

	// NodeUIDAnnotation on a request is the UID of the Node that it was created for.
	NodeUIDAnnotation = Prefix + "node-uid"

	// HealthySinceAnnotation on a request is since when its target has been healthy again (RFC3339). It goes when the target relapses.
	HealthySinceAnnotation = Prefix + "healthy-since"

	// TakeOverIDAnnotation on a MachineHealthCheck of Cluster API identifies the take-over that is under way.
	TakeOverIDAnnotation = Prefix + "take-over-id"
)

// Labels of our own.
const (
	// AggregateToManagerLabel with the value "true" on a ClusterRole gives its rights to the manager, so that it can read templates and create requests.
	AggregateToManagerLabel = Prefix + "aggregate-to-manager"

	// CheckLabel on a request in a workload cluster identifies the check and the Cluster that it was created for.
	CheckLabel = Prefix + "check"
)

// CleanupFinalizer is on a check as long as there is something to clean up when it goes.
const CleanupFinalizer = Prefix + "cleanup"

// Annotations and labels of others that mean something to us.
const (
	// AggregateToRemediationLabel is how remediators of medik8s offer their rights. It counts as our own.
	AggregateToRemediationLabel = "rbac.ext-remediation/aggregate-to-ext-remediation"

	// ExcludeLabel with the value "true" on a Node keeps it from being remediated.
	ExcludeLabel = "remediation.medik8s.io/exclude-from-remediation"

	// ControlPlaneRequestLabel on a request says that its Node belongs to the control plane.
	ControlPlaneRequestLabel = "remediation.medik8s.io/isControlPlaneNode"

	// ConfirmedHealthyAnnotation on a Node says that a person has confirmed it to be healthy.
	ConfirmedHealthyAnnotation = "remediation.medik8s.io/manually-confirmed-healthy"

	// NodeNameAnnotation on a request is the name of the Node that it was created for.
	NodeNameAnnotation = "remediation.medik8s.io/node-name"

	// TemplateNameAnnotation on a request is the name of the template that it was made from.
	TemplateNameAnnotation = "remediation.medik8s.io/template-name"

	// TimedOutAnnotation on a request tells its remediator to stop (RFC3339).
	TimedOutAnnotation = "remediation.medik8s.io/nhc-timed-out"

	// MultipleTemplatesAnnotation on a template says that several templates of its kind may be used for one Node.
	MultipleTemplatesAnnotation = "remediation.medik8s.io/multiple-templates-support"
)
