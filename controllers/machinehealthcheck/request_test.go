// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// template makes a template of a kind, and returns how a check names it.
func (s *stage) template(kind remediator.Kind, name string) *remedyv1.MachineTemplateReference {
	s.t.Helper()
	s.create(kind.NewTemplate(s.namespace, name, map[string]any{"strategy": map[string]any{"type": "Reboot", "retryLimit": int64(2)}}))
	return reference(kind, name)
}

func reference(kind remediator.Kind, name string) *remedyv1.MachineTemplateReference {
	return &remedyv1.MachineTemplateReference{TemplateKind: remedyv1.TemplateKind{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Template().Kind, Name: name,
	}}
}

// by lets a check remediate by a template.
func by(template *remedyv1.MachineTemplateReference) func(*remedyv1.MachineHealthCheckSpec) {
	return func(spec *remedyv1.MachineHealthCheckSpec) { spec.RemediationTemplate = template }
}

// steps lets a check try templates one after the other, ten minutes each, and the owner at last where there is none.
func steps(templates ...*remedyv1.MachineTemplateReference) func(*remedyv1.MachineHealthCheckSpec) {
	return func(spec *remedyv1.MachineHealthCheckSpec) {
		for i, template := range templates {
			step := remedyv1.MachineEscalationStep{Order: int32(i + 1), RemediationTemplate: template}
			if template == nil {
				step.Owner = &remedyv1.OwnerRemediation{}
			} else {
				d := lasting(10 * time.Minute)
				step.Timeout = &d
			}
			spec.EscalatingRemediations = append(spec.EscalatingRemediations, step)
		}
	}
}

// requests are all of a kind.
func (s *stage) requests(kind remediator.Kind) []unstructured.Unstructured {
	s.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := s.admin.List(s.ctx, list, client.InNamespace(s.namespace))
	s.Expect(err == nil || meta.IsNoMatchError(err)).To(BeTrue())
	return list.Items
}

// request reads the request of a Machine; nil if there is none.
func (s *stage) request(kind remediator.Kind, machine string) func() *unstructured.Unstructured {
	return func() *unstructured.Unstructured {
		s.t.Helper()
		request := kind.NewRequest(s.namespace, machine)
		err := s.admin.Get(s.ctx, client.ObjectKeyFromObject(request), request)
		if apierrors.IsNotFound(err) {
			return nil
		}
		s.Expect(err).ToNot(HaveOccurred())
		return request
	}
}

// requested waits for the request of a Machine.
func (s *stage) requested(kind remediator.Kind, machine string) *unstructured.Unstructured {
	s.t.Helper()
	var request *unstructured.Unstructured
	s.Eventually(func() *unstructured.Unstructured {
		request = s.request(kind, machine)()
		return request
	}).ShouldNot(BeNil())
	return request
}

// acts lets a remediator do what it can.
func (s *stage) acts(kind remediator.Kind, outcome remediator.Outcome) {
	s.t.Helper()
	player := &remediator.Remediator{
		Kind: kind, Client: client.NewNamespacedClient(s.admin, s.namespace), Nodes: s.kubelet,
		Outcome: func(*unstructured.Unstructured) remediator.Outcome { return outcome },
	}
	for acted := true; acted; {
		var err error
		acted, err = player.Act(s.ctx)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			acted, err = true, nil
		}
		s.Expect(err).ToNot(HaveOccurred())
	}
}

// keep puts a finalizer of somebody else on a request.
func (s *stage) keep(request *unstructured.Unstructured, finalizers ...string) {
	s.t.Helper()
	s.change(request, func() { request.SetFinalizers(finalizers) })
}

