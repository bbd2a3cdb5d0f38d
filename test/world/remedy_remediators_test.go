// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// A remediator that acts on Nodes of its own cluster would fence a Node of the management cluster. It gets no request for a Machine.
func TestRemediator_ReadsLocalNodes_GetsNoRequest(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := theWorld(t)
	c, pool := clusterWithPool(t, "misplaced")
	kind := remediator.FenceAgents
	g.Expect(w.Plane.InstallCRDObjects(kind.CRDs()...)).To(Succeed())
	template := kind.NewTemplate(c.Namespace, "fence", map[string]any{"agent": "fence_ipmilan"})
	for _, o := range []client.Object{kind.ClusterRole(), template} {
		g.Expect(client.IgnoreAlreadyExists(w.Client.Create(t.Context(), o))).To(Succeed())
	}
	check := aCheck(t, c, pool, func(s *remedyv1.MachineHealthCheckSpec) { s.RemediationTemplate = referenceTo(template) })
	g.Eventually(says(t, check, remedyv1.TemplatesResolvedCondition), soon).Should(Equal("False " + remedyv1.WrongLocationReason))
	looksAfter(t, check, 1)
	falls(t, c, poolOf(t, c, pool)...)
	g.Eventually(func() string { return blocked(now(t, check)) }, soon).Should(Equal("TemplateNotResolved"))
	g.Expect(says(t, check, remedyv1.ReadyCondition)()).To(HavePrefix("False"))
	requests := &unstructured.UnstructuredList{}
	requests.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	g.Expect(w.Client.List(t.Context(), requests, client.InNamespace(c.Namespace))).To(Succeed())
	g.Expect(requests.Items).To(BeEmpty())
}

// blocked is why the first unhealthy target of a check is blocked.
func blocked(check *remedyv1.MachineHealthCheck) string {
	for i := range check.Status.UnhealthyTargets {
		return string(check.Status.UnhealthyTargets[i].BlockedReason)
	}
	return ""
}

// remediates makes a template, and a check with it and no other step.
func remediates(t *testing.T, w *world.World, namespace string) func(*remedyv1.MachineHealthCheckSpec) {
	t.Helper()
	template := world.NewRemediation(world.RemediationTemplate, namespace, "only")
	template.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{}}}
	NewWithT(t).Expect(client.IgnoreAlreadyExists(w.Client.Create(t.Context(), template))).To(Succeed())
	return func(s *remedyv1.MachineHealthCheckSpec) { s.RemediationTemplate = referenceTo(template) }
}

// keeps adds a finalizer to a request, as remediators do. It is removed at the end of the test.
func keeps(t *testing.T, w *world.World, request *unstructured.Unstructured) {
	t.Helper()
	change := func(ctx context.Context, change func(*unstructured.Unstructured)) error {
		latest := request.DeepCopy()
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(latest), latest); err != nil {
			return client.IgnoreNotFound(err)
		}
		before := latest.DeepCopy()
		change(latest)
		return client.IgnoreNotFound(w.Client.Patch(ctx, latest, client.MergeFrom(before)))
	}
	const finalizer = "example.com/remediator"
	g := NewWithT(t)
	g.Expect(change(t.Context(), func(o *unstructured.Unstructured) { controllerutil.AddFinalizer(o, finalizer) })).To(Succeed())
	t.Cleanup(func() {
		g.Expect(change(context.Background(), func(o *unstructured.Unstructured) { controllerutil.RemoveFinalizer(o, finalizer) })).To(Succeed())
	})
}

// The remediator cannot reboot the Machine, and keeps its request for ever. The owner replaces the Machine five minutes later.
func TestEscalation_RequestKept_OwnerReplacesMachine(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := theWorld(t)
	c, pool := clusterWithPool(t, "kept")
	g.Expect(w.InstallRemediations(t.Context())).To(Succeed())
	check := aCheck(t, c, pool, escalates(t, w, c.Namespace, farOff, "reboot"))
	looksAfter(t, check, 1)
	unhealthy := poolOf(t, c, pool)[0]
	falls(t, c, unhealthy)

	first := request(t, w, unhealthy, 1)
	keeps(t, w, first)
	fails(t, w, first)
	isWhole(t, c, pool, 1, unhealthy)
	g.Eventually(func() []string { return endings(now(t, check)) }, soon).Should(Equal([]string{"1 Failed", "2 Replaced"}))
	g.Eventually(says(t, check, remedyv1.ReadyCondition), soon).Should(Equal("False " + remedyv1.PreviousStepNotReleasedReason))
	g.Expect(w.Client.Get(t.Context(), client.ObjectKeyFromObject(first), first)).To(Succeed(), "the remediator still keeps it")
}

