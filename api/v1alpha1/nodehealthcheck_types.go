// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeHealthCheckSpec is which Nodes to monitor, what makes them unhealthy, and how to remediate them.
//
// +kubebuilder:validation:XValidation:rule="has(self.remediationTemplate) != has(self.escalatingRemediations)",message="set either remediationTemplate or escalatingRemediations: a Node has no owner that can replace it"
// +kubebuilder:validation:XValidation:rule="!has(self.escalatingRemediations) || self.escalatingRemediations.all(step, !has(step.conditions) || step.conditions.all(wanted, self.unhealthyConditions.exists(check, check.type == wanted.type && (!has(wanted.status) || wanted.status == check.status))))",message="a step is for a condition that is not in unhealthyConditions, so it can never run: add the condition there, or correct its type and status",fieldPath=".escalatingRemediations"
// +kubebuilder:validation:XValidation:rule="self.templateLocation == 'Management' || has(self.clusterRef)",message="templateLocation: Workload needs a clusterRef: without one the Nodes are those of this cluster",fieldPath=".templateLocation"
// +kubebuilder:validation:XValidation:rule="has(self.clusterRef) == has(oldSelf.clusterRef) && (!has(self.clusterRef) || self.clusterRef == oldSelf.clusterRef)",message="clusterRef cannot be changed: create another check for the other Cluster"
// +kubebuilder:validation:XValidation:rule="self.templateLocation == oldSelf.templateLocation",message="templateLocation cannot be changed: create another check, because the requests of this one are in the other cluster",fieldPath=".templateLocation"
type NodeHealthCheckSpec struct {
	// clusterRef is the Cluster of Cluster API whose Nodes are monitored.
	// By default, these are the Nodes of the cluster that this object is in.
	// It cannot be changed.
	// +optional
	ClusterRef *ClusterReference `json:"clusterRef,omitempty"`

	// selector selects the Nodes that are monitored. By default, these are all Nodes that do not belong to the control plane. An empty one
	// ({}) selects every Node.
	// +optional
	Selector *Selector `json:"selector,omitempty"`

	// unhealthyConditions are conditions of the Node, each of which makes it unhealthy when its status has lasted for its duration.
	// The default is Ready with the status False or Unknown, for 300s.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(check, self.exists_one(other, other.type == check.type && other.status == check.status))",message="a condition is listed twice with the same status: keep one of them"
	// +kubebuilder:default={{type: Ready, status: "False", duration: "300s"}, {type: Ready, status: Unknown, duration: "300s"}}
	UnhealthyConditions []LastingNodeCondition `json:"unhealthyConditions,omitempty"`

	Limits `json:",inline"`

	// remediationTemplate is the template of remediation requests for a remediator. It or escalatingRemediations is required.
	// +optional
	RemediationTemplate *NodeTemplateReference `json:"remediationTemplate,omitempty"`

	// escalatingRemediations are remediations that are tried by their order until the Node is healthy. By default there are none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:XValidation:rule="self.all(step, self.exists_one(other, other.order == step.order))",message="two steps have the same order: give each an order of its own"
	EscalatingRemediations []NodeEscalationStep `json:"escalatingRemediations,omitempty"`

	// templateLocation is the cluster of templates and requests: Management, the default, is the cluster of this object; Workload is the
	// cluster of the Nodes. Remediators that read the Node in their own cluster need Workload.
	// +optional
	// +kubebuilder:validation:Enum=Management;Workload
	// +kubebuilder:default=Management
	TemplateLocation TemplateLocation `json:"templateLocation,omitempty"`

	Pace `json:",inline"`
}

// TemplateLocation is the cluster of templates and requests.
type TemplateLocation string

// The locations of templates and requests.
const (
	// ManagementLocation is the cluster that the check is in.
	ManagementLocation TemplateLocation = "Management"
	// WorkloadLocation is the cluster that the Nodes are in.
	WorkloadLocation TemplateLocation = "Workload"
)

// LastingNodeCondition is a status of a condition of the Node that is unhealthy when it lasts.
//
// +kubebuilder:validation:XValidation:rule="!(self.type == 'Ready' && self.status == 'True')",message="a Ready Node is healthy, so every healthy Node would be remediated: use status False or Unknown"
type LastingNodeCondition struct {
	// type is the type of the Node's condition, such as Ready.
	// +required
	Type NodeConditionType `json:"type"`

	// status is the unhealthy status: "True", "False" or Unknown. True and False need the quotes.
	// +required
	Status ConditionStatus `json:"status"`

	// duration is how long the status must last, such as 300s.
	// +required
	Duration Duration `json:"duration"`
}

