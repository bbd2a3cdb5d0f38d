// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// Conditions of a NodeRemedy.
const (
	// NodeRemedyReadyCondition repeats the condition Ready of the NodeHealthCheck.
	NodeRemedyReadyCondition = "Ready"
	// NodeRemedyValidCondition is False if the NodeRemedy cannot be used as it is.
	NodeRemedyValidCondition = "Valid"
)

// NodeRemedySpec is which conditions of which Nodes are remediated, and how. A NodeHealthCheck, NodeFenceTemplates and a FenceProfile are
// generated from it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.clusterRef) || self.clusterRef.__namespace__ == self.__namespace__",message="namespace must be that of clusterRef: the requests of a Cluster are in its namespace",fieldPath=".namespace"
// +kubebuilder:validation:XValidation:rule="has(self.clusterRef) == has(oldSelf.clusterRef) && (!has(self.clusterRef) || self.clusterRef == oldSelf.clusterRef)",message="clusterRef cannot be changed: create another NodeRemedy for the other Cluster"
type NodeRemedySpec struct {
	// namespace is the namespace of the generated FenceProfile and NodeFenceTemplates, and of the requests. Without a clusterRef, it is that of
	// the fencing manager. It cannot be changed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another NodeRemedy for the other namespace"
	Namespace string `json:"namespace"`

	// clusterRef is the Cluster of Cluster API whose Nodes are monitored. By default, these are the Nodes of the cluster that this object is in.
	// It cannot be changed.
	// +optional
	ClusterRef *remedyv1.ClusterReference `json:"clusterRef,omitempty"`

	// nodeSelector selects the Nodes. By default, these are all Nodes that do not belong to the control plane.
	// +optional
	NodeSelector *remedyv1.Selector `json:"nodeSelector,omitempty"`

	// thresholdConfigs are conditions of a Node that are remediated, each with its own remedies.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:XValidation:rule="self.all(threshold, self.exists_one(other, other.nodeConditionType == threshold.nodeConditionType && other.nodeConditionStatus == threshold.nodeConditionStatus))",message="a condition is listed twice with the same status: keep one of them"
	ThresholdConfigs []ThresholdConfig `json:"thresholdConfigs"`

	// remedyConfigs are the remedies, by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=12
	RemedyConfigs []RemedyConfig `json:"remedyConfigs,omitempty"`

	remedyv1.Limits `json:",inline"`
	remedyv1.Pace   `json:",inline"`
}

// ThresholdConfig is a status of a condition of a Node that is unhealthy when it lasts, and what follows.
//
// +kubebuilder:validation:XValidation:rule="!(self.nodeConditionType == 'Ready' && self.nodeConditionStatus == 'True')",message="a Ready Node is healthy, so every healthy Node would be remediated: use status False or Unknown"
type ThresholdConfig struct {
	// nodeConditionType is the type of the condition, such as Ready.
	// +required
	NodeConditionType remedyv1.NodeConditionType `json:"nodeConditionType"`

	// nodeConditionStatus is the unhealthy status: "True", "False" or Unknown. True and False need the quotes.
	// +required
	NodeConditionStatus remedyv1.ConditionStatus `json:"nodeConditionStatus"`

	// nodeConditionPeriod is how long the status must last, such as 5m.
	// +required
	NodeConditionPeriod remedyv1.Duration `json:"nodeConditionPeriod"`

	// remedies are what is tried, in this order, until the Node is healthy. By default, and with none, the condition is only reported.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=10
	Remedies []RemedyUse `json:"remedies,omitempty"`

	// recovery is what runs when the Node has joined again, before it gets workload. By default nothing runs.
	// +optional
	Recovery *RecoveryUse `json:"recovery,omitempty"`
}

// RemedyName is the name of a remedy.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=40
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a remedy, such as reboot: lower case letters, digits or '-', beginning and ending with a letter or digit"
type RemedyName string

// RemedyUse is one remedy of several.
type RemedyUse struct {
	// name is the name of a remedy in remedyConfigs.
	// +required
	Name RemedyName `json:"name"`

	// period is how long the remedy can take. Then the next one begins; a remedy that fails is not waited for. The default is 30m.
	// +optional
	// +kubebuilder:default="30m"
	// +kubebuilder:validation:XValidation:rule="type(self) != string || duration(self) >= duration('1m')",message="must be at least 1m: a remedy needs time to act"
	Period *remedyv1.Duration `json:"period,omitempty"`

	// cleanResources removes the Pods of the Node, so that they start elsewhere, as soon as the Node, or its storage, is proven off. The default
	// is false.
	// +optional
	CleanResources bool `json:"cleanResources,omitempty"`
}

