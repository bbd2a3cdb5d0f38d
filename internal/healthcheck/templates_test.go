// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

const templatesResolved = "True " + remedyv1.TemplatesResolvedReason

// The check reports a missing template, and the health of the target. It creates the request when the template exists.
func TestTemplate_CreatedLater_IsUsed(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		check := s.createCheck(func(set *settings) { set.missing = []remediator.Kind{s.first} })
		s.Start()
		s.Eventually(check.condition(remedyv1.TemplatesResolvedCondition)).Should(Equal("False TemplateNotFound"))
		s.Expect(check.message(remedyv1.TemplatesResolvedCondition)).
			To(And(ContainSubstring(s.first.Template().Kind), ContainSubstring("workers"), ContainSubstring("create it")))
		s.Eventually(check.decision("m-1")).Should(Equal("Blocked TemplateNotResolved"))
		// A Machine is reported as unhealthy without the template, but not as waiting for a remediator.
		s.waitMachineCondition("m-1", "HealthCheckSucceeded", "False UnhealthyNode")
		s.waitMachineCondition("m-1", "ExternallyRemediated", "")
		s.CreateTemplate(s.first, "workers")
		s.waitRequest("m-1")
		s.Eventually(check.condition(remedyv1.TemplatesResolvedCondition)).Should(Equal(templatesResolved))
	})
}

// The check reports a template without spec.template.spec, and creates the request when it is fixed. A request outlives its template.
func TestTemplate_Invalid_IsReportedUntilFixed(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		template := s.first.NewTemplate(s.Namespace, "workers", map[string]any{})
		valid := template.Object["spec"]
		template.Object["spec"] = map[string]any{"template": map[string]any{"size": int64(42)}}
		s.Create(template)
		check := s.createCheck(func(set *settings) { set.missing = []remediator.Kind{s.first} })
		s.Start()
		resolved := check.condition(remedyv1.TemplatesResolvedCondition)
		s.Eventually(resolved).Should(Equal("False TemplateInvalid"))
		s.Expect(check.message(remedyv1.TemplatesResolvedCondition)).To(ContainSubstring("for example spec: {template: {spec: {}}}"))
		s.Expect(s.Requests(s.first)).To(BeEmpty())
		s.Change(template, func() { template.Object["spec"] = valid })
		s.waitRequest("m-1")
		s.Eventually(resolved).Should(Equal(templatesResolved))

		// The template is deleted during the remediation: the request stays, and no new one is created.
		s.Expect(s.Admin.Delete(s.Ctx, template)).To(Succeed())
		s.Eventually(resolved).Should(Equal("False TemplateNotFound"))
		s.Expect(s.request("m-1")().GetDeletionTimestamp()).To(BeNil())
	})
}

// A request has the spec that the template has at its creation.
func TestTemplate_Changed_IsUsedByNewRequests(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createTargets("m-1")
		template := s.first.NewTemplate(s.Namespace, "workers", map[string]any{"strategy": "old"})
		s.Create(template)
		check := s.createCheck(func(set *settings) { set.missing = []remediator.Kind{s.first} })
		s.Start()
		s.Eventually(check.condition(remedyv1.TemplatesResolvedCondition)).Should(Equal(templatesResolved))
		s.Change(template, func() {
			s.Expect(unstructured.SetNestedField(template.Object, "new", "spec", "template", "spec", "strategy")).To(Succeed())
		})
		s.FailNode("m-1")
		s.Expect(s.waitRequest("m-1").Object["spec"]).To(Equal(map[string]any{"strategy": "new"}))
	})
}

