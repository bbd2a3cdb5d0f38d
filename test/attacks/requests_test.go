// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// A tenant creates a request in its own namespace, in the name of a check of another tenant. It takes no place of that check, does not mark
// its control plane as busy, and does not keep it from being deleted. The manager neither changes nor deletes it.
func TestAttack_RequestOfOtherNamespace_HasNoEffect(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	forged := remediator.Metal3.NewRequest(s.Namespace+"-attacker", "forged")
	s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: forged.GetNamespace()}})
	m := s.CreateUnhealthyMachine("m-1")
	forged.SetAnnotations(map[string]string{
		remedyv1.CheckAnnotation: "MachineHealthCheck/" + s.Namespace + "/workers", remedyv1.StepAnnotation: "0",
	})
	forged.SetLabels(map[string]string{remedyv1.ControlPlaneRequestLabel: ""})
	forged.SetFinalizers([]string{"evil.example.com/keep"})
	forged.SetOwnerReferences([]metav1.OwnerReference{machineOwner(m, "forged")})
	s.Create(forged)
	t.Cleanup(func() { s.SetRequestFinalizers(forged) })
	before := stage.Get(s, forged)().GetResourceVersion()

	check := s.CreateCheck("workers", stage.ByNewTemplate(s), stage.MaxInFlight(1))
	s.Start()
	s.WaitRequest(remediator.Metal3, "m-1")
	s.Expect(s.Admin.Delete(t.Context(), check)).To(Succeed())
	s.Eventually(func() bool {
		return apierrors.IsNotFound(s.Admin.Get(t.Context(), client.ObjectKeyFromObject(check), check))
	}).Should(BeTrue())
	s.Expect(stage.Get(s, forged)().GetResourceVersion()).To(Equal(before))
	t.Log("request of another namespace: no effect")
}

// A user who can annotate an object, and cannot delete it, writes the name of a check on it. The manager does not delete it.
func TestAttack_AnnotationOfCheck_DeletesNothing(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	m := s.CreateUnhealthyMachine("m-1")
	controlled := machineOwner(s.CreateMachine("m-2"), "m-2")
	controlled.Controller = ptr.To(true)
	objects := make([]*unstructured.Unstructured, 0, 3)
	for name, owners := range map[string][]metav1.OwnerReference{
		"without-owner": nil, "other-name": {machineOwner(m, "m-1")}, "m-2": {controlled},
	} {
		object := remediator.Metal3.NewRequest(s.Namespace, name)
		object.SetAnnotations(map[string]string{remedyv1.CheckAnnotation: "MachineHealthCheck/" + s.Namespace + "/workers"})
		object.SetOwnerReferences(owners)
		s.Create(object)
		objects = append(objects, object)
	}
	s.CreateCheck("workers", stage.ByNewTemplate(s))
	c := s.Start()
	s.WaitRequest(remediator.Metal3, "m-1")
	c.WaitIdle()
	for _, object := range objects {
		s.Expect(stage.Get(s, object)()).To(HaveField("GetDeletionTimestamp()", BeNil()), object.GetName())
	}
	t.Log("annotation of a check on other objects: nothing is deleted")
}

func machineOwner(m *clusterv1.Machine, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: m.UID}
}