// A remediator hands a Machine over in v1beta1 conditions only, which MachineSets do not read, and keeps its request.
func TestHandOver_V1Beta1Only_OwnerReplacesMachine(t *testing.T) {
	t.Parallel()
	keepsItsMemory(t)
	g := NewWithT(t)
	w := theWorld(t)
	c, pool := clusterWithPool(t, "handed-over")
	g.Expect(w.InstallRemediations(t.Context())).To(Succeed())
	check := aCheck(t, c, pool, remediates(t, w, c.Namespace))
	looksAfter(t, check, 1)
	unhealthy := poolOf(t, c, pool)[0]
	falls(t, c, unhealthy)

	first := request(t, w, unhealthy, 0)
	keeps(t, w, first)
	handOver := `{"status":{"deprecated":{"v1beta1":{"conditions":[{"type":"OwnerRemediated","status":"False","severity":"Warning",` +
		`"reason":"WaitingForRemediation","lastTransitionTime":"` + time.Now().UTC().Format(time.RFC3339) + `"}]}}}}`
	machine := &clusterv1.Machine{}
	g.Expect(w.Client.Get(t.Context(), client.ObjectKeyFromObject(&unhealthy), machine)).To(Succeed())
	g.Expect(w.Client.Status().Patch(t.Context(), machine, client.RawPatch(types.MergePatchType, []byte(handOver)))).To(Succeed())
	fails(t, w, first)
	isWhole(t, c, pool, 1, unhealthy)
	g.Expect(first.GetAnnotations()).To(HaveKeyWithValue(remedyv1.AttemptAnnotation, "1"))
	g.Eventually(func() []string { return endings(now(t, check)) }, soon).Should(Equal([]string{"none Failed", "none Replaced"}))
}

// A remediator deletes each request at once, and the Node stays unhealthy. It does not get one request after the other.
func TestRequests_DeletedAtOnce_WaitForBackoff(t *testing.T) {
	t.Parallel()
	keepsItsMemory(t)
	g := NewWithT(t)
	w := theWorld(t)
	c, pool := clusterWithPool(t, "self-deleting")
	g.Expect(w.InstallRemediations(t.Context())).To(Succeed())
	check := aCheck(t, c, pool, remediates(t, w, c.Namespace))
	looksAfter(t, check, 1)
	unhealthy := poolOf(t, c, pool)[0]

	var deleted atomic.Int32
	life, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { end(); <-done })
	go func() {
		defer close(done)
		wait.UntilWithContext(life, func(ctx context.Context) {
			if w.Client.Delete(ctx, world.NewRemediation(world.Remediation, c.Namespace, unhealthy.Name)) == nil {
				deleted.Add(1)
			}
		}, 20*time.Millisecond)
	}()
	falls(t, c, unhealthy)
	g.Eventually(deleted.Load, soon).Should(BeEquivalentTo(1))
	g.Eventually(func() string { return blocked(now(t, check)) }, soon).Should(Equal("Backoff"))
	g.Expect(says(t, check, remedyv1.ReadyCondition)()).To(Equal("False " + remedyv1.RemediationFailedReason))
	g.Eventually(deleted.Load, soon).Should(BeEquivalentTo(2))
	g.Eventually(func() []string { return endings(now(t, check)) }, soon).Should(Equal([]string{"none Withdrawn", "none Withdrawn"}))
	first, second := now(t, check).Status.RecentRemediations[1], now(t, check).Status.RecentRemediations[0]
	g.Expect(second.StartTime.Time).To(BeTemporally(">=", first.StartTime.Add(time.Minute)), "the backoff is one minute")
	end()
	turns(t, c, unhealthy, corev1.ConditionTrue)
	isClean(t, check, 1)
}
