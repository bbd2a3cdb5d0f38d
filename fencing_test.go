// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	main "github.com/cluster-api-remedy/cluster-api-provider-remedy"
	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// The fencing manager runs none of the controllers of checks, and needs no other permissions than those of its own account.
func TestManager_Fencing_RunsNoChecks(t *testing.T) {
	g := NewWithT(t)
	cp := plane.Use(t)
	installKinds(t, cp)
	g.Expect(testenv.Manifests("fencing/rbac/*.yaml")(t.Context(), cp)).To(Succeed())
	port, err := controlplane.TakePort()
	g.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(port.Release)
	now, log := testingclock.NewFakeClock(time.Now()), testenv.Log{Buffer: gbytes.NewBuffer()}
	account := cp.ConfigOf(t, controlplane.ServiceAccount(instance.Namespace, "remedy-fencing-manager"))
	startManagerAs(t, account, log, func(m *main.Manager) error { return m.AddRunnables(now) },
		"--controllers=fencing", "--feature-gates=NodeFencing=true", "--health-addr="+port.Address())
	ready := func() string {
		now.Step(time.Minute)
		return readyz(&instance.Instance{Probes: port.Address()})()
	}
	g.Eventually(ready).Should(ContainSubstring("FAIL workloadclusters: the reconcilers cannot be set up; see the log"))
	g.Eventually(log.String).Should(ContainSubstring("nodefences and fenceprofiles of remedy.cluster.x-k8s.io/v1alpha1 are not served"))

	g.Expect(cp.InstallCRDs("config/fencing/crd/bases")).To(Succeed())
	g.Eventually(ready).Should(And(ContainSubstring("workloadclusters: off: Cluster API is not installed here"),
		Not(ContainSubstring("machinehealthcheck"))))
	check := &remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "check"}}
	check.Spec.MaxUnhealthy = ptr.To(intstr.FromString("100%"))
	check.Spec.RemediationTemplate = &remedyv1.NodeTemplateReference{Namespace: "default", TemplateKind: remedyv1.TemplateKind{
		APIVersion: remedyv1.GroupVersion.String(), Kind: "NodeFenceTemplate", Name: "power-cycle",
	}}
	g.Expect(cp.API.Create(t.Context(), check)).To(Succeed())
	t.Cleanup(func() { g.Expect(cp.API.Delete(context.Background(), check)).To(Succeed()) })
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	g.Expect(cp.API.Create(t.Context(), node)).To(Succeed())
	t.Cleanup(func() { g.Expect(cp.API.Delete(context.Background(), node)).To(Succeed()) })
	fence := &unstructured.Unstructured{}
	fence.SetGroupVersionKind(remedyv1.GroupVersion.WithKind("NodeFence"))
	fence.SetNamespace(instance.Namespace)
	fence.SetName("node")
	g.Expect(cp.API.Create(t.Context(), fence)).To(Succeed())
	g.Eventually(func() (map[string]any, error) {
		err := cp.API.Get(t.Context(), client.ObjectKeyFromObject(fence), fence)
		status, _ := fence.Object["status"].(map[string]any)
		return status, err
	}).Should(HaveKeyWithValue("phase", "New"))
	g.Expect(cp.API.Get(t.Context(), client.ObjectKeyFromObject(check), check)).To(Succeed())
	g.Expect(check.Status.Conditions).To(BeEmpty())
	remediesAreReconciled(t, cp)
	g.Expect(log.String()).ToNot(ContainSubstring("forbidden"))
}

// remediesAreReconciled creates a NodeRemedy, from which a check is generated, and deletes both.
func remediesAreReconciled(t *testing.T, cp *testenv.Environment) {
	t.Helper()
	g := NewWithT(t)
	remedy := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"namespace": instance.Namespace,
		"thresholdConfigs": []any{map[string]any{
			"nodeConditionType": "Ready", "nodeConditionStatus": "Unknown", "nodeConditionPeriod": "5m",
			"remedies": []any{map[string]any{"name": "rack"}},
		}},
		"remedyConfigs": []any{map[string]any{"name": "rack", "fence": map[string]any{"profileName": "rack-a"}}},
	}}}
	remedy.SetGroupVersionKind(remedyv1.GroupVersion.WithKind("NodeRemedy"))
	remedy.SetName("compute")
	g.Expect(cp.API.Create(t.Context(), remedy)).To(Succeed())
	check := &remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "compute"}}
	get := func(o client.Object) func() error {
		return func() error { return cp.API.Get(t.Context(), client.ObjectKeyFromObject(o), o) }
	}
	g.Eventually(get(check)).Should(Succeed())
	// A change of the check is undone because the manager watches it.
	check.Spec.EscalatingRemediations[0].Order = 5
	g.Expect(cp.API.Update(t.Context(), check)).To(Succeed())
	g.Eventually(func() (int32, error) { return check.Spec.EscalatingRemediations[0].Order, get(check)() }).Should(BeZero())
	g.Expect(cp.API.Delete(t.Context(), remedy)).To(Succeed())
	g.Eventually(get(remedy)).Should(MatchError(apierrors.IsNotFound, "it still exists"))
	g.Expect(get(check)()).To(MatchError(apierrors.IsNotFound, "it still exists"))
}
