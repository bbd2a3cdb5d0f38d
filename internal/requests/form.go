// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// CheckOf returns the check in the annotation of an object, if that check can have created the object as a request. The annotation alone is
// not enough: every user who can annotate an object could have it deleted, or have it counted for a check of another namespace.
//
// A request for a Machine is in the namespace of its check. It has the name of the Machine, its only Machine among the owners; a request
// for a Node has the name of the Node that owns it, or is owned by its NodeHealthCheck. It has no controller, unlike the infrastructure of a
// Machine.
func CheckOf(object metav1.Object) (Check, bool) {
	check, valid := ParseCheck(object.GetAnnotations()[remedyv1.CheckAnnotation])
	if !valid || metav1.GetControllerOfNoCopy(object) != nil {
		return Check{}, false
	}
	machines, owned := 0, false
	for _, owner := range object.GetOwnerReferences() {
		group, _, versioned := strings.Cut(owner.APIVersion, "/")
		ofTarget := owner.Name == object.GetName()
		switch {
		case owner.Kind == "Machine" && group == clusterv1.GroupVersion.Group:
			machines++
			owned = owned || ofTarget && check.Namespace != ""
		case check.Namespace != "":
		case owner.Kind == "Node" && !versioned:
			owned = owned || ofTarget
		case owner.Kind == nodeHealthCheck && group == remedyv1.GroupVersion.Group:
			owned = owned || owner.Name == check.Name
		}
	}
	if !owned || machines > 1 || check.Namespace != "" && check.Namespace != object.GetNamespace() {
		return Check{}, false
	}
	return check, true
}
