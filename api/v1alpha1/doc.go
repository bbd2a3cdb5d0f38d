// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the kinds of the API group remedy.cluster.x-k8s.io.
//
// It only imports API types, so that any project can import it. It has no behavior: controllers have. Start with
// machinehealthcheck_types.go.
//
// +kubebuilder:object:generate=true
// +groupName=remedy.cluster.x-k8s.io
package v1alpha1
