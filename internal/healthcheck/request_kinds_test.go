// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// installConvertibleKind installs a kind whose storage version is not the version that checks name.
func installConvertibleKind(s *stage.Stage) remediator.Kind {
	s.T.Helper()
	kind := remediator.NewKind(s.Namespace+".example.com", "v1", "SomeRemediation")
	crds := kind.CRDs()
	for _, crd := range crds {
		stored := *crd.Spec.Versions[0].DeepCopy()
		stored.Name = "v2"
		crd.Spec.Versions[0].Storage = false
		crd.Spec.Versions = append(crd.Spec.Versions, stored)
	}
	s.Expect(stage.Management.InstallCRDObjects(crds...)).To(Succeed())
	s.Expect(stage.Aggregate(s.Ctx, kind.Rules()...)).To(Succeed())
	return kind
}

// setConversion sets the conversion of a kind, and waits until its requests are readable, or unreadable.
func setConversion(s *stage.Stage, kind remediator.Kind, conversion *apiextensionsv1.CustomResourceConversion, readable any) {
	s.T.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	s.Expect(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(kind.RequestCRD()), crd)).To(Succeed())
	// The API server itself writes to it at any time, and not to what is changed here.
	before := client.MergeFrom(crd.DeepCopy())
	crd.Spec.Conversion = conversion
	s.Expect(s.Admin.Patch(s.Ctx, crd, before)).To(Succeed())
	s.Eventually(func() error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		return s.Admin.List(s.Ctx, list, client.InNamespace(s.Namespace))
	}).Should(WithTransform(func(err error) bool { return err == nil }, Equal(readable)))
}

// brokenWebhook is a conversion by a webhook that does not run.
func brokenWebhook() *apiextensionsv1.CustomResourceConversion {
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				URL: ptr.To("https://127.0.0.1:1/convert"),
			}, ConversionReviewVersions: []string{"v1"},
		},
	}
}

// createWaitingForStep2 creates an unhealthy Machine whose first step was tried. It is paused: the second step starts when the pause ends.
func createWaitingForStep2(
	s *stage.Stage,
	name string,
	first *remedyv1.MachineTemplateReference,
	changes ...func(*clusterv1.Machine),
) *clusterv1.Machine {
	s.T.Helper()
	m := s.CreateMachine(name, append(changes, func(m *clusterv1.Machine) {
		m.Annotations = map[string]string{clusterv1.PausedAnnotation: "yes", remedyv1.TriedAnnotation: "1 " + first.Kind + "/" + first.Name}
	})...)
	s.SetReady(name, corev1.ConditionUnknown, 10*time.Minute)
	return m
}

// unpause ends the pause of a Machine.
func unpause(s *stage.Stage, m *clusterv1.Machine) { s.Annotate(m, clusterv1.PausedAnnotation, "") }

// messageOfTarget returns the message of a Machine in the status of a check.
func messageOfTarget(machine string) func(*remedyv1.MachineHealthCheck) string {
	return func(check *remedyv1.MachineHealthCheck) string {
		for _, target := range check.Status.UnhealthyTargets {
			if target.Name == machine {
				return target.Message
			}
		}
		return ""
	}
}

// The request of one Machine becomes unreadable. The remediations of other Machines are canceled and started as usual.
func TestRequests_ConversionFails_BlocksOnlyTheirMachine(t *testing.T) {
	t.Parallel()
	for name, places := range map[string]string{"no maxInFlight": "", "maxInFlight": "100%"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t, stage.WithClock)
			kind := installConvertibleKind(s)
			soft := s.CreateTemplate(kind, "soft")
			first := s.CreateMachine("m-1")
			before, next := createWaitingForStep2(s, "m-2", soft), createWaitingForStep2(s, "m-3", soft)
			check := s.CreateCheck("workers", stage.BySteps(soft, nil), func(spec *remedyv1.MachineHealthCheckSpec) {
				if places != "" {
					spec.MaxInFlight = ptr.To(intstr.FromString(places))
				}
			})
			c := s.Start()
			s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
			unpause(s, before)
			s.WaitRequest(kind, "m-1")
			s.WaitMachineCondition(before, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
			c.WaitIdle()

			setConversion(s, kind, brokenWebhook(), false)
			s.Advance(11 * time.Minute)
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked PreflightFailed")))
			s.Eventually(stage.Get(s, check)).Should(WithTransform(messageOfTarget("m-1"),
				ContainSubstring("the facts could not be read again: SomeRemediation."+kind.Group)))
			unpause(s, next)
			s.Eventually(stage.Get(s, next)).
				Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)),
					"it has no request of the unreadable kind")
			s.Change(check, func() { check.Spec.PauseRequests = []string{"maintenance"} })
			for _, m := range []*clusterv1.Machine{before, next} {
				s.Eventually(stage.Get(s, m)).
					Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), BeEmpty()), "owner remediation is canceled")
			}

			setConversion(s, kind, &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}, true)
			s.Change(check, func() { check.Spec.PauseRequests = nil })
			s.Eventually(func() string {
				s.Advance(16 * time.Second)
				return stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, first)())
			}).Should(Equal(stage.OwnerRequested), "the timeout of the first step has passed")
			s.Expect(s.Request(kind, "m-1")()).To(BeNil())
		})
	}
}

