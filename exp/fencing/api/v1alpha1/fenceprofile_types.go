// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// MethodName is the name of a method of a FenceProfile.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=40
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a method, such as ipmi: lower case letters, digits or '-', beginning and ending with a letter or digit"
type MethodName string

// FenceProfileSpec is which devices fence which Nodes of one cluster.
//
// +kubebuilder:validation:XValidation:rule="!has(self.isolation) || self.isolation.all(name, self.methods.exists(method, method.name == name))",message="isolation names a method that is not in methods: add the method, or correct the name",fieldPath=".isolation"
// +kubebuilder:validation:XValidation:rule="!has(self.run) || self.run.all(name, self.methods.exists(method, method.name == name))",message="run names a method that is not in methods: add the method, or correct the name",fieldPath=".run"
// +kubebuilder:validation:XValidation:rule="!has(self.powerManagement) || self.powerManagement.all(level, level.methods.all(name, self.methods.exists(method, method.name == name)))",message="powerManagement names a method that is not in methods: add the method, or correct the name",fieldPath=".powerManagement"
// +kubebuilder:validation:XValidation:rule="!has(self.isolation) || !has(self.powerManagement) || !self.powerManagement.exists(level, level.methods.exists(name, name in self.isolation))",message="a method is in isolation and in powerManagement: keep it in one of them",fieldPath=".powerManagement"
// +kubebuilder:validation:XValidation:rule="!has(self.run) || !has(self.isolation) || !self.run.exists(name, name in self.isolation)",message="a method is in run and in isolation: keep it in one of them, because run does not switch off and on",fieldPath=".run"
// +kubebuilder:validation:XValidation:rule="!has(self.run) || !has(self.powerManagement) || !self.powerManagement.exists(level, level.methods.exists(name, name in self.run))",message="a method is in run and in powerManagement: keep it in one of them, because run does not switch off and on",fieldPath=".run"
// +kubebuilder:validation:XValidation:rule="has(self.image) || self.methods.all(method, !has(method.agent) || has(method.image))",message="a method with an agent needs an image: set image here, for all methods, or in the method",fieldPath=".methods"
// +kubebuilder:validation:XValidation:rule="!has(self.nodes) || self.nodes.all(node, !has(node.parameters) || node.parameters.all(name, self.methods.exists(method, method.name == name)))",message="a row of nodes has parameters of a method that is not in methods: add the method, or correct the name",fieldPath=".nodes"
// +kubebuilder:validation:XValidation:rule="!has(self.nodes) || self.nodes.all(node, !has(node.secretNames) || node.secretNames.all(name, self.methods.exists(method, method.name == name)))",message="a row of nodes has a Secret of a method that is not in methods: add the method, or correct the name",fieldPath=".nodes"
type FenceProfileSpec struct {
	// clusterName is the Cluster whose Nodes are fenced, in this namespace. By default, these are the Nodes of the cluster of the manager.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of a Cluster: lower case letters, digits, '-' or '.', beginning and ending with a letter or digit"
	ClusterName string `json:"clusterName,omitempty"`

	// nodeSelector selects Nodes that need no row. By default, only Nodes with a row are fenced. An empty one ({}) selects every Node.
	// +optional
	NodeSelector *remedyv1.Selector `json:"nodeSelector,omitempty"`

	// image is the container image with the fence agents. Methods can have another one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// methods are the devices, and how they are asked.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Methods []FenceMethod `json:"methods"`

	// isolation are methods that cut the Node off before it is switched off, in this order. By default there are none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Isolation []MethodName `json:"isolation,omitempty"`

	// run are methods that run after the isolation, in this order. Only their success matters. By default there are none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Run []MethodName `json:"run,omitempty"`

	// powerManagement are levels of methods that switch the Node off. The first level whose methods all answer OFF proves that it is off.
	// By default there are none, so that the Node is not switched off.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	PowerManagement []PowerLevel `json:"powerManagement,omitempty"`

	// nodes are the Nodes, a row for each.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Nodes []FenceProfileNode `json:"nodes,omitempty"`

	// checkInterval is how often the devices of each row are asked for the power of its Node, one row after the other. Of the Nodes that
	// nodeSelector selects, one is asked. The default is 0s, which asks none. It is at least 10m.
	// +optional
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:XValidation:rule="type(self) != string || duration(self) == duration('0s') || duration(self) >= duration('10m')",message="must be at least 10m, such as 24h, or 0s to ask no device"
	CheckInterval *remedyv1.Duration `json:"checkInterval,omitempty"`
}

// FenceProfileStatus is what the devices answered last.
type FenceProfileStatus struct {
	// nodes are the Nodes whose devices were checked.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=257
	Nodes []CheckedNode `json:"nodes,omitempty"`
}

// CheckedNode is the last check of the devices of a Node.
type CheckedNode struct {
	// name is the name of the Node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// selected is whether the Node has no row, and stands for all Nodes that nodeSelector selects.
	// +optional
	Selected bool `json:"selected,omitempty"`

	// checkedAt is when the check ended.
	// +required
	CheckedAt metav1.Time `json:"checkedAt"`

	// succeeded is whether every device answered, with a power that can be true.
	// +optional
	Succeeded bool `json:"succeeded"`

	// reason is how the check ended: a reason of the condition Succeeded of a NodeFence, or TimedOut.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`

	// message is what each device answered, or why none was asked, and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// unreachable are methods whose device did not answer when it was asked last.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Unreachable []MethodName `json:"unreachable,omitempty"`
}

