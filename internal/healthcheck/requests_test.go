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
	s.Eventually(stage.Get(s, unhealthy)).
		Should(WithTransform(stage.MachineCondition("ExternallyRemediated"), Equal("False WaitingForRemediation")))
	s.Eventually(stage.Get(s, unhealthy)).Should(WithTransform(stage.MachineCondition("HealthCheckSucceeded"), Equal("False UnhealthyNode")))
	s.Expect(stage.MachineCondition("OwnerRemediated")(unhealthy)).To(BeEmpty())
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Remediating ")))
	s.Expect(check.Finalizers).To(ConsistOf(remedyv1.CleanupFinalizer))
	s.Expect(check.Status.UnhealthyTargets[0].Request).To(HaveValue(Equal(remedyv1.RequestReference{
		APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3Remediation", Namespace: s.Namespace, Name: "m-1",
	})))
	s.Expect(stage.CheckCondition(remedyv1.TemplatesResolvedCondition)(check)).To(Equal("True TemplatesResolved"))
}

// The request of a recovered Machine is deleted without the timed-out annotation. The Machine counts as healthy when the request no longer
// exists.
func TestRequest_MachineRecovers_IsDeleted(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	unhealthy := s.CreateMachine("m-1")
	s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.CreateCheck("workers", stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft")))
	s.Start()
	s.WaitRequest(remediator.Metal3, "m-1")
	s.Remediate(remediator.Metal3, remediator.Succeeds)
	s.SetReady("m-1", corev1.ConditionTrue, 0)
	s.Eventually(func() bool { return s.Request(remediator.Metal3, "m-1")().GetDeletionTimestamp() != nil }).Should(BeTrue())
	s.Expect(s.Request(remediator.Metal3, "m-1")().GetAnnotations()).
		ToNot(HaveKey(remedyv1.TimedOutAnnotation), "the remediation has succeeded")

	// The Machine counts as healthy when its request no longer exists.
	s.Eventually(stage.Get(s, unhealthy)).
		Should(WithTransform(stage.MachineCondition("HealthCheckSucceeded"), Equal("True HealthCheckSucceeded")))
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(0)))
	s.Remediate(remediator.Metal3, remediator.Succeeds)
	s.Eventually(s.Request(remediator.Metal3, "m-1")).Should(BeNil())
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(1)))

	// The check has nothing left to clean up.
	s.Eventually(stage.Get(s, check)).Should(WithTransform(func(c *remedyv1.MachineHealthCheck) []string { return c.Finalizers }, BeEmpty()))
	s.Eventually(stage.Get(s, unhealthy)).Should(WithTransform(stage.MachineCondition("ExternallyRemediated"), BeEmpty()))
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(func(c *remedyv1.MachineHealthCheck) []remedyv1.RecentRemediation { return c.Status.RecentRemediations },
			ConsistOf(HaveField("Outcome", remedyv1.RecoveredOutcome))))
}