// An instance that has read the requests of a kind blocks only the Machines that have one when its permission is revoked. An instance that
// starts without the permission starts no remediation, but cancels owner remediation.
func TestRequests_PermissionRevoked_BlocksOnlyThatKind(t *testing.T) { //nolint:paralleltest // other tests would wait for that permission
	s := stage.New(t, stage.WithClock)
	kind := remediator.NewKind(s.Namespace+".example.com", "v1", "SomeRemediation")
	s.Expect(stage.Management.InstallCRDObjects(kind.CRDs()...)).To(Succeed())
	s.Expect(stage.Aggregate(s.Ctx, kind.Rules()...)).To(Succeed())
	soft := s.CreateTemplate(kind, "soft")
	toOwned := func(m *clusterv1.Machine) { m.Labels["pool"] = "owned" }
	byRequest := []*clusterv1.Machine{createWaitingForStep2(s, "m-2", soft), createWaitingForStep2(s, "m-3", soft)}
	byOwner := []*clusterv1.Machine{createWaitingForStep2(s, "o-1", soft, toOwned), createWaitingForStep2(s, "o-2", soft, toOwned)}
	s.CreateMachine("m-1")
	s.CreateMachine("m-4")
	check := s.CreateCheck("workers", stage.BySteps(soft, s.CreateTemplate(remediator.Metal3, "hard")))
	owned := s.CreateCheck("owned", stage.OfPool("owned"), stage.BySteps(soft, nil))
	c := s.Start()
	c.NeverIdle = true
	s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.WaitRequest(kind, "m-1")
	c.WaitIdle()

	s.Revoke(kind)
	s.SetReady("m-4", corev1.ConditionUnknown, 10*time.Minute)
	s.Eventually(func() string {
		s.Advance(16 * time.Second)
		return stage.Decision("m-4")(stage.Get(s, check)())
	}).Should(Equal("Blocked TemplateNotResolved"))
	unpause(s, byRequest[0])
	s.WaitRequest(remediator.Metal3, "m-2")
	unpause(s, byOwner[0])
	s.WaitMachineCondition(byOwner[0], clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)

	c.Stop()
	c = s.Start()
	c.NeverIdle = true
	unpause(s, byRequest[1])
	unpause(s, byOwner[1])
	blocked := func() bool {
		s.Advance(16 * time.Second)
		return stage.Decision("m-3")(stage.Get(s, check)()) == "Blocked TemplateNotResolved" &&
			stage.Decision("o-2")(stage.Get(s, owned)()) == "Blocked PreflightFailed"
	}
	s.Eventually(blocked).Should(BeTrue())
	s.Eventually(stage.Get(s, owned)).Should(WithTransform(messageOfTarget("o-2"),
		ContainSubstring("other remediations of the target could not be read: SomeRemediation."+kind.Group+
			": the manager is not allowed to read them")))
	s.Change(owned, func() { owned.Spec.PauseRequests = []string{"maintenance"} })
	s.Eventually(stage.Get(s, byOwner[0])).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), BeEmpty()), "owner remediation is canceled")
	s.Change(owned, func() { owned.Spec.PauseRequests = nil })

	s.Expect(stage.Aggregate(s.Ctx, kind.Rules()...)).To(Succeed())
	s.Eventually(func() any {
		s.Advance(16 * time.Second)
		return s.Request(remediator.Metal3, "m-3")()
	}).ShouldNot(BeNil())
	s.WaitMachineCondition(byOwner[1], clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
	s.WaitRequest(kind, "m-4")
	c.NeverIdle = false
}

// brokenAPI fails the discovery of one API group version while it is broken, and counts the calls.
type brokenAPI struct {
	path   string
	broken atomic.Bool
	calls  atomic.Int64
}

