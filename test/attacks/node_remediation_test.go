// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

const (
	unreadyNode = `
{status: {conditions: [{type: Ready, status: Unknown, reason: NodeStatusUnknown,
  lastHeartbeatTime: "2026-01-01T00:00:00Z", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`
	checkOfOwnNodes = `
apiVersion: remedy.cluster.x-k8s.io/v1alpha1
kind: NodeHealthCheck
metadata: {name: own-nodes}
spec:
  maxUnhealthy: 100%
  unhealthyConditions: [{type: Ready, status: Unknown, duration: 1s}]
  remediationTemplate: {apiVersion: remediation.example.com/v1, kind: RebootRemediationTemplate, name: m3, namespace: team-a}`
)

// The policies restrict a thief, and not the manager: it remediates a Node, and keeps the history of a failed remediation on it.
func TestManager_UnderPolicies_RemediatesNode(t *testing.T) {
	g := installed(t)
	ctx := t.Context()
	template := remediator.Example.NewTemplate(teamA, "m3", map[string]any{})
	g.Expect(plane.API.Create(ctx, template)).To(Succeed())
	t.Cleanup(func() { g.Expect(plane.API.Delete(context.Background(), template)).To(Succeed()) })
	node := createUntilEnd(t, g, object(g, "{apiVersion: v1, kind: Node, metadata: {name: n-1}}"))
	g.Expect(plane.API.Status().Patch(ctx, node, merge(unreadyNode))).To(Succeed())
	check := createUntilEnd(t, g, object(g, checkOfOwnNodes))
	plane.StartManager(t)
	request := remediator.Example.NewRequest(teamA, "n-1")
	g.Eventually(func() error { return plane.API.Get(ctx, client.ObjectKeyFromObject(request), request) }).Should(Succeed())
	g.Expect(plane.API.Get(ctx, client.ObjectKeyFromObject(check), check)).To(Succeed())
	g.Expect(check.GetFinalizers()).To(ContainElement(remedyv1.CleanupFinalizer))
	failed := `{status: {conditions: [{type: Succeeded, status: "False", reason: x, message: "",
  lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`
	g.Expect(plane.API.Status().Patch(ctx, request, merge(failed))).To(Succeed())
	g.Eventually(func() (map[string]string, error) {
		err := plane.API.Get(ctx, client.ObjectKeyFromObject(node), node)
		return node.GetAnnotations(), err
	}).Should(HaveKeyWithValue(remedyv1.AttemptsAnnotation, "1"))
}