// PowerLevel is methods that switch off a Node together, such as its two power supplies.
type PowerLevel struct {
	// methods are the methods. All of them must answer OFF.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Methods []MethodName `json:"methods"`
}

// FenceMethod is a device, and how it is asked.
//
// +kubebuilder:validation:XValidation:rule="has(self.agent) != has(self.podTemplate)",message="a method has either an agent, such as fence_ipmilan, or a podTemplate"
type FenceMethod struct {
	// name is the name of the method.
	// +required
	Name MethodName `json:"name"`

	// agent is a fence agent in the image, such as fence_ipmilan. It or podTemplate is required.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^fence_[a-z0-9_]+$')",message="must be the name of a fence agent, such as fence_ipmilan"
	Agent string `json:"agent,omitempty"`

	// podTemplate is a Pod that does the action in REMEDY_ACTION: on, off, status or run. It answers status with the line "Status: ON" and exit
	// code 0, or "Status: OFF" and exit code 2.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	PodTemplate *corev1.PodTemplateSpec `json:"podTemplate,omitempty"`

	// image is the container image with the agent. The default is that of the profile.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// parameters are parameters of the agent for every Node. $(nodeName), $(providerID) and $(instanceID), its last part, are replaced.
	// +optional
	Parameters Parameters `json:"parameters,omitempty"`

	// secretName is a Secret in this namespace. By default there is none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret in this namespace"
	SecretName string `json:"secretName,omitempty"`

	// secretKeys are the keys of the Secret that become parameters of the agent. The default is username and password.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:default={username,password}
	SecretKeys []ParameterName `json:"secretKeys,omitempty"`

	// storageClasses are the StorageClasses from whose volumes a Node is cut off when this method of isolation is off. Without power management,
	// Pods all of whose volumes have such a class are removed. By default there are none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	StorageClasses []StorageClassName `json:"storageClasses,omitempty"`

	// serviceAccountName is the ServiceAccount of the Pod. By default it has no token.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a ServiceAccount in this namespace"
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// timeout is how long an action can take. The default is 2m. It is from 10s to 1h.
	// +optional
	// +kubebuilder:default="2m"
	// +kubebuilder:validation:XValidation:rule="type(self) != string || duration(self) >= duration('10s') && duration(self) <= duration('1h')",message="must be from 10s to 1h"
	Timeout *remedyv1.Duration `json:"timeout,omitempty"`
}

// ParameterName is the name of a parameter of an agent.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_-]*$')",message="must be the name of a parameter, such as password: letters, digits, '_' or '-', beginning with a letter"
// +kubebuilder:validation:XValidation:rule="!self.matches('(?i)^(action|help|version|missing.as.off)$|^(verbose|debug)|[_-](script|path)$')",message="must not be action, help, version, missing_as_off, verbose*, debug*, *_script or *_path: they change the action or its proof, run programs, or write to the log"
type ParameterName string

// ParameterValue is the value of a parameter of an agent.
//
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:XValidation:rule="!self.matches('\\\\pC')",message="must not have control characters or invisible characters: a parameter of an agent is one line"
// +kubebuilder:validation:XValidation:rule="!self.startsWith(' ') && !self.endsWith(' ') && !self.startsWith('\"') && !self.endsWith('\"') && !self.startsWith(\"'\") && !self.endsWith(\"'\")",message="must not begin or end with a blank or a quote: an agent removes it"
type ParameterValue string

// StorageClassName is the name of a StorageClass.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
type StorageClassName string

// Parameters are parameters of an agent.
//
// +kubebuilder:validation:MaxProperties=32
// +kubebuilder:validation:XValidation:rule="self.all(key, key.matches('^[A-Za-z][A-Za-z0-9_-]*$'))",message="every key must be the name of a parameter, such as plug: letters, digits, '_' or '-', beginning with a letter"
// +kubebuilder:validation:XValidation:rule="!self.exists(key, key.matches('(?i)^(action|help|version|missing.as.off)$|^(verbose|debug)|[_-](script|path)$'))",message="no key must be action, help, version, missing_as_off, verbose*, debug*, *_script or *_path: they change the action or its proof, run programs, or write to the log"
type Parameters map[string]ParameterValue

// FenceProfileNode is a row: what is particular to one Node.
type FenceProfileNode struct {
	// name is the name of the Node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Node"
	Name string `json:"name"`

	// providerID is the provider ID of the Node. A Node with another one is not fenced by this row. By default, it is not compared.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ProviderID string `json:"providerID,omitempty"`

	// parameters are parameters for this Node, for each method. They replace those of the method.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	Parameters map[string]Parameters `json:"parameters,omitempty"`

	// secretNames are Secrets for this Node, for each method. They replace that of the method.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	SecretNames map[string]string `json:"secretNames,omitempty"`
}

// FenceProfile is which devices fence which Nodes of one cluster: methods, steps, and a row for each Node.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=fenceprofiles,scope=Namespaced,shortName=rfp,categories={remedy,cluster-api}
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterName`,description="The Cluster whose Nodes are fenced; empty for this one"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`,description="The image with the fence agents"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FenceProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is which devices fence which Nodes.
	// +required
	Spec FenceProfileSpec `json:"spec"`

	// status is what the devices answered last.
	// +optional
	Status FenceProfileStatus `json:"status,omitempty,omitzero"`
}

// FenceProfileList is a list of FenceProfiles.
//
// +kubebuilder:object:root=true
type FenceProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FenceProfile `json:"items"`
}
