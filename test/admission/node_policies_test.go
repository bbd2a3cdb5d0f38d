// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func node() *unstructured.Unstructured {
	n := &unstructured.Unstructured{}
	n.SetAPIVersion("v1")
	n.SetKind("Node")
	n.SetName("node-1")
	return n
}

const (
	nodeByHand             = "{metadata: {annotations: {remedy.cluster.x-k8s.io/remediate-node: ''}}}"
	notAllowedToDeleteNode = "the annotation remedy.cluster.x-k8s.io/remediate-node can cause a reboot or the deletion of the Node, " +
		"but you are not allowed to delete node node-1: ask a user with this permission to set it"
)

// nodeEditor may change Nodes and their status, as a kubelet may.
var nodeEditor = to("get,create,update,patch", "", "nodes,nodes/status")

func TestManualNodeRemediationPolicy_NoDelete_Warns(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	ctx := t.Context()
	editor, warned := b.may(t, "editor", nodeEditor)
	n := node()
	g.Expect(b.API.Create(ctx, n)).To(Succeed())
	g.Eventually(func(g Gomega) string {
		g.Expect(tryUpdate(t, editor, n, nodeByHand)).To(Succeed(), "the policy only warns")
		return warned.take()
	}).Should(HaveSuffix(notAllowedToDeleteNode))
	g.Eventually(b.audited).
		Should(And(ContainSubstring("validation.policy.admission.k8s.io/validation_failure"), ContainSubstring("remedy-system-manual-node-remediation")))
	g.Expect(editor.Status().Update(ctx, patched(g, n, nodeByHand), client.DryRunAll)).To(Succeed())
	g.Expect(warned.take()).To(HaveSuffix(notAllowedToDeleteNode), "an update of the status can also set it")

	for name, rule := range map[string]rbacv1.PolicyRule{
		"all": to("delete", "", "nodes"),
		"one": {APIGroups: []string{""}, Resources: []string{"nodes"}, ResourceNames: []string{"node-1"}, Verbs: []string{"delete"}},
	} {
		deletes, warnings := b.may(t, "deletes-"+name, nodeEditor, rule)
		g.Expect(tryUpdate(t, deletes, n, nodeByHand)).To(Succeed(), name)
		g.Expect(warnings.take()).To(BeEmpty(), name)
	}

	marked := patched(g, n, nodeByHand)
	g.Expect(b.API.Update(ctx, marked)).To(Succeed())
	for change, warns := range map[string]bool{"a: b": false, "remedy.cluster.x-k8s.io/remediate-node: null": false, "remedy.cluster.x-k8s.io/remediate-node: x": true} {
		g.Expect(tryUpdate(t, editor, marked, "{metadata: {annotations: {"+change+"}}}")).To(Succeed(), change)
		g.Expect(warned.take() != "").To(Equal(warns), change)
	}
	g.Expect(b.API.Delete(ctx, n)).To(Succeed())
	g.Expect(tryCreate(ctx, editor, patched(g, node(), nodeByHand))).To(Succeed())
	g.Expect(warned.take()).To(HaveSuffix(notAllowedToDeleteNode), "also on creation")
}

func TestDenyComponent_NoDelete_DeniesNodeRemediation(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	b.deny(t)
	editor, _ := b.may(t, "editor", nodeEditor)
	deletes, _ := b.may(t, "deletes", nodeEditor, to("delete", "", "nodes"))
	n := node()
	g.Expect(b.API.Create(t.Context(), n)).To(Succeed())
	untilPoliciesWork(g, func() error { return tryUpdate(t, editor, n, nodeByHand) }, notAllowedToDeleteNode)
	g.Expect(editor.Status().Update(t.Context(), patched(g, n, nodeByHand), client.DryRunAll)).To(MatchError(HaveSuffix(notAllowedToDeleteNode)))
	g.Expect(tryUpdate(t, deletes, n, nodeByHand)).To(Succeed())
	g.Expect(tryUpdate(t, editor, n, "{metadata: {labels: {a: b}}}")).To(Succeed())
}

