// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// Remediators read the spec, labels, owner reference and annotations of a request.
func TestRequest_UnhealthyMachine_HasWhatRemediatorsRead(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	unhealthy := s.CreateMachine("m-1")
	s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.CreateCheck("workers", stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft")))
	s.Start()
	request := s.WaitRequest(remediator.Metal3, "m-1")
	s.Expect(request.Object["spec"]).To(Equal(map[string]any{"strategy": map[string]any{"type": "Reboot", "retryLimit": int64(2)}}))
	s.Expect(request.GetLabels()).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, "prod"))
	s.Expect(request.GetOwnerReferences()).To(HaveLen(1))
	owner := request.GetOwnerReferences()[0]
	s.Expect([]string{owner.APIVersion, owner.Kind, owner.Name, string(owner.UID)}).
		To(Equal([]string{clusterv1.GroupVersion.String(), "Machine", "m-1", string(unhealthy.UID)}))
	s.Expect(owner.Controller).To(BeNil())
	annotations := request.GetAnnotations()
	s.Expect(annotations).To(HaveKeyWithValue(clusterv1.TemplateClonedFromNameAnnotation, "soft"))
	s.Expect(annotations).
		To(HaveKeyWithValue(clusterv1.TemplateClonedFromGroupKindAnnotation, "Metal3RemediationTemplate.infrastructure.cluster.x-k8s.io"))
	s.Expect(annotations).To(HaveKeyWithValue(remedyv1.CheckAnnotation, "MachineHealthCheck/"+s.Namespace+"/workers"))
	s.Expect(annotations).To(HaveKeyWithValue(remedyv1.NodeNameAnnotation, s.NodeName("m-1")))
	s.Expect(annotations).To(HaveKeyWithValue(remedyv1.StepAnnotation, "0"))
	s.Expect(annotations).To(HaveKeyWithValue(remedyv1.AttemptAnnotation, "1"))
	s.Expect(time.Parse(time.RFC3339Nano, annotations[remedyv1.StartedAnnotation])).To(BeTemporally("~", time.Now(), time.Hour))

	// The Machine reports the request, and owner remediation is not requested.
	s.WaitMachineCondition(unhealthy, "ExternallyRemediated", "False WaitingForRemediation")
	s.WaitMachineCondition(unhealthy, "HealthCheckSucceeded", "False UnhealthyNode")
	s.Expect(stage.MachineCondition("OwnerRemediated")(unhealthy)).To(BeEmpty())
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Remediating ")))
	s.Expect(check.Finalizers).To(ConsistOf(remedyv1.CleanupFinalizer))
	s.Expect(check.Status.UnhealthyTargets[0].Request).To(HaveValue(Equal(remedyv1.RequestReference{
		APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3Remediation", Namespace: s.Namespace, Name: "m-1",
	})))
	s.Expect(stage.CheckCondition(remedyv1.TemplatesResolvedCondition)(check)).To(Equal("True TemplatesResolved"))
}

// The request of a recovered target is deleted without the timed-out annotation. The target counts as healthy when the request no longer
// exists.
func TestRequest_MachineRecovers_IsDeleted(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		check := s.createCheck()
		s.Start()
		request := s.waitRequest("m-1")
		s.Remediate(s.first, remediator.Succeeds)
		s.SetRequestFinalizers(request, "example.com/keeper")
		s.SetReady("m-1", corev1.ConditionTrue, 0)
		s.Eventually(beingDeleted(s.request("m-1"))).Should(BeTrue())
		s.Expect(s.request("m-1")().GetAnnotations()).ToNot(HaveKey(remedyv1.TimedOutAnnotation), "the remediation has succeeded")

		// The target counts as healthy when its request no longer exists.
		s.waitMachineCondition("m-1", "HealthCheckSucceeded", "True HealthCheckSucceeded")
		s.Eventually(check.healthy).Should(BeZero())
		s.SetRequestFinalizers(request)
		s.Eventually(s.request("m-1")).Should(BeNil())
		s.Eventually(check.healthy).Should(Equal(1))

		// The check has nothing left to clean up.
		s.Eventually(check.finalizers).Should(BeEmpty())
		s.waitMachineCondition("m-1", "ExternallyRemediated", "")
		s.Eventually(check.outcomes).Should(Equal([]string{"m-1 Recovered"}))
	})
}
