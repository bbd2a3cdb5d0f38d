// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

var (
	// GroupVersion is the group and version of all kinds in this package.
	GroupVersion = remedyv1.GroupVersion

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the kinds of this package to a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&NodeFence{}, &NodeFenceList{},
		&NodeFenceTemplate{}, &NodeFenceTemplateList{},
		&FenceProfile{}, &FenceProfileList{},
		&NodeRemedy{}, &NodeRemedyList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
