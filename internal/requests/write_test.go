// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

func TestCreate_Request_IsFoundAtOnce(t *testing.T) {
	s := settled(t)
	c, machine := s.check("a"), Object{"m1", "uid-1"}
	made := s.create(c, machine)
	s.Expect(s.mine()).To(HaveLen(1), "it does not wait for the watch")
	s.Expect(s.there("m1").Object).To(HaveKeyWithValue("spec", HaveKeyWithValue("strategy", "reboot")))
	again, created, err := s.requests.Create(t.Context(), s.draft(c, machine))
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(created).To(BeFalse())
	s.Expect(again.UID).To(Equal(made.UID))
}

func TestCreate_NameTaken_Waits(t *testing.T) {
	s := settled(t)
	a, machine := s.check("a"), Object{"m1", "uid-1"}
	taken := func(d *Draft, by string) {
		t.Helper()
		before := s.there("m1")
		_, created, err := s.requests.Create(t.Context(), d)
		var taken *NameTakenError
		s.Expect(errors.As(err, &taken)).To(BeTrue(), "%v", err)
		s.Expect(created).To(BeFalse())
		s.Expect(taken.By.String()).To(Equal(by))
		s.Expect(s.there("m1")).To(Equal(before), "it is left alone")
	}
	stranger := s.kind.NewRequest(s.namespace, "m1")
	stranger.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "other"}})
	s.Expect(admin.Create(t.Context(), stranger)).To(Succeed())
	taken(s.draft(a, machine), "Reboot "+s.namespace+"/m1 of ConfigMap/other")
	s.wakes()
	s.Expect(admin.Delete(t.Context(), stranger)).To(Succeed())
	s.Eventually(s.wakes).Should(ContainElement("a"), "now it is free")

	made := s.create(a, machine)
	ours := "Reboot " + s.namespace + "/m1 of MachineHealthCheck " + s.namespace + "/a"
	taken(s.draft(s.check("b"), machine), ours)
	taken(s.draft(a, Object{"m1", "another"}), ours)
	step, attempt := s.draft(a, machine), s.draft(a, machine)
	step.Order, attempt.Attempt = 2, 2
	taken(step, ours)
	taken(attempt, ours)
	s.hold("m1")
	s.Expect(s.requests.Delete(t.Context(), made)).To(Succeed())
	taken(s.draft(a, machine), ours)
}

// hold adds a finalizer to a request.
func (s *scene) hold(name string) {
	s.t.Helper()
	there := s.there(name)
	there.SetFinalizers([]string{"example.io/held"})
	s.Expect(admin.Update(s.t.Context(), there)).To(Succeed())
}

func TestTellToStop_Finalizer_IsAnnotatedAndKept(t *testing.T) {
	s := settled(t)
	made := s.create(s.check("a"), Object{"m1", "uid-1"})
	s.hold("m1")
	s.Expect(s.requests.Delete(t.Context(), made)).To(Succeed())
	s.Expect(s.requests.Delete(t.Context(), made)).To(Succeed())
	s.Eventually(func() bool { return s.mine()[0].Deleting() }).Should(BeTrue())
	// What was seen before is old by now.
	s.Expect(s.requests.StopRemediator(t.Context(), made, noon.Add(time.Minute), false)).To(Succeed())
	s.Expect(s.requests.StopRemediator(t.Context(), made, noon.Add(time.Hour), false)).To(Succeed())
	there := s.there("m1")
	s.Expect(there.GetFinalizers()).To(Equal([]string{"example.io/held"}))
	s.Expect(there.GetAnnotations()).To(HaveKeyWithValue(remedyv1.TimedOutAnnotation, "2026-01-02T12:01:00Z"), "once is enough")
}

