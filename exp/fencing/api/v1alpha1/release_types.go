// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// ReleasePolicy is what happens to the workload of a Node that is proven off.
type ReleasePolicy string

// The policies of a release.
const (
	// ReleaseWorkload removes the Pods of the Node, so that they start on other Nodes.
	ReleaseWorkload ReleasePolicy = "Workload"
	// ReleaseNone releases nothing: Pods stay bound to the Node.
	ReleaseNone ReleasePolicy = "None"
)

// Release is what happens to the workload of a Node that is proven off.
type Release struct {
	// policy is what is released. Workload, the default, removes the Pods of the Node after they are terminating and the Node is proven off,
	// so that they start on other Nodes. None releases nothing.
	// +optional
	// +kubebuilder:validation:Enum=Workload;None
	// +kubebuilder:default=Workload
	Policy ReleasePolicy `json:"policy,omitempty"`

	// podsPerSecond is how many Pods begin to terminate in each second. 0, the default, is no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=0
	PodsPerSecond int32 `json:"podsPerSecond,omitempty"`

	// timeout is how long it can take until the Pods are terminating, and until they are removed after the last proof. The default is 10m. It
	// is at least 1m.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="type(self) != string || duration(self) >= duration('1m')",message="must be at least 1m: Kubernetes needs up to 50 seconds to set Ready to Unknown"
	Timeout *remedyv1.Duration `json:"timeout,omitempty"`
}

// AfterTimeout is what follows when a drain has not ended in time.
type AfterTimeout string

// What follows when a drain has not ended in time.
const (
	// FailDrain ends the fence, and the Node keeps running.
	FailDrain AfterTimeout = "Fail"
	// ContinueFence fences the Node with the Pods that are left.
	ContinueFence AfterTimeout = "Continue"
)

// Drain is how the Pods of a Node that is Ready are evicted before it is fenced.
type Drain struct {
	// timeout is how long the Pods have. It is at least 10s.
	// +required
	// +kubebuilder:validation:XValidation:rule="type(self) != string || duration(self) >= duration('10s')",message="must be at least 10s"
	Timeout remedyv1.Duration `json:"timeout"`

	// waitFor selects Pods that are not evicted: they end by themselves. By default every Pod is evicted.
	// +optional
	WaitFor *remedyv1.Selector `json:"waitFor,omitempty"`

	// afterTimeout is what follows if Pods are left. Fail, the default, ends the fence, and the Node keeps running. Continue fences it.
	// +optional
	// +kubebuilder:validation:Enum=Fail;Continue
	// +kubebuilder:default=Fail
	AfterTimeout AfterTimeout `json:"afterTimeout,omitempty"`
}

// PowerOnPolicy is which Nodes are switched on at the end of a fence.
type PowerOnPolicy string

// Which Nodes are switched on.
const (
	// PowerOnIfPoweredOff switches on what the fence has switched off.
	PowerOnIfPoweredOff PowerOnPolicy = "IfPoweredOff"
	// PowerOnAlways also switches on what was off before.
	PowerOnAlways PowerOnPolicy = "Always"
	// PowerOnNever switches nothing on.
	PowerOnNever PowerOnPolicy = "Never"
)

// ReleaseScope is which workload a release removes.
type ReleaseScope string

// The scopes of a release.
const (
	// ScopeNode is every Pod of the Node.
	ScopeNode ReleaseScope = "Node"
	// ScopeStorage is the Pods whose volumes are all isolated.
	ScopeStorage ReleaseScope = "Storage"
)

// ReleaseRecord is what is known of the release. A time is removed when it no longer holds.
type ReleaseRecord struct {
	// scope is which Pods are removed: all of the Node, or those whose storage is isolated.
	// +required
	// +kubebuilder:validation:Enum=Node;Storage
	Scope ReleaseScope `json:"scope"`

	// startedAt is when Pods began to be terminated.
	// +required
	StartedAt metav1.Time `json:"startedAt"`

	// terminatingAt is when every Pod was terminating. Only answers to questions after that prove that the Pods can be removed.
	// +optional
	TerminatingAt *metav1.Time `json:"terminatingAt,omitempty"`

	// pods is how many Pods there were then.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Pods int32 `json:"pods,omitempty"`

	// provenAt is when the Node, or its storage, was proven off again after that.
	// +optional
	ProvenAt *metav1.Time `json:"provenAt,omitempty"`

	// outOfServiceTaint is whether this fence adds the taint node.kubernetes.io/out-of-service. A taint of another party is not removed.
	// +optional
	OutOfServiceTaint bool `json:"outOfServiceTaint,omitempty"`

	// endedAt is when the release ended.
	// +optional
	EndedAt *metav1.Time `json:"endedAt,omitempty"`

	// left are Pods and VolumeAttachments that were not removed in time, at most ten.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Left []string `json:"left,omitempty"`
}
