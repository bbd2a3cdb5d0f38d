// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MachineHealthCheckSpec is which Machines to monitor, what makes them unhealthy, and how to remediate them.
//
// +kubebuilder:validation:XValidation:rule="!has(self.selector.matchLabels) || !('cluster.x-k8s.io/cluster-name' in self.selector.matchLabels) || self.selector.matchLabels['cluster.x-k8s.io/cluster-name'] == self.clusterName",message="selector names another Cluster than clusterName: leave cluster.x-k8s.io/cluster-name out of the selector"
// +kubebuilder:validation:XValidation:rule="!(has(self.remediationTemplate) && has(self.escalatingRemediations))",message="remediationTemplate and escalatingRemediations exclude each other: make the template the first step"
// +kubebuilder:validation:XValidation:rule="type(self.healthyDelay) != string || duration(self.healthyDelay) == duration('0s') || has(self.remediationTemplate) || (has(self.escalatingRemediations) && self.escalatingRemediations.exists(step, has(step.remediationTemplate)))",message="healthyDelay needs a template: a Machine that its owner replaces does not recover",fieldPath=".healthyDelay"
// +kubebuilder:validation:XValidation:rule="self.recovery == 'Automatic' || has(self.remediationTemplate) || (has(self.escalatingRemediations) && self.escalatingRemediations.exists(step, has(step.remediationTemplate)))",message="recovery: Confirmed needs a template: a Machine that its owner replaces does not recover",fieldPath=".recovery"
// +kubebuilder:validation:XValidation:rule="!has(self.escalatingRemediations) || self.escalatingRemediations.all(step, !has(step.conditions) || step.conditions.all(wanted, (has(self.unhealthyConditions) && self.unhealthyConditions.exists(check, check.type == wanted.type && (!has(wanted.status) || wanted.status == check.status))) || (has(self.unhealthyMachineConditions) && self.unhealthyMachineConditions.exists(check, check.type == wanted.type && (!has(wanted.status) || wanted.status == check.status)))))",message="a step is for a condition that is neither in unhealthyConditions nor in unhealthyMachineConditions, so it can never run: add the condition there, or correct its type and status",fieldPath=".escalatingRemediations"
type MachineHealthCheckSpec struct {
	// clusterName is the Cluster whose Machines are monitored. It cannot be changed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of a Cluster: lower case letters, digits, '-' or '.', beginning and ending with a letter or digit"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another check for the other Cluster"
	ClusterName string `json:"clusterName"`

	// selector selects the Machines of the Cluster that are monitored. It must not be empty.
	// +required
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="must not be empty: select Machines, for example by the label cluster.x-k8s.io/deployment-name"
	Selector Selector `json:"selector"`

	// unhealthyConditions are conditions of the Node, each of which makes the Machine unhealthy when its status has lasted for its timeout. By
	// default there are none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(check, self.exists_one(other, other.type == check.type && other.status == check.status))",message="a condition is listed twice with the same status: keep one of them"
	UnhealthyConditions []UnhealthyNodeCondition `json:"unhealthyConditions,omitempty"`

	// unhealthyMachineConditions are conditions of the Machine, each of which makes it unhealthy when its status has lasted for its timeout.
	// By default there are none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(check, self.exists_one(other, other.type == check.type && other.status == check.status))",message="a condition is listed twice with the same status: keep one of them"
	UnhealthyMachineConditions []UnhealthyMachineCondition `json:"unhealthyMachineConditions,omitempty"`

	// nodeStartupTimeout is how long a Machine can take until its Node has joined the cluster. The default is 10m. With 0s there is no limit.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="type(self) != string || duration(self) == duration('0s') || duration(self) >= duration('30s')",message="must be at least 30s, or 0s for no limit"
	NodeStartupTimeout *Duration `json:"nodeStartupTimeout,omitempty"`

	// nodeGoneTimeout is how long a Node can be missing before its Machine is unhealthy. The default is 0s, at once.
	// +optional
	// +kubebuilder:default="0s"
	NodeGoneTimeout *Duration `json:"nodeGoneTimeout,omitempty"`

	Limits `json:",inline"`

	// remediationTemplate is the template of remediation requests for a remediator.
	// Without it and escalatingRemediations, the owner of the Machine remediates it, usually by replacing it.
	// +optional
	RemediationTemplate *MachineTemplateReference `json:"remediationTemplate,omitempty"`

	// escalatingRemediations are remediations that are tried by their order until the Machine is healthy. By default there are none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:XValidation:rule="self.all(step, self.exists_one(other, other.order == step.order))",message="two steps have the same order: give each an order of its own"
	// +kubebuilder:validation:XValidation:rule="self.all(step, !has(step.owner) || self.all(other, other.order <= step.order))",message="the owner is the last resort: give that step the highest order"
	EscalatingRemediations []MachineEscalationStep `json:"escalatingRemediations,omitempty"`

	Pace `json:",inline"`
}

