// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeHealthCheckSpec says which Nodes to look after, what makes them unhealthy, and what to do then.
//
// +kubebuilder:validation:XValidation:rule="has(self.remediationTemplate) != has(self.escalatingRemediations)",message="name a remediationTemplate or escalatingRemediations: one of the two, as a Node has no owner that could replace it"
// +kubebuilder:validation:XValidation:rule="self.templateLocation == 'Management' || has(self.clusterRef)",message="templateLocation: Workload needs a clusterRef: without one the Nodes are those of this cluster",fieldPath=".templateLocation"
// +kubebuilder:validation:XValidation:rule="has(self.clusterRef) == has(oldSelf.clusterRef) && (!has(self.clusterRef) || self.clusterRef == oldSelf.clusterRef)",message="clusterRef cannot be changed: make another check for the other Cluster"
type NodeHealthCheckSpec struct {
	// clusterRef is the Cluster of Cluster API whose Nodes are looked after.
	// Where it is not given, they are the Nodes of the cluster that this object is in.
	// It cannot be changed.
	// +optional
	ClusterRef *ClusterReference `json:"clusterRef,omitempty"`

	// selector picks the Nodes that are looked after. An empty one ({}) picks every Node.
	// Where it is not given, they are all Nodes that do not belong to the control plane.
	// +optional
	Selector *Selector `json:"selector,omitempty"`

	// unhealthyConditions are conditions of the Node, each of which makes it unhealthy when it has held for its duration.
	// The default is Ready with the status False or Unknown, for 300s.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(check, self.exists_one(other, other.type == check.type && other.status == check.status))",message="a condition is listed twice with the same status: keep one of them"
	// +kubebuilder:default={{type: Ready, status: "False", duration: "300s"}, {type: Ready, status: Unknown, duration: "300s"}}
	UnhealthyConditions []LastingNodeCondition `json:"unhealthyConditions,omitempty"`

	Limits `json:",inline"`

	// remediationTemplate is what a remediation request is made from, for a remediator to act on. It or escalatingRemediations is required.
	// +optional
	RemediationTemplate *NodeTemplateReference `json:"remediationTemplate,omitempty"`

	// escalatingRemediations are remediations to try one after the other, by their order, until the Node is healthy.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:XValidation:rule="self.all(step, self.exists_one(other, other.order == step.order))",message="two steps have the same order: give each an order of its own"
	EscalatingRemediations []NodeEscalationStep `json:"escalatingRemediations,omitempty"`

	// templateLocation says where templates and requests are: in the Management cluster, which is this one and the default, or in the Workload cluster, beside the Nodes.
	// Remediators that look for their Node in their own cluster need Workload.
	// +optional
	// +kubebuilder:validation:Enum=Management;Workload
	// +kubebuilder:default=Management
	TemplateLocation TemplateLocation `json:"templateLocation,omitempty"`

	Pace `json:",inline"`
}

// TemplateLocation says in which cluster templates and requests are.
type TemplateLocation string

// The places where templates and requests can be.
const (
	// ManagementLocation is the cluster that the check is in.
	ManagementLocation TemplateLocation = "Management"
	// WorkloadLocation is the cluster that the Nodes are in.
	WorkloadLocation TemplateLocation = "Workload"
)

// LastingNodeCondition is a status of a condition of the Node that means trouble when it lasts.
//
// +kubebuilder:validation:XValidation:rule="!(self.type == 'Ready' && self.status == 'True')",message="a Node that is Ready is well, and with this every one of them would be remediated: name the status False or Unknown"
type LastingNodeCondition struct {
	// type is the type of the Node's condition, such as Ready.
	// +required
	Type NodeConditionType `json:"type"`

	// status is the status that means trouble: True, False or Unknown.
	// +required
	Status ConditionStatus `json:"status"`

	// duration is how long it must have lasted.
	// +required
	Duration Duration `json:"duration"`
}

// NodeEscalationStep is one remediation of several.
type NodeEscalationStep struct {
	// order is the place of this step: the lowest comes first.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Order int32 `json:"order"`

	// remediationTemplate is what the request of this step is made from.
	// +required
	RemediationTemplate NodeTemplateReference `json:"remediationTemplate"`

	// timeout is how long this step may take until the next one follows.
	// +required
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="must be at least 1m: a remediator needs time to act"
	Timeout Duration `json:"timeout"`
}

// NodeTemplateReference names a remediation template.
type NodeTemplateReference struct {
	TemplateKind `json:",inline"`

	// namespace is the namespace of the template, and of the requests that are made from it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace"
	Namespace string `json:"namespace"`
}

// NodeHealthCheckStatus is what was seen at the last look.
type NodeHealthCheckStatus struct {
	CheckStatus `json:",inline"`

	// observedNodes is the number of Nodes that are looked after.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedNodes *int32 `json:"observedNodes,omitempty"`

	// healthyNodes is the number of Nodes that are known to be healthy and have no remediation request left.
	// +optional
	// +kubebuilder:validation:Minimum=0
	HealthyNodes *int32 `json:"healthyNodes,omitempty"`

	// inFlightRemediations are the names of the remediation requests that are there, and when each was created, up to a thousand.
	// +optional
	// +kubebuilder:validation:MaxProperties=1000
	InFlightRemediations map[string]metav1.Time `json:"inFlightRemediations,omitempty"`
}

// NodeHealthCheck looks after Nodes: those of the cluster it is in, or those of a Cluster of Cluster API. When one is sick for too long
// it asks a remediator for help, by a request that is made from a template.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodehealthchecks,scope=Cluster,shortName=rnhc,categories=remedy
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterRef.name`,description="The Cluster whose Nodes are looked after; empty for this one"
// +kubebuilder:printcolumn:name="Targets",type=integer,JSONPath=`.status.observedNodes`,description="How many Nodes are looked after"
// +kubebuilder:printcolumn:name="Healthy",type=integer,JSONPath=`.status.healthyNodes`,description="How many are known to be healthy"
// +kubebuilder:printcolumn:name="Unhealthy",type=integer,JSONPath=`.status.unhealthy`,description="How many are unhealthy"
// +kubebuilder:printcolumn:name="Remediating",type=integer,JSONPath=`.status.remediating`,description="How many are being remediated"
// +kubebuilder:printcolumn:name="Allowed",type=string,JSONPath=`.status.conditions[?(@.type=="RemediationAllowed")].status`,description="Whether anything new may be remediated"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="RemediationAllowed")].reason`,description="Why it may, or may not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`,priority=10,description="Enforce or Observe"
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10,description="Whether the check is paused"
// +kubebuilder:printcolumn:name="Limit",type=integer,JSONPath=`.status.limit.maxUnhealthy`,priority=10,description="How many may be sick before remediation stops"
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.status.limit.source`,priority=10,description="The field that the limit follows from"
// +kubebuilder:printcolumn:name="Cluster-Namespace",type=string,JSONPath=`.spec.clusterRef.namespace`,priority=10,description="The namespace of the Cluster"
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.remediationTemplate.kind`,priority=10,description="What a remediation request is made from, where there are no steps"
type NodeHealthCheck struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which Nodes to look after, what makes them unhealthy, and what to do then.
	// +required
	Spec NodeHealthCheckSpec `json:"spec"`

	// status is what was seen at the last look.
	// +optional
	Status NodeHealthCheckStatus `json:"status,omitempty,omitzero"`
}

// NodeHealthCheckList is a list of NodeHealthChecks.
//
// +kubebuilder:object:root=true
type NodeHealthCheckList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeHealthCheck `json:"items"`
}
