// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// The check reports a missing template, and the health of the Machine. It creates the request when the template exists.
func TestTemplate_CreatedLater_IsUsed(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	unhealthy := s.CreateMachine("m-1")
	s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.CreateCheck("workers", stage.ByTemplate(stage.TemplateReference(remediator.Metal3, "soft")))
	s.Start()
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.CheckCondition(remedyv1.TemplatesResolvedCondition), Equal("False TemplateNotFound")))
	s.Expect(stage.CheckMessage(remedyv1.TemplatesResolvedCondition)(check)).
		To(And(ContainSubstring("Metal3RemediationTemplate/soft"), ContainSubstring("create it")))
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked TemplateNotResolved")))
	// The Machine is reported as unhealthy without the template, but not as waiting for a remediator.
	s.Eventually(stage.Get(s, unhealthy)).Should(WithTransform(stage.MachineCondition("HealthCheckSucceeded"), Equal("False UnhealthyNode")))
	s.Expect(stage.MachineCondition("ExternallyRemediated")(unhealthy)).To(BeEmpty())
	s.CreateTemplate(remediator.Metal3, "soft")
	s.WaitRequest(remediator.Metal3, "m-1")
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.CheckCondition(remedyv1.TemplatesResolvedCondition), Equal("True TemplatesResolved")))
}

// The check reports a template without spec.template.spec, and creates the request when it is fixed. A request outlives its template.
func TestTemplate_Invalid_IsReportedUntilFixed(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateMachine("m-1")
	s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
	template := remediator.Metal3.NewTemplate(s.Namespace, "soft", map[string]any{})
	valid := template.Object["spec"]
	template.Object["spec"] = map[string]any{"template": map[string]any{"size": int64(42)}}
	s.Create(template)
	check := s.CreateCheck("workers", stage.ByTemplate(stage.TemplateReference(remediator.Metal3, "soft")))
	s.Start()
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.CheckCondition(remedyv1.TemplatesResolvedCondition), Equal("False TemplateInvalid")))
	s.Expect(stage.CheckMessage(remedyv1.TemplatesResolvedCondition)(check)).To(ContainSubstring("for example spec: {template: {spec: {}}}"))
	s.Expect(s.Requests(remediator.Metal3)).To(BeEmpty())
	s.Change(template, func() { template.Object["spec"] = valid })
	s.WaitRequest(remediator.Metal3, "m-1")
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.CheckCondition(remedyv1.TemplatesResolvedCondition), Equal("True TemplatesResolved")))

	// The template is deleted during the remediation: the request stays, and no new one is created.
	s.Expect(s.Admin.Delete(s.Ctx, template)).To(Succeed())
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.CheckCondition(remedyv1.TemplatesResolvedCondition), Equal("False TemplateNotFound")))
	s.Expect(s.Request(remediator.Metal3, "m-1")().GetDeletionTimestamp()).To(BeNil())
}

// A request has the spec that the template has at its creation.
func TestTemplate_Changed_IsUsedByNewRequests(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateMachine("m-1")
	template := remediator.Metal3.NewTemplate(s.Namespace, "soft", map[string]any{"strategy": "old"})
	s.Create(template)
	check := s.CreateCheck("workers", stage.ByTemplate(stage.TemplateReference(remediator.Metal3, "soft")))
	s.Start()
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.CheckCondition(remedyv1.TemplatesResolvedCondition), Equal("True TemplatesResolved")))
	s.Change(template, func() {
		s.Expect(unstructured.SetNestedField(template.Object, "new", "spec", "template", "spec", "strategy")).To(Succeed())
	})
	s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.Expect(s.WaitRequest(remediator.Metal3, "m-1").Object["spec"]).To(Equal(map[string]any{"strategy": "new"}))
}

// The check reports a kind that is not installed, then a missing permission on it, and creates the request when both are fixed.
func TestTemplate_KindInstalledLater_IsUsed(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	kind := remediator.NewKind(s.Namespace+".example.com", "v1", "LateRemediation")
	s.CreateMachine("m-1")
	s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.CreateCheck("workers", stage.ByTemplate(stage.TemplateReference(kind, "soft")))
	s.Start()
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.CheckCondition(remedyv1.TemplatesResolvedCondition), Equal("False KindNotServed")))
	s.Expect(stage.CheckMessage(remedyv1.TemplatesResolvedCondition)(check)).To(ContainSubstring("install the remediator"))
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked TemplateNotResolved")))

	s.Expect(stage.Management.InstallCRDObjects(kind.CRDs()...)).To(Succeed())
	s.CreateTemplate(kind, "soft")
	s.Eventually(func() string {
		s.Advance(16 * time.Second)
		return stage.CheckCondition(remedyv1.TemplatesResolvedCondition)(stage.Get(s, check)())
	}).Should(Equal("False Forbidden"))
	s.Expect(stage.CheckMessage(remedyv1.TemplatesResolvedCondition)(check)).To(And(
		ContainSubstring("ClusterRole"), ContainSubstring("lateremediation"), ContainSubstring(remedyv1.AggregateToManagerLabel+"=true")))
	s.Expect(s.Requests(kind)).To(BeEmpty())

	s.Expect(stage.Aggregate(s.Ctx, kind.Rules()...)).To(Succeed())
	s.Eventually(func() bool {
		s.Advance(16 * time.Second)
		return s.Request(kind, "m-1")() != nil
	}).Should(BeTrue())
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.CheckCondition(remedyv1.TemplatesResolvedCondition), Equal("True TemplatesResolved")))
}