func TestTellToStop_Succeeded_IsNotAnnotated(t *testing.T) {
	s := settled(t)
	made := s.create(s.check("a"), Object{"m1", "uid-1"})
	there := s.there("m1")
	s.Expect(unstructured.SetNestedSlice(there.Object, []any{map[string]any{"type": "Succeeded", "status": "True"}}, "status", "conditions")).To(Succeed())
	s.Expect(admin.Status().Update(t.Context(), there)).To(Succeed())
	// It had not, when it was seen.
	s.Expect(s.requests.StopRemediator(t.Context(), made, noon, false)).To(Succeed())
	s.Expect(s.there("m1").GetAnnotations()).ToNot(HaveKey(remedyv1.TimedOutAnnotation))
	s.Expect(s.requests.StopRemediator(t.Context(), made, noon, true)).To(Succeed())
	s.Expect(s.there("m1").GetAnnotations()).To(HaveKey(remedyv1.TimedOutAnnotation), "its Node no longer exists")
}

// A remediator that deletes the Node announces that first. A manager that has read only the deletion must not stop it.
func TestStopRemediator_NodeDeletionUnread_Fails(t *testing.T) {
	s := settled(t)
	made := s.create(s.check("a"), Object{"m1", "uid-1"})
	there := s.there("m1")
	announced := []any{map[string]any{"type": "PermanentNodeDeletionExpected", "status": "True"}}
	s.Expect(unstructured.SetNestedSlice(there.Object, announced, "status", "conditions")).To(Succeed())
	s.Expect(admin.Status().Update(t.Context(), there)).To(Succeed())
	s.Expect(s.requests.StopRemediator(t.Context(), made, noon, true)).To(MatchError(apierrors.IsConflict, "a conflict"))
	s.Expect(s.there("m1").GetAnnotations()).ToNot(HaveKey(remedyv1.TimedOutAnnotation))
	s.Expect(s.requests.StopRemediator(t.Context(), Read(s.there("m1")), noon, true)).To(Succeed(), "the decision considered it")
}

func TestNoteRecovery_Recovery_IsRecordedAndRemoved(t *testing.T) {
	s := settled(t)
	made := s.create(s.check("a"), Object{"m1", "uid-1"})
	since := func() time.Time { return Read(s.there("m1")).Facts(Naming{}).HealthySince }
	when := noon.Add(1234567 * time.Microsecond)
	s.Expect(s.requests.WriteRecovery(t.Context(), made, time.Time{})).To(Succeed())
	s.Expect(s.there("m1").GetResourceVersion()).To(Equal(made.ResourceVersion), "there is nothing to remove")
	s.Expect(s.requests.WriteRecovery(t.Context(), made, when)).To(Succeed())
	s.Expect(since()).To(Equal(when.Truncate(time.Millisecond)))
	version := s.there("m1").GetResourceVersion()
	s.Expect(s.requests.WriteRecovery(t.Context(), Read(s.there("m1")), when)).To(Succeed())
	s.Expect(s.there("m1").GetResourceVersion()).To(Equal(version))
	s.Expect(s.requests.WriteRecovery(t.Context(), Read(s.there("m1")), time.Time{})).To(Succeed())
	s.Expect(s.there("m1").GetAnnotations()).ToNot(HaveKey(remedyv1.HealthySinceAnnotation))
	// Who has seen the request before this relapse must not write down that its target was healthy all the time.
	s.Expect(s.requests.WriteRecovery(t.Context(), made, noon)).To(MatchError(apierrors.IsConflict, "a conflict"))
	s.Expect(s.there("m1").GetAnnotations()).ToNot(HaveKey(remedyv1.HealthySinceAnnotation))
}