func TestARequestSaysWhatRemediatorsReadOfIt(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	sick := s.machine("m-1")
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.check("workers", by(s.template(remediator.Metal3, "soft")))
	s.start()
	request := s.requested(remediator.Metal3, "m-1")
	s.Expect(request.Object["spec"]).To(Equal(map[string]any{"strategy": map[string]any{"type": "Reboot", "retryLimit": int64(2)}}))
	s.Expect(request.GetLabels()).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, "prod"))
	s.Expect(request.GetOwnerReferences()).To(HaveLen(1))
	owner := request.GetOwnerReferences()[0]
	s.Expect([]string{owner.APIVersion, owner.Kind, owner.Name, string(owner.UID)}).
		To(Equal([]string{clusterv1.GroupVersion.String(), "Machine", "m-1", string(sick.UID)}))
	s.Expect(owner.Controller).To(BeNil())
	annotations := request.GetAnnotations()
	s.Expect(annotations).To(HaveKeyWithValue(clusterv1.TemplateClonedFromNameAnnotation, "soft"))
	s.Expect(annotations).To(HaveKeyWithValue(clusterv1.TemplateClonedFromGroupKindAnnotation, "Metal3RemediationTemplate.infrastructure.cluster.x-k8s.io"))
	s.Expect(annotations).To(HaveKeyWithValue(remedyv1.CheckAnnotation, "MachineHealthCheck/"+s.namespace+"/workers"))
	s.Expect(annotations).To(HaveKeyWithValue(remedyv1.NodeNameAnnotation, s.node("m-1")))
	s.Expect(annotations).To(HaveKeyWithValue(remedyv1.StepAnnotation, "0"))
	s.Expect(annotations).To(HaveKeyWithValue(remedyv1.AttemptAnnotation, "1"))
	s.Expect(time.Parse(time.RFC3339Nano, annotations[remedyv1.StartedAnnotation])).To(BeTemporally("~", time.Now(), time.Hour))

	// The Machine says so, too, and the owner is not asked.
	s.Eventually(get(s, sick)).Should(WithTransform(says("ExternallyRemediated"), Equal("False WaitingForRemediation")))
	s.Eventually(get(s, sick)).Should(WithTransform(says("HealthCheckSucceeded"), Equal("False UnhealthyNode")))
	s.Expect(says("OwnerRemediated")(sick)).To(BeEmpty())
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Remediating ")))
	s.Expect(check.Finalizers).To(ConsistOf(remedyv1.CleanupFinalizer))
	s.Expect(check.Status.UnhealthyTargets[0].Request).To(HaveValue(Equal(remedyv1.RequestReference{
		APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3Remediation", Namespace: s.namespace, Name: "m-1",
	})))
	s.Expect(tells(remedyv1.TemplatesResolvedCondition)(check)).To(Equal("True TemplatesResolved"))
}

func TestARequestIsWithdrawnWhenTheMachineIsHealthyAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	sick := s.machine("m-1")
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.check("workers", by(s.template(remediator.Metal3, "soft")))
	s.start()
	s.requested(remediator.Metal3, "m-1")
	s.acts(remediator.Metal3, remediator.Succeeds)
	s.ready("m-1", corev1.ConditionTrue, 0)
	s.Eventually(func() bool { return s.request(remediator.Metal3, "m-1")().GetDeletionTimestamp() != nil }).Should(BeTrue())
	s.Expect(s.request(remediator.Metal3, "m-1")().GetAnnotations()).ToNot(HaveKey(remedyv1.TimedOutAnnotation), "it has done its work")

	// It counts as healthy when its request is gone.
	s.Eventually(get(s, sick)).Should(WithTransform(says("HealthCheckSucceeded"), Equal("True HealthCheckSucceeded")))
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(0)))
	s.acts(remediator.Metal3, remediator.Succeeds)
	s.Eventually(s.request(remediator.Metal3, "m-1")).Should(BeNil())
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(1)))

	// And there is nothing to clean up any more.
	s.Eventually(get(s, check)).Should(WithTransform(func(c *remedyv1.MachineHealthCheck) []string { return c.Finalizers }, BeEmpty()))
	s.Eventually(get(s, sick)).Should(WithTransform(says("ExternallyRemediated"), BeEmpty()))
	s.Eventually(get(s, check)).Should(WithTransform(func(c *remedyv1.MachineHealthCheck) []remedyv1.RecentRemediation { return c.Status.RecentRemediations },
		ConsistOf(HaveField("Outcome", remedyv1.RecoveredOutcome))))
}

// healthy is how many Machines a check has found healthy.
func healthy(c *remedyv1.MachineHealthCheck) int32 {
	if c.Status.CurrentHealthy == nil {
		return -1
	}
	return *c.Status.CurrentHealthy
}
