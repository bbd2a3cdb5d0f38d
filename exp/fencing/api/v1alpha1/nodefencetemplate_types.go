// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeFenceTemplateSpec is what a NodeFence is created from.
type NodeFenceTemplateSpec struct {
	// template is the NodeFence that a check creates.
	// +required
	Template NodeFenceTemplateResource `json:"template"`
}

// NodeFenceTemplateResource is the NodeFence that a check creates.
type NodeFenceTemplateResource struct {
	// metadata are labels and annotations of the NodeFence.
	// +optional
	Metadata NodeFenceMetadata `json:"metadata,omitempty,omitzero"`

	// spec is the spec of the NodeFence. An empty one ({}) switches a Node off, proves it, and switches it on again.
	// +required
	Spec NodeFenceSpec `json:"spec"`
}

// NodeFenceMetadata are labels and annotations of a NodeFence.
type NodeFenceMetadata struct {
	// labels are added to those that the check sets.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are added to those that the check sets.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// NodeFenceTemplate is a remediation template: MachineHealthChecks and NodeHealthChecks create a NodeFence from it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodefencetemplates,scope=Namespaced,shortName=rnft,categories={remedy,cluster-api}
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.template.spec.mode`,description="Fence or Check"
// +kubebuilder:printcolumn:name="Profile",type=string,JSONPath=`.spec.template.spec.profileName`,description="The FenceProfile; empty for the one that has a row for the Node or selects it"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeFenceTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what a NodeFence is created from.
	// +required
	Spec NodeFenceTemplateSpec `json:"spec"`
}

// NodeFenceTemplateList is a list of NodeFenceTemplates.
//
// +kubebuilder:object:root=true
type NodeFenceTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeFenceTemplate `json:"items"`
}
