// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// The API server quotes the value that it rejects. A tenant that may read checks and not templates would read the password of a template.
func TestSecrets_RejectedRequest_DoesNotShowPassword(t *testing.T) {
	t.Parallel()
	const password = "S3cr3t-BMC-Passw0rd!"
	s := stage.New(t)
	kind := remediator.NewKind("secrets.example.com", "v1", "PasswordRemediation")
	crds := kind.CRDs()
	crds[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"password": {Type: "string", Pattern: "^[a-z]+$"}},
	}
	s.Expect(stage.Management.InstallCRDObjects(crds...)).To(Succeed())
	s.Expect(stage.Aggregate(s.Ctx, kind.Rules()...)).To(Succeed())
	template := kind.NewTemplate(s.Namespace, "fence", map[string]any{"password": password})
	s.Create(template)
	s.CreateMachine("m-1")
	check := s.CreateCheck("workers", stage.ByTemplate(stage.TemplateReference(kind, "fence")))
	c := s.Start()
	c.NeverIdle = true
	s.Eventually(func() bool { return c.Evaluated("workers") }).Should(BeTrue())
	s.FailNode("m-1")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked RequestFailed")))
	s.Expect(check.Status.UnhealthyTargets[0].Message).To(ContainSubstring("Invalid: spec.password"))
	events := &eventsv1.EventList{}
	s.Eventually(func() []eventsv1.Event {
		s.Expect(s.Admin.List(s.Ctx, events, client.InNamespace(s.Namespace))).To(Succeed())
		return events.Items
	}).Should(ContainElement(HaveField("Reason", string(remediation.RequestFailed))))
	readable, err := json.Marshal([]any{stage.Get(s, check)(), s.Machines(), events})
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(string(readable)).ToNot(ContainSubstring(password))
	outcome(t, "a CRD rejects a password: the status of the check has %q", check.Status.UnhealthyTargets[0].Message)
}
