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
	"k8s.io/apimachinery/pkg/util/intstr"
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
	// A manager for one namespace would not read the request.
	s := stage.New(t, stage.WithTenants)
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
	outcome(t, "request of another namespace: no effect")
}

// A tenant creates a request in its own namespace that is owned by a Machine of the control plane of another tenant, and keeps it with a
// finalizer. It is in the name of a check of its own, or of none. The control plane is not busy, whether its Machines or its Nodes are
// monitored.
func TestAttack_ForeignControlPlane_IsNotBusy(t *testing.T) {
	for name, attack := range map[string]struct {
		ofNodes bool
		check   func(attacker string) string
	}{
		"MachineHealthCheck": {check: func(attacker string) string { return "MachineHealthCheck/" + attacker + "/own" }},
		"without check":      {check: func(string) string { return "" }},
		"NodeHealthCheck":    {true, func(attacker string) string { return "MachineHealthCheck/" + attacker + "/own" }},
	} {
		t.Run(name, func(t *testing.T) {
			stage.LockControlPlane(t)
			s := stage.New(t, stage.WithTenants)
			members := s.CreateControlPlane(3)
			nodeLabels := map[string]remedyv1.LabelValue{"stage": remedyv1.LabelValue(s.Namespace)}
			for _, m := range members {
				s.ChangeNode(m.Name, func(node *corev1.Node) { node.Labels = map[string]string{"stage": s.Namespace} })
			}
			attacker := s.Namespace + "-attacker"
			s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: attacker}})
			forged := remediator.Metal3.NewRequest(attacker, "cp-1")
			forged.SetAnnotations(map[string]string{
				remedyv1.CheckAnnotation: attack.check(attacker), remedyv1.StepAnnotation: "0",
				remedyv1.NodeNameAnnotation: s.NodeName("cp-1"), remedyv1.NodeUIDAnnotation: string(s.Node("cp-1").UID),
			})
			forged.SetLabels(map[string]string{remedyv1.ControlPlaneRequestLabel: ""})
			forged.SetFinalizers([]string{"evil.example.com/keep"})
			forged.SetOwnerReferences([]metav1.OwnerReference{machineOwner(members[0], "cp-1")})
			s.Create(forged)
			t.Cleanup(func() { s.SetRequestFinalizers(forged) })
			// The requests of a kind are read because a check names it. The second check makes the manager read those of other checks.
			workers := s.CreateCheck("workers", stage.ByNewTemplate(s))
			control := s.CreateCheck("control", stage.OfPool("control"), stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "hard")))
			request := "cp-2"
			if attack.ofNodes {
				s.Expect(s.Admin.Delete(s.Ctx, control)).To(Succeed())
				s.CreateNodeCheck("control", func(spec *remedyv1.NodeHealthCheckSpec) {
					spec.Selector.MatchLabels = nodeLabels
					spec.RemediationTemplate = stage.NodeTemplateReference(s, remediator.Metal3, "hard")
				})
				request = s.NodeName("cp-2")
			}
			s.FailNode("cp-2")
			s.Start().NeverIdle = true
			s.WaitRequest(remediator.Metal3, request)
			// Nothing waits until the controllers are idle.
			s.Eventually(stage.Get(s, workers)).Should(HaveField("Status.ObservedGeneration", BeNumerically(">", 0)))
			outcome(t, "request of another namespace for a member of the control plane, in the name of %s: no effect", name)
		})
	}
}

// A tenant creates a request in its own namespace, in the name of a NodeHealthCheck. It takes no place of that check, and the manager
// neither changes nor deletes it.
func TestAttack_RequestOfOtherNamespace_NodeCheckIgnoresIt(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	node := s.CreateUnhealthyNode("n-1")
	gone := s.CreateNode("n-2")
	s.CreateNode("n-3")
	s.CreateNode("n-4")
	check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) { spec.MaxInFlight = ptr.To(intstr.FromInt(1)) })
	attacker := s.Namespace + "-attacker"
	s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: attacker}})
	forged := make([]*unstructured.Unstructured, 0, 2)
	for _, of := range []*corev1.Node{node, gone} {
		request := remediator.FenceAgents.NewRequest(attacker, of.Name)
		request.SetAnnotations(map[string]string{
			remedyv1.CheckAnnotation: "NodeHealthCheck//" + check.Name, remedyv1.StepAnnotation: "0",
			remedyv1.NodeNameAnnotation: of.Name, remedyv1.NodeUIDAnnotation: string(of.UID),
		})
		request.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: of.Name, UID: of.UID}})
		request.SetFinalizers([]string{"evil.example.com/keep"})
		s.Create(request)
		forged = append(forged, request)
		t.Cleanup(func() { s.SetRequestFinalizers(request) })
	}
	s.Expect(s.Admin.Delete(s.Ctx, gone)).To(Succeed())
	c := s.Start()
	// It waits until each request is in the cache of its check.
	c.NeverIdle = true
	s.WaitRequest(remediator.FenceAgents, node.Name)
	c.WaitNoReconciles()
	for _, request := range forged {
		before := request.GetResourceVersion()
		s.Expect(stage.Get(s, request)().GetResourceVersion()).To(Equal(before))
	}
	s.Expect(stage.Get(s, check)().Status.InFlightRemediations).To(HaveLen(1))
	outcome(t, "requests of another namespace in the name of a NodeHealthCheck: no effect")
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
	outcome(t, "annotation of a check on other objects: nothing is deleted")
}

func machineOwner(m *clusterv1.Machine, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: m.UID}
}
