// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// With the component one-namespace, a thief of the token reads and writes nothing in other namespaces, and the manager works. With
// edit-writes-checks, the role edit writes checks, and the policies apply to it.
func TestStolenToken_OneNamespace_NoOtherNamespace(t *testing.T) {
	other := plane
	t.Cleanup(func() { plane = other })
	plane = testenv.Start(t, installation("testdata/one-namespace")...)
	g, ctx := NewWithT(t), t.Context()
	for _, namespace := range []string{teamA, teamB} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "prod-kubeconfig"}}
		g.Expect(plane.API.Create(ctx, secret)).To(Succeed())
	}
	thief := stolenToken(t)
	read := func(namespace string) error {
		return thief.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "prod-kubeconfig"}, &corev1.Secret{})
	}
	g.Expect(read(teamA)).To(Succeed())
	refused(t, "stolen token of one namespace, Secret of another one", read(teamB))
	machine := object(g, someMachine)
	g.Expect(plane.API.Create(ctx, machine)).To(Succeed())
	refused(t, "stolen token of one namespace, spec of a Machine", patch(ctx, thief, machine, "{spec: {providerID: x}}"))
	elsewhere := object(g, someMachine)
	elsewhere.SetNamespace(teamB)
	g.Expect(plane.API.Create(ctx, elsewhere)).To(Succeed())
	annotated := "{metadata: {annotations: {remedy.cluster.x-k8s.io/failed-remediations: '1'}}}"
	refused(t, "stolen token of one namespace, Machine of another one", patch(ctx, thief, elsewhere, annotated))

	refused(t, "owner remediation by the role edit that may write checks", tenant(t, teamA).Create(ctx, object(g, ownerCheck)))
	withTemplate := object(g, metal3Check)
	refused(t, "template of another user by the role edit that may write checks", tenant(t, teamA).Create(ctx, withTemplate))
	g.Expect(tenant(t, teamA, createsMetal3, readsTemplates).Create(ctx, withTemplate, client.DryRunAll)).To(Succeed())

	check := object(g, inTreeCheck)
	check.SetAnnotations(map[string]string{remedyv1.AdoptAnnotation: "true"})
	g.Expect(plane.API.Create(ctx, object(g, someCluster))).To(Succeed())
	g.Expect(plane.API.Create(ctx, check)).To(Succeed())
	g.Expect(plane.API.Status().Patch(ctx, check, merge(notPaused))).To(Succeed())
	plane.StartManager(t, "--namespace="+teamA)
	g.Eventually(func() (map[string]string, error) {
		err := plane.API.Get(ctx, client.ObjectKeyFromObject(check), check)
		return check.GetAnnotations(), err
	}).Should(HaveKey("cluster.x-k8s.io/paused"), "the manager adopts the check")

	// A NodeHealthCheck of another instance does not concern this one, which is not allowed to read Nodes.
	g.Expect(plane.API.Create(ctx, object(g, checkOfOtherInstance))).To(Succeed())
	own := object(g, checkOfNamespace)
	g.Expect(plane.API.Create(ctx, own)).To(Succeed())
	g.Eventually(func() (any, error) {
		err := plane.API.Get(ctx, client.ObjectKeyFromObject(own), own)
		return own.Object["status"], err
	}).Should(HaveKeyWithValue("expectedMachines", BeEquivalentTo(1)))
}

const (
	checkOfOtherInstance = `
apiVersion: remedy.cluster.x-k8s.io/v1alpha1
kind: NodeHealthCheck
metadata: {name: workers}
spec:
  remediationTemplate: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3RemediationTemplate, name: m3, namespace: team-b}`
	checkOfNamespace = `
apiVersion: remedy.cluster.x-k8s.io/v1alpha1
kind: MachineHealthCheck
metadata: {name: workers, namespace: team-a}
spec:
  clusterName: prod
  selector: {matchLabels: {cluster.x-k8s.io/cluster-name: prod}}
  unhealthyConditions: [{type: Ready, status: Unknown, timeout: 5m}]`
)