// A NodeHealthCheck names the namespace of its templates, and the permissions are those of that namespace.
func TestTemplatesPolicy_NodeCheck_NeedsPermissions(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	ctx := t.Context()
	const group = "self-node-remediation.medik8s.io"
	writes := to("get,create,update,patch", checks, "nodehealthchecks")
	creates, gets := to("create", group, "selfnoderemediations"), to("get", group, "selfnoderemediationtemplates")
	unprivileged, _ := b.may(t, "unprivileged", writes)
	keeper, _ := b.may(t, "keeper", writes, creates, gets)
	blind, _ := b.may(t, "blind", writes, creates)
	reader, _ := b.may(t, "reader", writes, gets)
	check := patched(g, example(t, nodesMinimal), "{spec: {maxUnhealthy: 40%, maxInFlight: 2, pauseRequests: [a, b]}}")
	name, _, err := unstructured.NestedString(check.Object, "spec", "remediationTemplate", "name")
	g.Expect(err).ToNot(HaveOccurred())
	words := "this check requires permission to create selfnoderemediations." + group + " and to get selfnoderemediationtemplates." + group + " " + name +
		" in namespace remediators: ask an administrator for this permission, or ask a user with this permission to write the check"
	untilPoliciesWork(g, func() error { return tryCreate(ctx, unprivileged, check) }, words)
	g.Expect(tryCreate(ctx, blind, check)).To(MatchError(HaveSuffix(words)), "the template cannot be read")
	g.Expect(tryCreate(ctx, reader, check)).To(MatchError(HaveSuffix(words)), "the request cannot be created")
	g.Expect(tryCreate(ctx, keeper, check)).To(Succeed())

	written := withName(check.DeepCopy(), "written-by-another-user")
	g.Expect(b.API.Create(ctx, written)).To(Succeed())
	for _, patch := range []string{
		"{pauseRequests: [c, b, a]}", "{mode: Observe}", "{maxUnhealthy: 9%}", "{maxInFlight: 1}",
		"{mode: Observe, maxInFlight: 1, pauseRequests: [a, b, c], maxUnhealthy: 0%}",
	} {
		g.Expect(tryUpdate(t, unprivileged, written, "{spec: "+patch+"}")).To(Succeed(), patch)
	}
	g.Expect(tryUpdate(t, unprivileged, written, "{metadata: {labels: {a: b}, annotations: {cluster.x-k8s.io/paused: ''}}}")).To(Succeed())
	for _, patch := range []string{
		"{selector: {}}", "{selector: {matchLabels: {a: b}}}", "{unhealthyConditions: [{type: Ready, status: 'False', duration: 0s}]}",
		"{maxUnhealthy: 41%}", "{maxUnhealthy: null}", "{maxInFlight: null}", "{pauseRequests: null}", "{healthyDelay: 1m}",
		"{backoff: {initial: 1s}}", "{stormCooldownDuration: 1m}", "{mode: Observe, healthyDelay: 1m}",
	} {
		g.Expect(tryUpdate(t, unprivileged, written, "{spec: "+patch+"}")).To(MatchError(HaveSuffix(words)), patch)
		g.Expect(tryUpdate(t, keeper, written, "{spec: "+patch+"}")).To(Succeed(), patch)
	}
	for change, patch := range map[string]string{"elsewhere": "{namespace: elsewhere}", "remediators": "{name: another}"} {
		changed := "{spec: {remediationTemplate: " + patch + "}}"
		g.Expect(tryUpdate(t, unprivileged, written, changed)).To(MatchError(ContainSubstring(" in namespace "+change+": ")), patch)
	}
	observing := patched(g, withName(check.DeepCopy(), "observing"), "{spec: {mode: Observe}}")
	g.Expect(b.API.Create(ctx, observing)).To(Succeed())
	g.Expect(tryUpdate(t, unprivileged, observing, "{spec: {mode: Enforce}}")).To(MatchError(HaveSuffix(words)))
}
