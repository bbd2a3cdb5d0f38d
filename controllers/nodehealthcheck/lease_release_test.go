// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// keepLease makes the API server of the workload cluster answer every deletion of a Lease with an error: 403, or 500 as for a webhook that
// does not respond.
func keepLease(s *stage.Stage, key client.ObjectKey, status int32) {
	s.T.Helper()
	rules := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Delete},
		Rule: admissionv1.Rule{
			APIGroups: []string{coordinationv1.GroupName}, APIVersions: []string{"v1"}, Resources: []string{"leases"},
		},
	}}
	this := []admissionv1.MatchCondition{{Name: "this-lease", Expression: "request.name == '" + key.Name + "'"}}
	name := metav1.ObjectMeta{Name: s.Namespace + ".example.com"}
	webhook := admissionv1.ValidatingWebhook{
		Name: "keep.example.com", Rules: rules, MatchConditions: this, AdmissionReviewVersions: []string{"v1"},
		SideEffects:  ptr.To(admissionv1.SideEffectClassNone),
		ClientConfig: admissionv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
	}
	objects := []client.Object{&admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: name, Webhooks: []admissionv1.ValidatingWebhook{webhook},
	}}
	if status == 403 {
		objects = []client.Object{
			&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: name, Spec: admissionv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: rules[0]}}},
				MatchConditions:  this,
				Validations:      []admissionv1.Validation{{Expression: "false", Reason: ptr.To(metav1.StatusReasonForbidden)}},
			}},
			&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: name, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			}},
		}
	}
	for _, o := range objects {
		s.Expect(s.Workload.Create(s.Ctx, o)).To(Succeed())
		s.T.Cleanup(func() { s.Expect(s.Workload.Delete(context.Background(), o)).To(Succeed()) })
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	s.Eventually(func() error { return s.Workload.Delete(s.Ctx, lease.DeepCopy(), client.DryRunAll) }).
		Should(HaveField("ErrStatus.Code", status))
}

// readyConditions follows the condition Ready of a check, also those that are replaced at once.
func readyConditions(s *stage.Stage, check *remedyv1.NodeHealthCheck) func() []string {
	s.T.Helper()
	api, err := client.NewWithWatch(stage.Management.Admin, client.Options{Scheme: testenv.Scheme})
	s.Expect(err).ToNot(HaveOccurred())
	changes, err := api.Watch(s.Ctx, &remedyv1.NodeHealthCheckList{}, client.MatchingFields{"metadata.name": check.Name})
	s.Expect(err).ToNot(HaveOccurred())
	s.T.Cleanup(changes.Stop)
	var all []string
	return func() []string {
		for {
			select {
			case change := <-changes.ResultChan():
				if now, is := change.Object.(*remedyv1.NodeHealthCheck); is {
					ready := meta.FindStatusCondition(now.Status.Conditions, remedyv1.ReadyCondition)
					all = append(all, string(ready.Status)+" "+ready.Reason+" "+ready.Message)
				}
			default:
				return all
			}
		}
	}
}

// A workload cluster does not delete a Lease. Only one try keeps the check of an administrator that is deleted; then the Lease expires.
func TestNodeLease_NotDeletable_CheckIsDeleted(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int32{"forbidden": 403, "internal error": 500} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			createLeaseNamespace(s, s.Workload)
			createNodes(s)
			l := &location{Stage: s, kind: remediator.Example, ofNodes: s.Workload, ofRequests: s.Admin}
			check := s.CreateNodeCheck("workers", rebooting(s))
			s.Start()
			s.Eventually(l.request).ShouldNot(BeNil())
			decided(s, check, "n-3", Equal("Remediating "))
			key := workload.NodeLeaseKey(s.NodeName("n-3"))
			keepLease(s, key, status)

			reported := readyConditions(s, check)
			s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
			s.Eventually(s.NodeChecks).Should(BeEmpty())
			s.Eventually(reported).Should(ContainElement(HavePrefix("False " + remedyv1.CleaningUpReason +
				" The check is being deleted; its finalizer stays until the cleanup is complete. " +
				"A Lease could not be released and is left until it expires: Lease " + key.String())))
			left := l.lease()
			s.Expect(workload.LeaseExpiry(&left.Spec)).To(And(BeTemporally(">", time.Now()), BeTemporally("<", time.Now().Add(time.Hour))))
		})
	}
}
