// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

// The process needs a Lease in its own namespace for leader election, and reviews of requests for the diagnostics.
//
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=remedy-system,resources=leases,verbs=create;get;update
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