func (o *brokenAPI) roundTrip(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	if r.URL.Path != o.path {
		return next.RoundTrip(r)
	}
	o.calls.Add(1)
	if !o.broken.Load() {
		return next.RoundTrip(r)
	}
	return nil, errors.New("dial tcp 10.96.0.1:443: connect: connection refused")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// After a restart, a check is deleted that an earlier process has reconciled. Discovery of one API fails.
func TestCleanup_BrokenAPI_BlocksOnlyChecksThatUsedIt(t *testing.T) {
	t.Parallel()
	t.Run("API never used", func(t *testing.T) {
		t.Parallel()
		forEachKind(t, func(s *kindStage) {
			check, _, api := deleteCheckAfterRestart(s, s.hard)
			s.Eventually(check.finalizers).Should(BeEmpty())
			s.Expect(api.calls.Load()).To(BeZero(), "an API that the check never used is not called")
		}, stage.WithClock)
	})
	t.Run("API used", func(t *testing.T) {
		t.Parallel()
		forEachKind(t, func(s *kindStage) {
			check, c, api := deleteCheckAfterRestart(s, s.soft)
			ready := check.condition(remedyv1.ReadyCondition)
			s.Eventually(func() string {
				s.Wake()
				return ready()
			}).Should(Equal("False CleaningUp"))
			before := c.Reconciles(check.GetName()).Load()
			s.Eventually(func() int64 {
				s.Wake()
				return c.Reconciles(check.GetName()).Load()
			}).Should(BeNumerically(">", before+3))
			s.Expect(check.finalizers()).To(ConsistOf(remedyv1.CleanupFinalizer), "the check can have requests to clean up")
			s.Expect(ready()).To(Equal("False CleaningUp"))
			s.Expect(check.message(remedyv1.ReadyCondition)).To(And(
				ContainSubstring("Requests may exist that cannot be listed"),
				ContainSubstring(remedyv1.CleanupFinalizer),
				ContainSubstring("whether "+s.soft.GroupVersion().String()+", Kind="+s.soft.Kind+" is served"),
				Not(ContainSubstring(":443")),
				Not(ContainSubstring("://")),
			))
			s.Expect(api.calls.Load()).To(BeNumerically("<=", 1), "not every reconcile calls the API")
			api.broken.Store(false)
			s.Advance(remediation.RetryTime)
			s.Eventually(check.finalizers).Should(BeEmpty())
		}, stage.WithClock)
	})
}

// deleteCheckAfterRestart deletes a check that had a request of FenceAgents and does not name its template any more. The API of a kind is
// broken.
func deleteCheckAfterRestart(s *kindStage, broken remediator.Kind) (*kindCheck, *stage.Instance, *brokenAPI) {
	s.T.Helper()
	s.first = s.soft
	s.createUnhealthy("m-1")
	check := s.createCheck()
	first, err := s.StartAs(faults.Start(s.Ctx), s.User())
	s.Expect(err).ToNot(HaveOccurred())
	s.Eventually(check.decision("m-1")).Should(Equal("Remediating "))
	first.Stop()
	check.setTemplate(remediator.StorageBased)
	api := &brokenAPI{path: "/apis/" + broken.GroupVersion().String()}
	api.broken.Store(true)
	c := startThrough(s.Stage, api.roundTrip)
	c.NeverIdle = true
	s.Eventually(func() bool { return c.Evaluated(check.GetName()) }).Should(BeTrue())
	check.delete()
	return check, c, api
}

// serveOnly stops serving the version of a kind and serves another one.
func serveOnly(s *stage.Stage, kind remediator.Kind, version string) {
	s.T.Helper()
	for _, crd := range kind.CRDs() {
		s.Expect(s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(crd), crd)).To(Succeed())
		// The API server itself writes to it at any time, and not to what is changed here.
		before := client.MergeFrom(crd.DeepCopy())
		next := *crd.Spec.Versions[0].DeepCopy()
		next.Name = version
		crd.Spec.Versions[0].Served, crd.Spec.Versions[0].Storage = false, false
		crd.Spec.Versions = append(crd.Spec.Versions, next)
		s.Expect(s.Admin.Patch(s.Ctx, crd, before)).To(Succeed())
	}
}

// The remediator is upgraded, and does not serve the version any more that the check names. The request is followed in the new version.
func TestRequests_VersionNoLongerServed_AreFollowed(t *testing.T) {
	t.Parallel()
	for name, restarts := range map[string]bool{"running instance": false, "during a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachKind(t, func(s *kindStage) {
				older := remediator.NewKind(s.Namespace+".example.com", "v1", "SomeRemediation")
				newer := remediator.NewKind(s.Namespace+".example.com", "v2", "SomeRemediation")
				s.Expect(stage.Management.InstallCRDObjects(older.CRDs()...)).To(Succeed())
				s.Expect(stage.Aggregate(s.Ctx, older.Rules()...)).To(Succeed())
				s.first = older
				s.createUnhealthy("m-1")
				check := s.createCheck()
				c := s.Start()
				c.NeverIdle = true
				s.SetRequestFinalizers(s.waitRequest("m-1"), "example.com/keeper")
				s.Eventually(check.decision("m-1")).Should(Equal("Remediating "))
				if restarts {
					c.Stop()
				}
				serveOnly(s.Stage, older, "v2")
				if restarts {
					s.Start().NeverIdle = true
				}
				s.Eventually(check.condition(remedyv1.TemplatesResolvedCondition)).Should(Equal("False KindNotServed"))
				s.Eventually(func() *remedyv1.RequestReference { return check.target("m-1").Request }).
					Should(HaveValue(HaveField("APIVersion", newer.GroupVersion().String())), "the request is followed in the new version")
				check.delete()
				request := s.requestOf(newer, "m-1")
				s.Eventually(beingDeleted(request)).Should(BeTrue())
				s.Expect(request().GetAnnotations()).To(HaveKey(remedyv1.TimedOutAnnotation))
				s.Expect(check.finalizers()).To(ConsistOf(remedyv1.CleanupFinalizer))
				s.SetRequestFinalizers(request())
				s.Eventually(check.finalizers).Should(BeEmpty())
				s.Expect(request()).To(BeNil())
			})
		})
	}
}
