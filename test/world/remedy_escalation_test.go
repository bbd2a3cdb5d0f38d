// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// The first remediator does nothing until its step times out, the second one reports a failure, and the last step is the owner.
func TestEscalation_RemediatorsFail_OwnerReplacesMachine(t *testing.T) {
	t.Parallel()
	keepsItsMemory(t)
	g := NewWithT(t)
	w := theWorld(t)
	c, pool := clusterWithPool(t, "escalated")
	g.Expect(w.InstallRemediations(t.Context())).To(Succeed())
	check := aCheck(t, c, pool, escalates(t, w, c.Namespace, time.Minute, "reboot", "power-off"))
	looksAfter(t, check, 1)
	unhealthy, seen := poolOf(t, c, pool)[0], follow(t, c, pool)
	from := len(w.Writes())
	falls(t, c, unhealthy)

	first := request(t, w, unhealthy, 1)
	second := request(t, w, unhealthy, 2)
	g.Expect(second.GetUID()).ToNot(Equal(first.GetUID()))
	g.Expect(started(t, second)).To(BeTemporally(">=", started(t, first).Add(time.Minute)), "the first step had its time")
	g.Expect(seen.marked(t)).To(BeEmpty(), "the owner is the last step")
	fails(t, w, second)
	isWhole(t, c, pool, 1, unhealthy)
	isClean(t, check, 1)

	g.Expect(requestWrites(w.Writes()[from:], unhealthy.Name)).To(Equal([]string{
		"create step 1", "stop", "delete", "create step 2", "stop", "delete", "request owner remediation",
	}))
	g.Expect(seen.marked(t)).To(Equal([]string{unhealthy.Name}))
	g.Expect(endings(now(t, check))).To(Equal([]string{"1 TimedOut", "2 Failed", "3 Replaced"}))
}

// escalates makes a template for each name, and a step of each template before the owner. The first step has the timeout.
func escalates(
	t *testing.T, w *world.World, namespace string, timeout time.Duration, templates ...string,
) func(*remedyv1.MachineHealthCheckSpec) {
	t.Helper()
	steps := make([]remedyv1.MachineEscalationStep, 0, len(templates)+1)
	for i, name := range templates {
		template := world.NewRemediation(world.RemediationTemplate, namespace, name)
		// With this label, clusterctl moves it.
		template.SetLabels(map[string]string{"clusterctl.cluster.x-k8s.io/move": ""})
		template.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"strategy": name}}}
		NewWithT(t).Expect(client.IgnoreAlreadyExists(w.Client.Create(t.Context(), template))).To(Succeed())
		steps = append(steps, remedyv1.MachineEscalationStep{
			Order: int32(i + 1), RemediationTemplate: referenceTo(template), Timeout: lasting(timeout),
		})
		timeout = farOff
	}
	steps = append(steps, remedyv1.MachineEscalationStep{Order: int32(len(steps) + 1), Owner: &remedyv1.OwnerRemediation{}})
	return func(s *remedyv1.MachineHealthCheckSpec) { s.EscalatingRemediations = steps }
}

func referenceTo(template *unstructured.Unstructured) *remedyv1.MachineTemplateReference {
	return &remedyv1.MachineTemplateReference{TemplateKind: remedyv1.TemplateKind{
		APIVersion: template.GetAPIVersion(), Kind: template.GetKind(), Name: template.GetName(),
	}}
}

// request waits for the request of a step for a Machine.
func request(t *testing.T, w *world.World, machine clusterv1.Machine, step int) *unstructured.Unstructured {
	t.Helper()
	found := world.NewRemediation(world.Remediation, machine.Namespace, machine.Name)
	NewWithT(t).Eventually(func() (map[string]string, error) {
		err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(found), found)
		return found.GetAnnotations(), client.IgnoreNotFound(err)
	}, soon).Should(HaveKeyWithValue(remedyv1.StepAnnotation, fmt.Sprint(step)))
	return found
}

// started is when Remedy has created a request.
func started(t *testing.T, request *unstructured.Unstructured) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, request.GetAnnotations()[remedyv1.StartedAnnotation])
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return at
}

// fails reports the failure of a remediator.
func fails(t *testing.T, w *world.World, request *unstructured.Unstructured) {
	t.Helper()
	failed := client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[{"type":"Succeeded","status":"False"}]}}`))
	NewWithT(t).Expect(w.Client.Status().Patch(t.Context(), request.DeepCopy(), failed)).To(Succeed())
}

// requestWrites are the writes to the request for a target, and the request for owner remediation, in their order.
func requestWrites(writes []world.Write, target string) []string {
	var all []string
	for _, write := range writes {
		_, resource, _ := strings.Cut(write.Path, "/namespaces/")
		switch parts := strings.Split(resource, "/"); {
		case len(parts) < 2:
		case parts[1] == "puppetremediations" && write.Verb == http.MethodPost && strings.Contains(write.Body, `"name":"`+target+`"`):
			_, after, _ := strings.Cut(write.Body, `"`+remedyv1.StepAnnotation+`":"`)
			step, _, _ := strings.Cut(after, `"`)
			all = append(all, "create step "+step)
		case len(parts) < 3 || parts[2] != target:
		case parts[1] == "puppetremediations" && write.Verb == http.MethodDelete:
			all = append(all, "delete")
		case parts[1] == "puppetremediations" && strings.Contains(write.Body, remedyv1.TimedOutAnnotation):
			all = append(all, "stop")
		case parts[1] == "machines" && marks(write.Path, write.Body) && strings.Contains(write.Body, `"type":"`+clusterv1.MachineOwnerRemediatedCondition+`"`):
			all = append(all, "request owner remediation")
		}
	}
	// A write after a conflict is tried again.
	return slices.Compact(all)
}

// endings are the steps of a check that have ended, and their outcomes, in their order.
func endings(check *remedyv1.MachineHealthCheck) []string {
	var all []string
	for _, r := range slices.Backward(check.Status.RecentRemediations) {
		step := "none"
		if r.Step != nil {
			step = fmt.Sprint(*r.Step)
		}
		all = append(all, step+" "+string(r.Outcome))
	}
	return all
}
