// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MachineHealthCheckSpec says which Machines to look after, what makes them unhealthy, and what to do then.
//
// +kubebuilder:validation:XValidation:rule="!has(self.selector.matchLabels) || !('cluster.x-k8s.io/cluster-name' in self.selector.matchLabels) || self.selector.matchLabels['cluster.x-k8s.io/cluster-name'] == self.clusterName",message="selector names another Cluster than clusterName: leave cluster.x-k8s.io/cluster-name out of the selector"
// +kubebuilder:validation:XValidation:rule="!(has(self.remediationTemplate) && has(self.escalatingRemediations))",message="remediationTemplate and escalatingRemediations exclude each other: make the template the first step"
// +kubebuilder:validation:XValidation:rule="duration(self.healthyDelay) == duration('0s') || has(self.remediationTemplate) || (has(self.escalatingRemediations) && self.escalatingRemediations.exists(step, has(step.remediationTemplate)))",message="healthyDelay needs a template: a Machine that its owner replaces does not recover",fieldPath=".healthyDelay"
// +kubebuilder:validation:XValidation:rule="self.recovery == 'Automatic' || has(self.remediationTemplate) || (has(self.escalatingRemediations) && self.escalatingRemediations.exists(step, has(step.remediationTemplate)))",message="recovery: Confirmed needs a template: a Machine that its owner replaces does not recover",fieldPath=".recovery"
type MachineHealthCheckSpec struct {
	// clusterName is the Cluster whose Machines are looked after. It cannot be changed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of a Cluster: lower case letters, digits, '-' or '.', beginning and ending with a letter or digit"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: make another check for the other Cluster"
	ClusterName string `json:"clusterName"`

	// selector picks the Machines of the Cluster that are looked after. It must not be empty.
	// +required
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="must not be empty: name the Machines to look after, for example by the label cluster.x-k8s.io/deployment-name"
	Selector Selector `json:"selector"`

	// unhealthyConditions are conditions of the Node, each of which makes the Machine unhealthy when it has held for its timeout.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(check, self.exists_one(other, other.type == check.type && other.status == check.status))",message="a condition is listed twice with the same status: keep one of them"
	UnhealthyConditions []UnhealthyNodeCondition `json:"unhealthyConditions,omitempty"`

	// unhealthyMachineConditions are conditions of the Machine, each of which makes it unhealthy when it has held for its timeout.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(check, self.exists_one(other, other.type == check.type && other.status == check.status))",message="a condition is listed twice with the same status: keep one of them"
	UnhealthyMachineConditions []UnhealthyMachineCondition `json:"unhealthyMachineConditions,omitempty"`

	// nodeStartupTimeout is how long a Machine may take until its Node has joined the cluster. The default is 10m; 0s means as long as it likes.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="duration(self) == duration('0s') || duration(self) >= duration('30s')",message="must be at least 30s, or 0s for no limit"
	NodeStartupTimeout *Duration `json:"nodeStartupTimeout,omitempty"`

	// nodeGoneTimeout is how long a Node that was there may be gone before its Machine is unhealthy. The default is 0s.
	// +optional
	// +kubebuilder:default="0s"
	NodeGoneTimeout *Duration `json:"nodeGoneTimeout,omitempty"`

	Limits `json:",inline"`

	// remediationTemplate is what a remediation request is made from, for a remediator to act on.
	// Where neither it nor escalatingRemediations is given, the owner of the Machine remediates it, as a rule by replacing it.
	// +optional
	RemediationTemplate *MachineTemplateReference `json:"remediationTemplate,omitempty"`

	// escalatingRemediations are remediations to try one after the other, by their order, until the Machine is healthy.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:XValidation:rule="self.all(step, self.exists_one(other, other.order == step.order))",message="two steps have the same order: give each an order of its own"
	// +kubebuilder:validation:XValidation:rule="self.all(step, !has(step.owner) || self.all(other, other.order <= step.order))",message="the owner is the last resort: give that step the highest order"
	EscalatingRemediations []MachineEscalationStep `json:"escalatingRemediations,omitempty"`

	Pace `json:",inline"`
}

// UnhealthyNodeCondition is a status of a condition of the Node that means trouble when it lasts.
//
// +kubebuilder:validation:XValidation:rule="!(self.type == 'Ready' && self.status == 'True')",message="a Node that is Ready is well, and with this every one of them would be remediated: name the status False or Unknown"
type UnhealthyNodeCondition struct {
	// type is the type of the Node's condition, such as Ready.
	// +required
	Type NodeConditionType `json:"type"`

	// status is the status that means trouble: True, False or Unknown.
	// +required
	Status ConditionStatus `json:"status"`

	// timeout is how long it must have lasted.
	// +required
	Timeout Duration `json:"timeout"`
}