// UnhealthyNodeCondition is a status of a condition of the Node that is unhealthy when it lasts.
//
// +kubebuilder:validation:XValidation:rule="!(self.type == 'Ready' && self.status == 'True')",message="a Ready Node is healthy, so every healthy Node would be remediated: use status False or Unknown"
type UnhealthyNodeCondition struct {
	// type is the type of the Node's condition, such as Ready.
	// +required
	Type NodeConditionType `json:"type"`

	// status is the unhealthy status: "True", "False" or Unknown. True and False need the quotes.
	// +required
	Status ConditionStatus `json:"status"`

	// timeout is how long the status must last, such as 300s.
	// +required
	Timeout Duration `json:"timeout"`
}

// UnhealthyMachineCondition is a status of a condition of the Machine that is unhealthy when it lasts.
type UnhealthyMachineCondition struct {
	// type is the type of the Machine's condition, such as InfrastructureReady.
	// +required
	Type MachineConditionType `json:"type"`

	// status is the unhealthy status: "True", "False" or Unknown. True and False need the quotes.
	// +required
	Status ConditionStatus `json:"status"`

	// timeout is how long the status must last, such as 300s.
	// +required
	Timeout Duration `json:"timeout"`
}

// MachineEscalationStep is one remediation of several: by a request, or by the owner.
//
// +kubebuilder:validation:XValidation:rule="has(self.remediationTemplate) != has(self.owner)",message="a step has either a remediationTemplate or an owner"
// +kubebuilder:validation:XValidation:rule="!has(self.remediationTemplate) || has(self.timeout)",message="a step with a remediationTemplate needs a timeout, after which the next step follows",fieldPath=".timeout"
// +kubebuilder:validation:XValidation:rule="!has(self.owner) || !has(self.timeout)",message="the owner is the last resort and has no timeout: leave it out",fieldPath=".timeout"
type MachineEscalationStep struct {
	// order is the position of this step. The lowest comes first.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Order int32 `json:"order"`

	// remediationTemplate is the template of the request of this step.
	// +optional
	RemediationTemplate *MachineTemplateReference `json:"remediationTemplate,omitempty"`

	// owner makes the owner of the Machine remediate it, usually by replacing it.
	// +optional
	Owner *OwnerRemediation `json:"owner,omitempty"`

	// timeout is how long this step can take. Then the next one begins.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) != string || duration(self) >= duration('1m')",message="must be at least 1m: a remediator needs time to act"
	Timeout *Duration `json:"timeout,omitempty"`

	// conditions limit this step to Machines for which one of these conditions is the cause. By default the step is for every cause. A Machine
	// for whose cause there is no step is only reported.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Conditions []StepCondition `json:"conditions,omitempty"`
}

// OwnerRemediation makes the owner of the Machine remediate it. It has no fields.
type OwnerRemediation struct{}

// MachineTemplateReference names a remediation template in the namespace of the check.
type MachineTemplateReference struct {
	TemplateKind `json:",inline"`

	// namespace is the namespace of the template. The default is the namespace of the check; a policy rejects any other.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace"
	Namespace string `json:"namespace,omitempty"`
}

// MachineHealthCheckStatus is the state after the last reconcile.
type MachineHealthCheckStatus struct {
	CheckStatus `json:",inline"`

	// expectedMachines is the number of Machines that are monitored.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ExpectedMachines *int32 `json:"expectedMachines,omitempty"`

	// currentHealthy is the number of Machines that are known to be healthy.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CurrentHealthy *int32 `json:"currentHealthy,omitempty"`

	// targets are the names of the Machines that are monitored, in alphabetical order, up to a thousand.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Targets []string `json:"targets,omitempty"`
}

// MachineHealthCheck monitors Machines of one Cluster of Cluster API. An unhealthy Machine is remediated by its owner, which replaces it,
// or by a remediator, for which the manager creates a remediation request.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=machinehealthchecks,scope=Namespaced,shortName=rmhc,categories={remedy,cluster-api}
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterName`,description="The Cluster whose Machines are monitored"
// +kubebuilder:printcolumn:name="Targets",type=integer,JSONPath=`.status.expectedMachines`,description="How many Machines are monitored"
// +kubebuilder:printcolumn:name="Healthy",type=integer,JSONPath=`.status.currentHealthy`,description="How many are known to be healthy"
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
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.remediationTemplate.kind`,priority=10,description="The template of remediation requests, if there are no steps"
type MachineHealthCheck struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is which Machines to monitor, what makes them unhealthy, and how to remediate them.
	// +required
	Spec MachineHealthCheckSpec `json:"spec"`

	// status is the state after the last reconcile.
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