// RecoveryUse is what runs when a Node has joined again.
type RecoveryUse struct {
	// name is the name of a remedy in remedyConfigs with a podTemplate. Without one of that name, only what was switched off is switched on.
	// +required
	Name RemedyName `json:"name"`
}

// RemedyConfig is a remedy: a Pod, or a fence.
//
// +kubebuilder:validation:XValidation:rule="has(self.podTemplate) != has(self.fence)",message="a remedy has either a podTemplate or a fence"
// +kubebuilder:validation:XValidation:rule="!has(self.powerOff) || !self.powerOff || has(self.podTemplate)",message="powerOff needs a podTemplate: a fence names its methods",fieldPath=".powerOff"
type RemedyConfig struct {
	// name is the name of the remedy.
	// +required
	Name RemedyName `json:"name"`

	// podTemplate is a Pod that runs to success or failure. It gets what it acts on in the environment: REMEDY_NODE, REMEDY_ACTION and others.
	// An invalid one is reported in the condition Valid.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	PodTemplate *runtime.RawExtension `json:"podTemplate,omitempty"`

	// powerOff is whether the Pod switches the Node off and on. Then it does the action in REMEDY_ACTION: on, off or status. It answers status
	// with the line "Status: ON" and exit code 0, or "Status: OFF" and exit code 2. The default is false: the Pod runs once.
	// +optional
	PowerOff bool `json:"powerOff,omitempty"`

	// fence is a NodeFence: its profileName names the FenceProfile with the devices.
	// +optional
	Fence *NodeFenceSpec `json:"fence,omitempty"`
}

// NodeRemedyStatus is the state after the last reconcile.
type NodeRemedyStatus struct {
	// conditions are Ready, which repeats that of the NodeHealthCheck, and Valid.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that the conditions are about.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// observedNodes is the number of Nodes that are monitored.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedNodes *int32 `json:"observedNodes,omitempty"`

	// healthyNodes is the number of Nodes that are known to be healthy and have no remediation request left.
	// +optional
	// +kubebuilder:validation:Minimum=0
	HealthyNodes *int32 `json:"healthyNodes,omitempty"`

	// remediating is the number of Nodes that are being remediated.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Remediating *int32 `json:"remediating,omitempty"`

	// blocked is the number of Nodes that are unhealthy and not remediated.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Blocked *int32 `json:"blocked,omitempty"`
}

// NodeRemedy is which conditions of which Nodes are remediated, and how: a NodeHealthCheck of its name, NodeFenceTemplates and a
// FenceProfile are generated from it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=noderemedies,scope=Cluster,shortName=rnr,categories={remedy,cluster-api}
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterRef.name`,description="The Cluster whose Nodes are monitored; empty for this one"
// +kubebuilder:printcolumn:name="Targets",type=integer,JSONPath=`.status.observedNodes`,description="How many Nodes are monitored"
// +kubebuilder:printcolumn:name="Healthy",type=integer,JSONPath=`.status.healthyNodes`,description="How many are known to be healthy"
// +kubebuilder:printcolumn:name="Remediating",type=integer,JSONPath=`.status.remediating`,description="How many are being remediated"
// +kubebuilder:printcolumn:name="Blocked",type=integer,JSONPath=`.status.blocked`,description="How many are unhealthy and not remediated"
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`,description="False if it cannot be used as it is"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="False if an administrator has to act"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="The reason of Ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name must have at most 63 characters: it is the name of the generated FenceProfile"
type NodeRemedy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is which conditions of which Nodes are remediated, and how.
	// +required
	Spec NodeRemedySpec `json:"spec"`

	// status is the state after the last reconcile.
	// +optional
	Status NodeRemedyStatus `json:"status,omitempty,omitzero"`
}

// NodeRemedyList is a list of NodeRemedies.
//
// +kubebuilder:object:root=true
type NodeRemedyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeRemedy `json:"items"`
}