// UnhealthyMachineCondition is a status of a condition of the Machine that means trouble when it lasts.
type UnhealthyMachineCondition struct {
	// type is the type of the Machine's condition, such as InfrastructureReady.
	// +required
	Type MachineConditionType `json:"type"`

	// status is the status that means trouble: True, False or Unknown.
	// +required
	Status ConditionStatus `json:"status"`

	// timeout is how long it must have lasted.
	// +required
	Timeout Duration `json:"timeout"`
}

// MachineEscalationStep is one remediation of several: by a request, or by the owner.
//
// +kubebuilder:validation:XValidation:rule="has(self.remediationTemplate) != has(self.owner)",message="a step has either a remediationTemplate or an owner"
// +kubebuilder:validation:XValidation:rule="!has(self.remediationTemplate) || has(self.timeout)",message="a step with a remediationTemplate needs a timeout, after which the next step follows",fieldPath=".timeout"
// +kubebuilder:validation:XValidation:rule="!has(self.owner) || !has(self.timeout)",message="the owner is the last resort and has no timeout: leave it out",fieldPath=".timeout"
type MachineEscalationStep struct {
	// order is the place of this step: the lowest comes first.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Order int32 `json:"order"`

	// remediationTemplate is what the request of this step is made from.
	// +optional
	RemediationTemplate *MachineTemplateReference `json:"remediationTemplate,omitempty"`

	// owner hands the Machine to its owner, as a rule to be replaced.
	// +optional
	Owner *OwnerRemediation `json:"owner,omitempty"`

	// timeout is how long this step may take until the next one follows.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="must be at least 1m: a remediator needs time to act"
	Timeout *Duration `json:"timeout,omitempty"`
}

// OwnerRemediation hands the Machine to its owner. There is nothing to set.
type OwnerRemediation struct{}

// MachineTemplateReference names a remediation template in the namespace of the check.
type MachineTemplateReference struct {
	TemplateKind `json:",inline"`

	// namespace can be left out. It is the namespace of the check; a policy refuses any other.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace"
	Namespace string `json:"namespace,omitempty"`
}

// MachineHealthCheckStatus is what was seen at the last look.
type MachineHealthCheckStatus struct {
	CheckStatus `json:",inline"`

	// expectedMachines is the number of Machines that are looked after.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ExpectedMachines *int32 `json:"expectedMachines,omitempty"`

	// currentHealthy is the number of Machines that are known to be healthy.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CurrentHealthy *int32 `json:"currentHealthy,omitempty"`

	// targets are the names of the Machines that are looked after, in alphabetical order, up to a thousand.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Targets []string `json:"targets,omitempty"`
}

// MachineHealthCheck looks after Machines of one Cluster of Cluster API. When one is sick for too long it has it remediated:
// by the owner of the Machine, which replaces it, or by a remediator, which it asks by a request.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=machinehealthchecks,scope=Namespaced,shortName=rmhc,categories=remedy
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterName`,description="The Cluster whose Machines are looked after"
// +kubebuilder:printcolumn:name="Targets",type=integer,JSONPath=`.status.expectedMachines`,description="How many Machines are looked after"
// +kubebuilder:printcolumn:name="Healthy",type=integer,JSONPath=`.status.currentHealthy`,description="How many are known to be healthy"
// +kubebuilder:printcolumn:name="Unhealthy",type=integer,JSONPath=`.status.unhealthy`,description="How many are unhealthy"
// +kubebuilder:printcolumn:name="Remediating",type=integer,JSONPath=`.status.remediating`,description="How many are being remediated"
// +kubebuilder:printcolumn:name="Allowed",type=string,JSONPath=`.status.conditions[?(@.type=="RemediationAllowed")].status`,description="Whether anything new may be remediated"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="RemediationAllowed")].reason`,description="Why it may, or may not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`,priority=10,description="Enforce or Observe"
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10,description="Whether the check is paused"
// +kubebuilder:printcolumn:name="Limit",type=integer,JSONPath=`.status.limit.maxUnhealthy`,priority=10,description="How many may be sick before remediation stops"
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.status.limit.source`,priority=10,description="The field that the limit follows from"
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.remediationTemplate.kind`,priority=10,description="What a remediation request is made from, where there are no steps"
type MachineHealthCheck struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which Machines to look after, what makes them unhealthy, and what to do then.
	// +required
	Spec MachineHealthCheckSpec `json:"spec"`

	// status is what was seen at the last look.
	// +optional
	Status MachineHealthCheckStatus `json:"status,omitempty,omitzero"`
}

// MachineHealthCheckList is a list of MachineHealthChecks.
//
// +kubebuilder:object:root=true
type MachineHealthCheckList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MachineHealthCheck `json:"items"`
}