// NodeEscalationStep is one remediation of several.
type NodeEscalationStep struct {
	// order is the position of this step. The lowest comes first.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Order int32 `json:"order"`

	// remediationTemplate is the template of the request of this step.
	// +required
	RemediationTemplate NodeTemplateReference `json:"remediationTemplate"`

	// timeout is how long this step can take. Then the next one begins.
	// +required
	// +kubebuilder:validation:XValidation:rule="type(self) != string || duration(self) >= duration('1m')",message="must be at least 1m: a remediator needs time to act"
	Timeout Duration `json:"timeout"`

	// conditions limit this step to Nodes for which one of these conditions is the cause. By default the step is for every cause. A Node
	// for whose cause there is no step is only reported.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Conditions []StepCondition `json:"conditions,omitempty"`
}

// NodeTemplateReference names a remediation template.
type NodeTemplateReference struct {
	TemplateKind `json:",inline"`

	// namespace is the namespace of the template and of its requests.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace"
	Namespace string `json:"namespace"`
}

// NodeHealthCheckStatus is the state after the last reconcile.
type NodeHealthCheckStatus struct {
	CheckStatus `json:",inline"`

	// observedNodes is the number of Nodes that are monitored.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedNodes *int32 `json:"observedNodes,omitempty"`

	// healthyNodes is the number of Nodes that are known to be healthy and have no remediation request left.
	// +optional
	// +kubebuilder:validation:Minimum=0
	HealthyNodes *int32 `json:"healthyNodes,omitempty"`

	// inFlightRemediations are the names of the remediation requests, and when each was created, up to a thousand.
	// +optional
	// +kubebuilder:validation:MaxProperties=1000
	InFlightRemediations map[string]metav1.Time `json:"inFlightRemediations,omitempty"`
}

// NodeHealthCheck monitors Nodes of the cluster it is in, or of a Cluster of Cluster API. For an unhealthy Node, the manager creates a
// remediation request from a template.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodehealthchecks,scope=Cluster,shortName=rnhc,categories={remedy,cluster-api}
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterRef.name`,description="The Cluster whose Nodes are monitored; empty for this one"
// +kubebuilder:printcolumn:name="Targets",type=integer,JSONPath=`.status.observedNodes`,description="How many Nodes are monitored"
// +kubebuilder:printcolumn:name="Healthy",type=integer,JSONPath=`.status.healthyNodes`,description="How many are known to be healthy"
// +kubebuilder:printcolumn:name="Unhealthy",type=integer,JSONPath=`.status.unhealthy`,description="How many are unhealthy"
// +kubebuilder:printcolumn:name="Remediating",type=integer,JSONPath=`.status.remediating`,description="How many are being remediated"
// +kubebuilder:printcolumn:name="Blocked",type=integer,JSONPath=`.status.blocked`,description="How many are unhealthy and not remediated: status.unhealthyTargets has the reasons"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="False if an administrator has to act"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="The reason of Ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Allowed",type=string,JSONPath=`.status.conditions[?(@.type=="RemediationAllowed")].status`,priority=10,description="Whether a remediation can start"
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`,priority=10,description="Enforce or Observe"
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10,description="Whether the check is paused"
// +kubebuilder:printcolumn:name="Limit",type=integer,JSONPath=`.status.limit.maxUnhealthy`,priority=10,description="How many can be unhealthy before remediation stops"
// +kubebuilder:printcolumn:name="Limit-Source",type=string,JSONPath=`.status.limit.source`,priority=10,description="The field that the limit follows from"
// +kubebuilder:printcolumn:name="Cluster-Namespace",type=string,JSONPath=`.spec.clusterRef.namespace`,priority=10,description="The namespace of the Cluster"
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.remediationTemplate.kind`,priority=10,description="The template of remediation requests, if there are no steps"
type NodeHealthCheck struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is which Nodes to monitor, what makes them unhealthy, and how to remediate them.
	// +required
	Spec NodeHealthCheckSpec `json:"spec"`

	// status is the state after the last reconcile.
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