// The check reports a kind that is not installed, then a missing permission on it, and creates the request when both are fixed.
func TestTemplate_KindInstalledLater_IsUsed(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.first = remediator.NewKind(s.Namespace+".example.com", "v1", "LateRemediation")
		s.createUnhealthy("m-1")
		check := s.createCheck(func(set *settings) { set.missing = []remediator.Kind{s.first} })
		s.Start()
		resolved := check.condition(remedyv1.TemplatesResolvedCondition)
		s.Eventually(resolved).Should(Equal("False KindNotServed"))
		s.Expect(check.message(remedyv1.TemplatesResolvedCondition)).To(ContainSubstring("install the remediator"))
		s.Eventually(check.decision("m-1")).Should(Equal("Blocked TemplateNotResolved"))

		s.Expect(stage.Management.InstallCRDObjects(s.first.CRDs()...)).To(Succeed())
		s.CreateTemplate(s.first, "workers")
		s.Eventually(func() string {
			s.Advance(16 * time.Second)
			return resolved()
		}).Should(Equal("False Forbidden"))
		s.Expect(check.message(remedyv1.TemplatesResolvedCondition)).To(And(
			ContainSubstring("ClusterRole"), ContainSubstring("lateremediation"), ContainSubstring(remedyv1.AggregateToManagerLabel+"=true")))
		s.Expect(s.Requests(s.first)).To(BeEmpty())

		s.Expect(stage.Aggregate(s.Ctx, s.first.Rules()...)).To(Succeed())
		s.Eventually(func() bool {
			s.Advance(16 * time.Second)
			return s.request("m-1")() != nil
		}).Should(BeTrue())
		s.Eventually(resolved).Should(Equal(templatesResolved))
	}, stage.WithClock)
}

// The API server rejects a request that lacks a required field. The check reports its message, and retries after a delay.
func TestRejectedRequest_APIServersMessage_IsReported(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.first = installKindWithRequiredField(s.Stage)
		s.createUnhealthy("m-1")
		check := s.createCheck()
		c := s.Start()
		c.NeverIdle = true
		tried := func() int { return s.triedRequests(c) }
		s.Eventually(check.decision("m-1")).Should(Equal("Blocked RequestFailed"))
		s.Expect(check.target("m-1").Message).To(ContainSubstring("address"))
		s.Expect(check.condition(remedyv1.ReadyCondition)()).To(Equal("False RequestFailed"))
		c.ReconcileAll()
		c.ReconcileAll()
		s.Expect(tried()).To(Equal(1), "a reconcile does not retry before the delay")
		since := func() metav1.Time {
			return meta.FindStatusCondition(check.status().Conditions, remedyv1.ReadyCondition).LastTransitionTime
		}
		before := since()
		s.Advance(2 * time.Second)
		s.createUnhealthy("m-2")
		s.Eventually(check.decision("m-2")).Should(Equal("Blocked RequestFailed"))
		s.Expect(since()).To(Equal(before), "Ready does not become True while requests are tried again")
		s.Eventually(func() int {
			s.Advance(16 * time.Second)
			return tried()
		}).Should(BeNumerically(">=", 2), "the request is retried after the delay")
	}, stage.WithClock)
}

// triedRequests counts the creates of requests of the first kind, also those that have failed.
func (s *kindStage) triedRequests(c *stage.Instance) int {
	n := 0
	for _, w := range c.Writes() {
		if w.Verb == "create" && w.Resource == s.first.Plural {
			n++
		}
	}
	return n
}

// The remediator of a later step is not installed, so there are no requests of its kind. The first step starts.
func TestTemplate_KindNotServed_BlocksOnlyItsStep(t *testing.T) {
	t.Parallel()
	for name, removed := range map[string]bool{"never installed": false, "uninstalled": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachKind(t, func(s *kindStage) {
				unserved := remediator.NewKind(s.Namespace+".example.com", "v1", "MissingRemediation")
				missing := []remediator.Kind{unserved}
				if removed {
					s.Expect(stage.Management.InstallCRDObjects(unserved.CRDs()...)).To(Succeed())
					s.Expect(stage.Aggregate(s.Ctx, unserved.Rules()...)).To(Succeed())
					missing = nil
				}
				s.createTargets("m-1")
				check := s.createCheck(inSteps(s.first, unserved), func(set *settings) { set.missing = missing })
				c := s.Start()
				c.NeverIdle = true
				resolved := check.condition(remedyv1.TemplatesResolvedCondition)
				if removed {
					s.Eventually(resolved).Should(Equal(templatesResolved))
					uninstallKind(s.Stage, unserved)
				}
				s.Eventually(func() string {
					s.Advance(16 * time.Second)
					return resolved()
				}).Should(Equal("False KindNotServed"))
				s.FailNode("m-1")
				s.waitRequest("m-1")
				s.Eventually(resolved).Should(Equal("False KindNotServed"))
				s.Expect(check.message(remedyv1.TemplatesResolvedCondition)).
					To(And(ContainSubstring("MissingRemediationTemplate"), Not(ContainSubstring(s.first.Kind))))
			}, stage.WithClock)
		})
	}
}