func TestWrite_OtherUID_Fails(t *testing.T) {
	s := settled(t)
	old := s.create(s.check("a"), Object{"m1", "uid-1"})
	s.Expect(admin.Delete(t.Context(), s.there("m1"))).To(Succeed())
	var replaced *ReplacedError
	s.Expect(errors.As(s.requests.StopRemediator(t.Context(), old, noon, false), &replaced)).To(BeTrue())
	s.Expect(s.requests.Delete(t.Context(), old)).To(Succeed(), "it no longer exists")

	other := s.kind.NewRequest(s.namespace, "m1")
	s.Expect(admin.Create(t.Context(), other)).To(Succeed())
	before := s.there("m1")
	// Also with the resourceVersion of the other one: then only the UID differs.
	disguised := *old
	disguised.ResourceVersion = other.GetResourceVersion()
	for _, seen := range []*Request{old, &disguised} {
		s.Expect(errors.As(s.requests.StopRemediator(t.Context(), seen, noon, false), &replaced)).To(BeTrue())
		s.Expect(errors.As(s.requests.WriteRecovery(t.Context(), seen, noon), &replaced)).To(BeTrue())
		s.Expect(s.requests.Delete(t.Context(), seen)).To(Succeed())
	}
	s.Expect(s.there("m1")).To(Equal(before))
}

func TestCreate_AdmissionRejects_IsRecognized(t *testing.T) {
	s := newScene(t, "Reboot")
	crds := s.kind.CRDs()
	crds[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"strategy": {Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"fence"`)}}}},
	}
	s.install(crds...)
	s.grant(s.kind.Rules()...)
	s.template()
	s.usable(s.check("a"), s.reference())
	_, created, err := s.requests.Create(t.Context(), s.draft(s.check("a"), Object{"m1", "uid-1"}))
	s.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	s.Expect(created).To(BeFalse())
	s.Expect(err).To(MatchError(And(ContainSubstring("failed to create Reboot "+s.namespace+"/m1"), ContainSubstring("spec.strategy"))))
	s.grant(s.kind.Rules()[1])
	s.Eventually(func() bool {
		_, _, err := s.requests.Create(t.Context(), s.draft(s.check("a"), Object{"m1", "uid-1"}))
		return apierrors.IsForbidden(err)
	}).Should(BeTrue())
}

func TestCreate_TemplateDeleted_Fails(t *testing.T) {
	s := settled(t)
	var problem *TemplateError
	d := s.draft(s.check("a"), Object{"m1", "uid-1"})
	d.Template.Name = "gone"
	_, _, err := s.requests.Create(t.Context(), d)
	s.Expect(errors.As(err, &problem)).To(BeTrue())
	s.Expect(err).To(MatchError("failed to create a request from RebootTemplate " + s.namespace + "/gone: it does not exist"))
	bad := s.kind.NewTemplate(s.namespace, "bad", nil)
	bad.Object["spec"] = map[string]any{}
	s.Expect(admin.Create(t.Context(), bad)).To(Succeed())
	d.Template.Name = "bad"
	_, _, err = s.requests.Create(t.Context(), d)
	s.Expect(errors.As(err, &problem)).To(BeTrue())
	d.Template.Kind = "NothingTemplate"
	_, _, err = s.requests.Create(t.Context(), d)
	s.Expect(errors.As(err, &problem)).To(BeTrue())
}

func TestCreate_LostAnswer_CreatesNoSecondRequest(t *testing.T) {
	s := settled(t)
	process := faults.Start(t.Context())
	s.stop()
	s.begin(process.Context(), process.Config(s.quietConfig()))
	s.usable(s.check("a"), s.reference())
	_, err := process.FailWriteOf(func(faults.Write) bool { return true }, 1, faults.LoseAnswer)
	s.Expect(err).ToNot(HaveOccurred())
	d := s.draft(s.check("a"), Object{"m1", "uid-1"})
	_, _, err = s.requests.Create(t.Context(), d)
	s.Expect(err).To(HaveOccurred())
	there := s.there("m1")
	s.Expect(there).ToNot(BeNil())
	found, created, err := s.requests.Create(t.Context(), d)
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(created).To(BeFalse())
	s.Expect(found.UID).To(Equal(there.GetUID()))
}
