// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/manifests"
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

func TestManualNodeRemediationPolicy_NoDelete_Denies(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	ctx := t.Context()
	editor, _ := b.may(t, "editor", nodeEditor)
	n := node()
	g.Expect(b.API.Create(ctx, n)).To(Succeed())
	untilPoliciesWork(g, func() error { return tryUpdate(t, editor, n, nodeByHand) }, notAllowedToDeleteNode)
	g.Eventually(b.audited).
		Should(And(ContainSubstring("validation.policy.admission.k8s.io/validation_failure"), ContainSubstring("remedy-system-manual-node-remediation")))
	// An update of the status can also set it.
	g.Expect(editor.Status().Update(ctx, patched(g, n, nodeByHand), client.DryRunAll)).To(MatchError(HaveSuffix(notAllowedToDeleteNode)))

	for name, rule := range map[string]rbacv1.PolicyRule{
		"all": to("delete", "", "nodes"),
		"one": {APIGroups: []string{""}, Resources: []string{"nodes"}, ResourceNames: []string{"node-1"}, Verbs: []string{"delete"}},
	} {
		deletes, _ := b.may(t, "deletes-"+name, nodeEditor, rule)
		g.Expect(tryUpdate(t, deletes, n, nodeByHand)).To(Succeed(), name)
	}

	marked := patched(g, n, nodeByHand)
	g.Expect(b.API.Update(ctx, marked)).To(Succeed())
	for change, outcome := range map[string]types.GomegaMatcher{
		"a: b": Succeed(), "remedy.cluster.x-k8s.io/remediate-node: null": Succeed(),
		"remedy.cluster.x-k8s.io/remediate-node: x": MatchError(HaveSuffix(notAllowedToDeleteNode)),
	} {
		g.Expect(tryUpdate(t, editor, marked, "{metadata: {annotations: {"+change+"}}}")).To(outcome, change)
	}
	g.Expect(b.API.Delete(ctx, n)).To(Succeed())
	g.Expect(tryCreate(ctx, editor, patched(g, node(), nodeByHand))).To(MatchError(HaveSuffix(notAllowedToDeleteNode)))
}

// An API server that starts has no parameters of policies for a moment, as for a kind that is not served. It must not deny what kubelets
// write meanwhile.
func TestNodePolicies_NoParameters_KubeletsUpdate(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	ctx := t.Context()
	kubelet, _ := b.may(t, "kubelet", nodeEditor)
	n := node()
	g.Expect(b.API.Create(ctx, n)).To(Succeed())
	objects, err := manifests.Render(ctx, b.Kubectl, "../../config", policies)
	g.Expect(err).ToNot(HaveOccurred())
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return !strings.Contains(o.GetName(), "node") })
	g.Expect(objects).To(HaveLen(4), "two policies and their bindings")
	for _, o := range objects {
		o.SetName("starting-" + o.GetName())
		o.SetFinalizers(nil)
		if name, found, _ := unstructured.NestedString(o.Object, "spec", "policyName"); found {
			g.Expect(unstructured.SetNestedField(o.Object, "starting-"+name, "spec", "policyName")).To(Succeed())
		}
		if _, found, _ := unstructured.NestedMap(o.Object, "spec", "paramKind"); found {
			g.Expect(unstructured.SetNestedField(o.Object, "NotServed", "spec", "paramKind", "kind")).To(Succeed())
		}
		b.CreateUntilEnd(t, o)
	}
	// A policy without parameters shows when the API server enforces all of them.
	editor, _ := b.may(t, "editor", nodeEditor)
	g.Eventually(func() error { return tryUpdate(t, editor, n, nodeByHand) }).Should(MatchError(ContainSubstring("starting-")))
	unready := patched(g, n, "{status: {conditions: [{type: Ready, status: 'False'}]}}")
	g.Consistently(func() error { return kubelet.Status().Update(ctx, unready, client.DryRunAll) }, "1s").Should(Succeed())
	g.Expect(tryUpdate(t, kubelet, n, "{metadata: {labels: {a: b}}}")).To(Succeed())
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