// uninstallKind deletes the CRDs of a kind.
func uninstallKind(s *stage.Stage, kind remediator.Kind) {
	s.T.Helper()
	for _, crd := range kind.CRDs() {
		s.Expect(s.Admin.Delete(s.Ctx, crd)).To(Succeed())
	}
}

// installKindWithRequiredField installs a kind whose requests the API server rejects: they need an address that no template has.
func installKindWithRequiredField(s *stage.Stage) remediator.Kind {
	s.T.Helper()
	kind := remediator.NewKind(s.Namespace+".example.com", "v1", "StrictRemediation")
	crds := kind.CRDs()
	spec := crds[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	spec.Required = []string{"address"}
	crds[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	s.Expect(stage.Management.InstallCRDObjects(crds...)).To(Succeed())
	s.Expect(stage.Aggregate(s.Ctx, kind.Rules()...)).To(Succeed())
	return kind
}

// The Lease of a Node is released when its request is rejected: nothing is done to the Node, so other components may act on it. The Lease
// is not acquired again before the request is retried.
func TestRejectedRequest_LeaseOfNode_IsReleased(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithClock)
	kind := installKindWithRequiredField(s)
	s.CreateNode("n-1")
	s.CreateNode("n-2")
	s.CreateUnhealthyNode("n-3")
	check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.RemediationTemplate = s.CreateNodeTemplate(kind, "soft")
	})
	c := s.Start()
	c.NeverIdle = true
	s.Eventually(stage.Get(s, check)).Should(WithTransform(s.NodeDecision("n-3"), Equal("Blocked RequestFailed")))
	err := s.Admin.Get(s.Ctx, workload.NodeLeaseKey(s.NodeName("n-3")), &coordinationv1.Lease{})
	s.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	c.ReconcileAll()
	var verbs []string
	for _, write := range c.Writes() {
		if write.Resource == "leases" {
			verbs = append(verbs, write.Verb)
		}
	}
	s.Expect(verbs).To(Equal([]string{"create", "delete"}))
}

// The Lease of the control plane is released by the reconcile after the one whose request was rejected, and not acquired again before the
// request is retried.
func TestRejectedRequest_ControlPlaneLease_IsReleased(t *testing.T) {
	t.Parallel()
	stage.LockControlPlane(t)
	s := stage.New(t, stage.WithClock)
	kind := installKindWithRequiredField(s)
	s.CreateControlPlane(3)
	s.FailNode("cp-1")
	check := s.CreateCheck("control", stage.OfPool("control"), stage.ByTemplate(s.CreateTemplate(kind, "soft")))
	c := s.Start()
	c.NeverIdle = true
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("cp-1"), Equal("Blocked RequestFailed")))
	held := func() bool {
		err := s.Workload.Get(s.Ctx, workload.ControlPlaneLease, &coordinationv1.Lease{})
		s.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return err == nil
	}
	s.Eventually(held).Should(BeFalse())
	for range 3 {
		c.ReconcileAll()
		s.Expect(held()).To(BeFalse())
	}
}

// Remediators that act on Nodes of their own cluster would fence a Node of the management cluster that has the name of a Node of the
// workload cluster. In a self-hosted cluster, it is the Node of the Machine.
func TestTemplate_ForLocalNodes_NeedsSelfHostedCluster(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind  remediator.Kind
		works bool
		stage []func(*stage.Stage)
	}{
		"workload cluster":    {remediator.FenceAgents, false, nil},
		"self-hosted cluster": {remediator.FenceAgents, true, []func(*stage.Stage){stage.WithAllNamespaces, stage.WithSelfHosted}},
		"the name decides":    {remediator.StorageBased, false, []func(*stage.Stage){stage.WithAllNamespaces, stage.WithSelfHosted}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t, test.stage...)
			s.CreateUnhealthyMachine("m-1")
			check := s.CreateCheck("workers", stage.ByTemplate(s.CreateTemplate(test.kind, "fence")))
			s.Start()
			if test.works {
				s.WaitRequest(test.kind, "m-1")
				return
			}
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.CheckCondition(remedyv1.TemplatesResolvedCondition),
				Equal("False "+remedyv1.WrongLocationReason)))
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked TemplateNotResolved")))
			s.Expect(s.Requests(test.kind)).To(BeEmpty())
		})
	}
}