// The API server rejects a request that lacks a required field. The check reports its message, and retries after a delay.
func TestRejectedRequest_APIServersMessage_IsReported(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	kind := installKindWithRequiredField(s, "strict.example.com", "StrictRemediation")
	s.CreateMachine("m-1")
	s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.CreateCheck("workers", stage.ByTemplate(s.CreateTemplate(kind, "soft")))
	c := s.Start()
	c.NeverIdle = true
	tried := func() int {
		n := 0
		for _, w := range c.Writes() {
			if w.Verb == "create" && strings.HasPrefix(w.Resource, "strictremediation") {
				n++
			}
		}
		return n
	}
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked RequestFailed")))
	s.Expect(strings.Contains(check.Status.UnhealthyTargets[0].Message, "address")).To(BeTrue(), check.Status.UnhealthyTargets[0].Message)
	c.ReconcileAll()
	c.ReconcileAll()
	s.Expect(tried()).To(Equal(1), "a reconcile does not retry before the delay")
	s.Eventually(func() int {
		s.Advance(16 * time.Second)
		return tried()
	}).Should(BeNumerically(">=", 2), "the request is retried after the delay")
}

// The remediator of a later step is not installed, so there are no requests of its kind. The first step starts.
func TestTemplate_KindNotServed_BlocksOnlyItsStep(t *testing.T) {
	t.Parallel()
	for name, removed := range map[string]bool{"never installed": false, "uninstalled": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t, stage.WithClock)
			missing := remediator.NewKind(s.Namespace+".example.com", "v1", "MissingRemediation")
			hard := stage.TemplateReference(missing, "hard")
			if removed {
				s.Expect(stage.Management.InstallCRDObjects(missing.CRDs()...)).To(Succeed())
				s.Expect(stage.Aggregate(s.Ctx, missing.Rules()...)).To(Succeed())
				s.CreateTemplate(missing, "hard")
			}
			s.CreateMachine("m-1")
			check := s.CreateCheck("workers", stage.BySteps(s.CreateTemplate(remediator.Metal3, "soft"), hard))
			c := s.Start()
			c.NeverIdle = true
			if removed {
				s.Eventually(stage.Get(s, check)).
					Should(WithTransform(stage.CheckCondition(remedyv1.TemplatesResolvedCondition), Equal("True TemplatesResolved")))
				uninstallKind(s, missing)
			}
			s.Eventually(func() string {
				s.Advance(16 * time.Second)
				return stage.CheckCondition(remedyv1.TemplatesResolvedCondition)(stage.Get(s, check)())
			}).Should(Equal("False KindNotServed"))
			s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
			s.WaitRequest(remediator.Metal3, "m-1")
			s.Eventually(stage.Get(s, check)).
				Should(WithTransform(stage.CheckCondition(remedyv1.TemplatesResolvedCondition), Equal("False KindNotServed")))
			s.Expect(stage.CheckMessage(remedyv1.TemplatesResolvedCondition)(check)).
				To(And(ContainSubstring("MissingRemediationTemplate"), Not(ContainSubstring("Metal3"))))
		})
	}
}

// uninstallKind deletes the CRDs of a kind.
func uninstallKind(s *stage.Stage, kind remediator.Kind) {
	s.T.Helper()
	admin, err := stage.Management.Client()
	s.Expect(err).ToNot(HaveOccurred())
	for _, crd := range kind.CRDs() {
		s.Expect(admin.Delete(s.Ctx, crd)).To(Succeed())
	}
}

// installKindWithRequiredField installs a kind whose requests the API server rejects: they need an address that no template has.
func installKindWithRequiredField(s *stage.Stage, group, name string) remediator.Kind {
	s.T.Helper()
	kind := remediator.NewKind(group, "v1", name)
	crds := kind.CRDs()
	spec := crds[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	spec.Required = []string{"address"}
	crds[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	s.Expect(stage.Management.InstallCRDObjects(crds...)).To(Succeed())
	s.Expect(stage.Aggregate(s.Ctx, kind.Rules()...)).To(Succeed())
	return kind
}

// The Lease of a Node is released when its request is rejected: nothing is done to the Node, so other components may act on it.
func TestRejectedRequest_LeaseOfNode_IsReleased(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithClock)
	kind := installKindWithRequiredField(s, "strict-nodes.example.com", "StrictNodeRemediation")
	s.CreateNode("n-1")
	s.CreateNode("n-2")
	s.CreateUnhealthyNode("n-3")
	check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.RemediationTemplate = s.CreateNodeTemplate(kind, "soft")
	})
	c := s.Start()
	c.NeverIdle = true
	s.Eventually(stage.Get(s, check)).Should(WithTransform(s.NodeDecision("n-3"), Equal("Blocked RequestFailed")))
	s.Expect(c.Writes()).To(ContainElement(And(HaveField("Verb", "create"), HaveField("Resource", "leases"))))
	lease := s.Admin.Get(s.Ctx, workload.NodeLeaseKey(s.NodeName("n-3")), &coordinationv1.Lease{})
	s.Expect(apierrors.IsNotFound(lease)).To(BeTrue(), "%v", lease)
}
