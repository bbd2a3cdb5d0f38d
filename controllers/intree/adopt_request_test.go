// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// createInTreeRequest creates a request as the in-tree controller does, which does not record the check.
func createInTreeRequest(s *stage.Stage, m *clusterv1.Machine) *unstructured.Unstructured {
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

// withHandover gives a check the annotations of one that was adopted before the instance starts.
func withHandover(check *clusterv1.MachineHealthCheck) {
	check.Annotations = map[string]string{
		remedyv1.AdoptAnnotation: "true", clusterv1.PausedAnnotation: remedyv1.Pause, remedyv1.AdoptionIDAnnotation: "x",
	}
}

// A request of the in-tree controller has its Machine and its template, but not its check. Remedy adopts it only if no other check can have
// created it.
func TestInTreeRequest_UnambiguousCheck_IsAdopted(t *testing.T) {
	t.Parallel()
	adoptAnnotated := func(s *stage.Stage) { s.TakesOver = intree.AdoptionPolicy{OptIn: true} }
	tests := []struct {
		name       string
		stage      func(*stage.Stage)
		machine    func(*clusterv1.Machine)
		otherCheck bool
		adopted    bool
	}{
		{name: "only check", adopted: true},
		{name: "other check not adopted", otherCheck: true},
		{name: "observe flag", stage: func(s *stage.Stage) { s.Observe = true }},
		{
			name:    "Machine is paused",
			machine: func(m *clusterv1.Machine) { m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} },
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t, adoptAnnotated)
			machine := func(*clusterv1.Machine) {}
			if test.stage != nil {
				test.stage(s)
			}
			if test.machine != nil {
				machine = test.machine
			}
			m := s.CreateUnhealthyMachine("m-1", machine)
			template := byNewTemplate(s)
			request := createInTreeRequest(s, m)
			if test.otherCheck {
				s.SetInTreePaused(s.CreateInTreeCheck("in-tree", template), false)
			}
			check := s.CreateInTreeCheck("adopted", template, withHandover)
			s.SetInTreePaused(check, true)
			c := s.Start()
			expected := map[bool]string{false: "True " + remedyv1.AdoptedReason, true: "False " + remedyv1.OnlyObservedReason}[s.Observe]
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.InTreeCondition(remedyv1.AdoptedCondition), Equal(expected)))
			if !test.adopted {
				c.WaitIdle()
				current := s.Request(remediator.Metal3, m.Name)()
				s.Expect(current).ToNot(BeNil(), "the request was withdrawn")
				s.Expect(current.GetResourceVersion()).To(Equal(request.GetResourceVersion()))
				return
			}
			s.Eventually(func() map[string]string { return s.Request(remediator.Metal3, m.Name)().GetAnnotations() }).
				Should(HaveKeyWithValue(remedyv1.CheckAnnotation, "InTreeMachineHealthCheck/"+s.Namespace+"/adopted"))
			s.Eventually(func() []string { return stage.Get(s, check)().Finalizers }).
				Should(ConsistOf(remedyv1.CleanupFinalizer), "the check has a request to clean up")
		})
	}
}

// The template of an adopted check does not exist: the check has the v1beta1 condition of Cluster API until it does.
func TestTemplateMissing_InTreeCheck_ReportsItUntilItExists(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAdoption)
	s.CreateUnhealthyMachine("m-1")
	check := s.CreateInTreeCheck("workers", withHandover, func(check *clusterv1.MachineHealthCheck) {
		template := remediator.Metal3.Template()
		check.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{
			APIVersion: template.GroupVersion().String(), Kind: template.Kind, Name: "reboot",
		}
	})
	s.SetInTreePaused(check, true)
	s.Start()
	available := func() string {
		c := deprecated.Get(stage.Get(s, check)(), clusterv1.ExternalRemediationTemplateAvailableV1Beta1Condition)
		if c == nil {
			return ""
		}
		return fmt.Sprint(c.Status, " ", c.Severity, " ", c.Reason, ": ", c.Message)
	}
	s.Eventually(available).Should(Equal(`False Error ExternalRemediationTemplateNotFound: failed to retrieve Metal3RemediationTemplate ` +
		s.Namespace + `/reboot: metal3remediationtemplates.infrastructure.cluster.x-k8s.io "reboot" not found`))
	s.CreateTemplate(remediator.Metal3, "reboot")
	s.Eventually(available).Should(BeEmpty())
}
