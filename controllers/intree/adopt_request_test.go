// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// theirRequest is one as Cluster API's own controller makes it. It does not say for which check.
func theirRequest(s *stage.Stage, m *clusterv1.Machine) *unstructured.Unstructured {
	s.T.Helper()
	template := remediator.Metal3.Template()
	request := remediator.Metal3.NewRequest(s.Namespace, m.Name)
	request.SetAnnotations(map[string]string{
		clusterv1.TemplateClonedFromNameAnnotation: "soft", clusterv1.TemplateClonedFromGroupKindAnnotation: template.GroupKind().String(),
	})
	request.SetLabels(map[string]string{clusterv1.ClusterNameLabel: m.Spec.ClusterName})
	request.SetOwnerReferences(
		[]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: m.Name, UID: m.UID}},
	)
	s.Create(request)
	return request
}

// handed lets a check be one that was handed to us before the controller began.
func handed(check *clusterv1.MachineHealthCheck) {
	check.Annotations = map[string]string{
		remedyv1.TakeOverAnnotation: "true", clusterv1.PausedAnnotation: remedyv1.Pause, remedyv1.TakeOverIDAnnotation: "x",
	}
}

// TestARequestIsAdoptedWhereItCanOnlyBeOurs: it says for which Machine and from which template it was made, and not by which check of
// Cluster API.
func TestARequestIsAdoptedWhereItCanOnlyBeOurs(t *testing.T) {
	t.Parallel()
	asked := func(s *stage.Stage) { s.TakesOver = intree.TakesOver{Annotated: true} }
	tests := []struct {
		why     string
		stage   func(*stage.Stage)
		machine func(*clusterv1.Machine)
		rival   bool
		adopted bool
	}{
		{why: "there is no other", adopted: true},
		{why: "another check that was not handed to us may have made it", rival: true},
		{why: "who only observes writes nothing", stage: func(s *stage.Stage) { s.Observe = true }},
		{
			why:     "nothing is written for a Machine that is paused",
			machine: func(m *clusterv1.Machine) { m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} },
		},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t, asked)
			machine := func(*clusterv1.Machine) {}
			if test.stage != nil {
				test.stage(s)
			}
			if test.machine != nil {
				machine = test.machine
			}
			m := s.CreateUnhealthyMachine("m-1", machine)
			template := byTheirTemplate(s)
			request := theirRequest(s, m)
			if test.rival {
				s.SetInTreePaused(s.CreateInTreeCheck("theirs", template), false)
			}
			check := s.CreateInTreeCheck("ours", template, handed)
			s.SetInTreePaused(check, true)
			c := s.Start()
			says := map[bool]string{false: "True " + remedyv1.TakenOverReason, true: "False " + remedyv1.OnlyObservedReason}[s.Observe]
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.InTreeCondition(remedyv1.TakenOverCondition), Equal(says)))
			if !test.adopted {
				c.WaitIdle()
				now := s.Request(remediator.Metal3, m.Name)()
				s.Expect(now).ToNot(BeNil(), "it was withdrawn")
				s.Expect(now.GetResourceVersion()).To(Equal(request.GetResourceVersion()))
				return
			}
			s.Eventually(func() map[string]string { return s.Request(remediator.Metal3, m.Name)().GetAnnotations() }).
				Should(HaveKeyWithValue(remedyv1.CheckAnnotation, "CoreMachineHealthCheck/"+s.Namespace+"/ours"))
			s.Eventually(func() []string { return stage.Get(s, check)().Finalizers }).
				Should(ConsistOf(remedyv1.CleanupFinalizer), "it waits until that is cleaned up")
		})
	}
}
