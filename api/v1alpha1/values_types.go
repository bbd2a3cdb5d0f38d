// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The schema of Duration accepts a number, so that a rule explains what is wrong with it.

// Duration is a length of time with a unit, such as 0s, 300s, 5m or 1h30m, of at most a year. A number without a unit is rejected: 0 is 0s.
//
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:MaxLength=20
// +kubebuilder:validation:XValidation:rule="type(self) == string && self.matches('^(0|([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h))+)$') && duration(self) <= duration('8760h')",message="must be a duration such as 300s, 5m or 1h30m, of at most 8760h (a year)"
type Duration struct {
	metav1.Duration `json:"-"`
}

// Selector selects objects by their labels. All requirements must be met.
//
// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(key, key.matches('^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$'))",message="every key of matchLabels must be the key of a label, such as node-role.kubernetes.io/worker"
type Selector struct {
	// matchLabels are labels that an object must have with this value.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// matchExpressions are requirements that must all be met.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	MatchExpressions []SelectorRequirement `json:"matchExpressions,omitempty"`
}

// LabelValue is the value of a label. It can be empty.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$')",message="must be the value of a label: at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit"
type LabelValue string

// SelectorRequirement is a requirement for one label.
//
// +kubebuilder:validation:XValidation:rule="self.operator in ['In', 'NotIn'] ? (has(self.values) && size(self.values) > 0) : (!has(self.values) || size(self.values) == 0)",message="the operators In and NotIn need values; Exists and DoesNotExist must have none"
type SelectorRequirement struct {
	// key is the key of the label.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$')",message="must be the key of a label, such as node-role.kubernetes.io/worker"
	Key string `json:"key"`

	// operator is how the label is compared: In, NotIn, Exists or DoesNotExist.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator metav1.LabelSelectorOperator `json:"operator"`

	// values are the values for the operators In and NotIn. Other operators have none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Values []LabelValue `json:"values,omitempty"`
}

// ClusterReference names a Cluster of Cluster API.
type ClusterReference struct {
	// namespace is the namespace of the Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace"
	Namespace string `json:"namespace"`

	// name is the name of the Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of a Cluster: lower case letters, digits, '-' or '.', beginning and ending with a letter or digit"
	Name string `json:"name"`
}

// ConditionStatus is the status of a condition. In YAML, True and False need quotes.
//
// +kubebuilder:validation:Enum="True";"False";Unknown
type ConditionStatus string

// NodeConditionType is the type of a condition of a Node.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=316
// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$')",message="must be the type of a condition, such as Ready or DiskPressure"
// +kubebuilder:validation:XValidation:rule="!(self in ['NotReady', 'Unknown', 'Unhealthy'])",message="must be the type of a condition: for a Node that is NotReady, use the type Ready with the status False or Unknown"
type NodeConditionType string

// MachineConditionType is the type of a condition of a Machine.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=316
// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$')",message="must be the type of a condition, such as InfrastructureReady"
// +kubebuilder:validation:XValidation:rule="!(self in ['Ready', 'Available', 'HealthCheckSucceeded', 'OwnerRemediated', 'ExternallyRemediated'])",message="must not be Ready, Available, HealthCheckSucceeded, OwnerRemediated or ExternallyRemediated: they follow from the verdict of the check; use the condition that is the cause, such as InfrastructureReady"
type MachineConditionType string

// StepCondition is a condition of the Node or of the Machine that a step of an escalation is for.
type StepCondition struct {
	// type is the type of the condition, such as DiskPressure.
	// +required
	Type NodeConditionType `json:"type"`

	// status is the status of the condition: "True", "False" or Unknown. By default the step is for each status that is unhealthy.
	// +optional
	Status ConditionStatus `json:"status,omitempty"`

	// reasons are reasons of the condition, such as KubeletNotReady. By default the step is for each reason.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Reasons []ConditionReason `json:"reasons,omitempty"`
}

// ConditionReason is the reason of a condition.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
type ConditionReason string
