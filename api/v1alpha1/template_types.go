// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// TemplateKind names a remediation template. Its requests have the same kind without "Template".
type TemplateKind struct {
	// apiVersion is the group and version of the template, such as infrastructure.cluster.x-k8s.io/v1beta1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[a-z]([-a-z0-9]*[a-z0-9])?$')",message="must be a group and a version, such as infrastructure.cluster.x-k8s.io/v1beta1"
	APIVersion string `json:"apiVersion"`

	// kind is the kind of the template. It ends in Template, as in Metal3RemediationTemplate.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z][A-Za-z0-9]*Template$')",message="must be a kind that ends in Template, such as Metal3RemediationTemplate: the request has the same kind without it"
	Kind string `json:"kind"`

	// name is the name of the template.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of an object: lower case letters, digits, '-' or '.', beginning and ending with a letter or digit"
	Name string `json:"name"`
}
