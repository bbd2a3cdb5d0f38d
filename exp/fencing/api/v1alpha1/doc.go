// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the kinds of fencing. They are in the API group remedy.cluster.x-k8s.io, and only fencing-components.yaml installs
// them.
//
// It only imports API types, so that any project can import it. It has no behavior: exp/fencing/lifecycle has. Start with
// nodefence_types.go.
//
// +kubebuilder:object:generate=true
// +groupName=remedy.cluster.x-k8s.io
package v1alpha1
