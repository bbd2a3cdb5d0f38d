// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is what users write and read: the kinds of the API group remedy.cluster.x-k8s.io.
//
// It imports nothing but API types, so that everybody can import it.
//
// +kubebuilder:object:generate=true
// +groupName=remedy.cluster.x-k8s.io
package v1alpha1
