// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// FenceMode is what a NodeFence does.
type FenceMode string

// The modes of a NodeFence.
const (
	// FenceNode switches the Node off and on.
	FenceNode FenceMode = "Fence"
	// CheckDevices only asks the devices of the Node for its power.
	CheckDevices FenceMode = "Check"
)

// NodeFenceSpec is how a Node is fenced. It cannot be changed.
//
// +kubebuilder:validation:XValidation:rule="!has(self.isolation) || !has(self.powerManagement) || !self.powerManagement.exists(level, level.methods.exists(name, name in self.isolation))",message="a method is in isolation and in powerManagement: keep it in one of them",fieldPath=".powerManagement"
// +kubebuilder:validation:XValidation:rule="!has(self.run) || !has(self.isolation) || !self.run.exists(name, name in self.isolation)",message="a method is in run and in isolation: keep it in one of them, because run does not switch off and on",fieldPath=".run"
// +kubebuilder:validation:XValidation:rule="!has(self.run) || !has(self.powerManagement) || !self.powerManagement.exists(level, level.methods.exists(name, name in self.run))",message="a method is in run and in powerManagement: keep it in one of them, because run does not switch off and on",fieldPath=".run"
type NodeFenceSpec struct {
	// mode is what is done. Fence, the default, switches the Node off and on. Check only asks each device for the power of the Node, changes
	// nothing, and reports the answers.
	// +optional
	// +kubebuilder:validation:Enum=Fence;Check
	// +kubebuilder:default=Fence
	Mode FenceMode `json:"mode,omitempty"`

	// profileName is the FenceProfile of the Node, in this namespace. The default is the one with a row for the Node, or else the one whose
	// nodeSelector selects it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a FenceProfile in this namespace"
	ProfileName string `json:"profileName,omitempty"`

	// isolation replaces the isolation of the profile: methods that cut the Node off. An empty list ([]) skips the step.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Isolation *[]MethodName `json:"isolation,omitempty"`

	// run replaces the methods to run of the profile. An empty list ([]) runs none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Run *[]MethodName `json:"run,omitempty"`

	// powerManagement replaces the levels of the profile. An empty list ([]) skips the step, so that the Node is not switched off.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	PowerManagement *[]PowerLevel `json:"powerManagement,omitempty"`

	// powerDelay is how long the Node has to become Ready between isolation and power management. The default is 0s, which waits not at all.
	// +optional
	// +kubebuilder:default="0s"
	PowerDelay *remedyv1.Duration `json:"powerDelay,omitempty"`

	// release is what happens to the workload of a Node that is proven off. The default removes its Pods, so that they start elsewhere.
	// +optional
	// +kubebuilder:default={policy: Workload}
	Release Release `json:"release,omitempty,omitzero"`

	// drain is how the Pods of a Node that is Ready are evicted before it is fenced. By default, a Node that is Ready is not switched off.
	// +optional
	Drain *Drain `json:"drain,omitempty"`

	// recovery are methods that run when the Node has joined again, before it gets workload, in this order. By default there are none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Recovery []MethodName `json:"recovery,omitempty"`

	// powerOn is what is switched on at the end. IfPoweredOff, the default, is what this fence has switched off. Always is also what was off
	// before. Never is nothing: the Node stays off until a person switches it on.
	// +optional
	// +kubebuilder:validation:Enum=IfPoweredOff;Always;Never
	// +kubebuilder:default=IfPoweredOff
	PowerOn PowerOnPolicy `json:"powerOn,omitempty"`

	// retries is how often a failed action of a device is repeated. The default is 2. 0 repeats none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +kubebuilder:default=2
	Retries *int32 `json:"retries,omitempty"`

	// restarts is how often all is repeated when it has failed. The default is 1. 0 repeats nothing.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +kubebuilder:default=1
	Restarts *int32 `json:"restarts,omitempty"`

	// rejoinTimeout is how long the Node has, once it is switched on, to become Ready with a new boot. The default is 10m. It is at least 1m.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="type(self) != string || duration(self) >= duration('1m')",message="must be at least 1m: a machine needs time to boot"
	RejoinTimeout *remedyv1.Duration `json:"rejoinTimeout,omitempty"`

	// limits are what keeps a fence from beginning.
	// +optional
	// +kubebuilder:default={}
	Limits FenceLimits `json:"limits,omitempty,omitzero"`
}

// FenceLimits are what keeps a fence from beginning. They are evaluated again just before the first action that switches a Node off.
type FenceLimits struct {
	// maxParallel is how many Nodes of the cluster can be fenced at the same time. The default is 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	MaxParallel *int32 `json:"maxParallel,omitempty"`

	// maxNotReady is how many Nodes of the cluster can be not Ready, as a number or a percentage, rounded up. Above it, every fence waits.
	// The default is 40%. At least 1 is always allowed.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? int(self) >= 1 && int(self) <= 100000 : string(self).matches('^(100|[1-9]?[0-9])%$')",message="must be a number from 1 to 100000, such as 2, or a percentage from 0% to 100%, such as 40%"
	// +kubebuilder:default="40%"
	MaxNotReady *intstr.IntOrString `json:"maxNotReady,omitempty"`

	// blockingConditions are conditions of the Node with which it is not fenced, because the Node is not the cause. By default there are none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	BlockingConditions []NodeCondition `json:"blockingConditions,omitempty"`

	// repeatPeriod is the time in which a second fence of the same Node is counted as a repetition. The default is 24h. 0s counts none.
	// +optional
	// +kubebuilder:default="24h"
	RepeatPeriod *remedyv1.Duration `json:"repeatPeriod,omitempty"`
}

// NodeCondition is a status of a condition of a Node.
type NodeCondition struct {
	// type is the type of the condition.
	// +required
	Type remedyv1.NodeConditionType `json:"type"`

	// status is the status: "True", "False" or Unknown. True and False need the quotes.
	// +required
	Status remedyv1.ConditionStatus `json:"status"`
}

// NodeFence is a request to fence one Node, and the record of what was done.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodefences,scope=Namespaced,shortName=rnf,categories={remedy,cluster-api}
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.node.name`,description="The Node that is fenced"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="New, Running, Done, Final or Error"
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.step`,description="Isolation, PowerManagement or Recovery"
// +kubebuilder:printcolumn:name="Retries",type=integer,JSONPath=`.status.retries`,description="How often the present action was repeated"
// +kubebuilder:printcolumn:name="Fenced",type=string,JSONPath=`.status.conditions[?(@.type=="Fenced")].status`,description="Whether the Node is proven off"
// +kubebuilder:printcolumn:name="Released",type=string,JSONPath=`.status.conditions[?(@.type=="Released")].status`,description="Whether its workload is released"
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].status`,description="The result; Unknown while the fence runs"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].reason`,description="What the fence does, what it waits for, or why it has failed"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeFence struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is how the Node is fenced. It cannot be changed.
	// +optional
	// +kubebuilder:default={}
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the spec of a NodeFence cannot be changed: delete it, and create another one"
	Spec NodeFenceSpec `json:"spec,omitempty,omitzero"`

	// status is the record of what was done.
	// +optional
	Status NodeFenceStatus `json:"status,omitempty,omitzero"`
}

// NodeFenceList is a list of NodeFences.
//
// +kubebuilder:object:root=true
type NodeFenceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeFence `json:"items"`
}
