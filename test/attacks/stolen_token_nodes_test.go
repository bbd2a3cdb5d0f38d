// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

const (
	someNode = `
apiVersion: v1
kind: Node
metadata:
  name: n-1
  labels: {a: b}
  annotations: {example.com/a: b, remedy.cluster.x-k8s.io/skip-remediation: "", remediation.medik8s.io/manually-confirmed-healthy: ""}`
	nodeCheck = `
apiVersion: remedy.cluster.x-k8s.io/v1alpha1
kind: NodeHealthCheck
metadata: {name: nodes, finalizers: [example.com/keep], annotations: {example.com/a: b}, labels: {a: b}}
spec:
  clusterRef: {namespace: team-a, name: prod}
  remediationTemplate: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3RemediationTemplate, name: m3, namespace: team-a}`
)

// createUntilEnd creates a cluster-scoped object and deletes it at the end of the test, with its finalizers.
func createUntilEnd(t *testing.T, g *WithT, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	ctx := t.Context()
	g.Expect(plane.API.Create(ctx, o)).To(Succeed())
	t.Cleanup(func() {
		g.Expect(plane.API.Patch(context.Background(), o, merge("{metadata: {finalizers: null}}"))).To(Succeed())
		g.Expect(plane.API.Delete(context.Background(), o)).To(Succeed())
	})
	return o
}

// The manager may patch Nodes: a taint or a cordon evicts Pods, a label moves them, and other controllers act on annotations.
func TestStolenToken_Nodes_OnlyHistory(t *testing.T) {
	g := installed(t)
	ctx := t.Context()
	node := createUntilEnd(t, g, object(g, someNode))
	thief := stolenToken(t)
	for attack, change := range map[string]string{
		"taint":                   "{spec: {taints: [{key: node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoExecute}]}}",
		"cordon":                  "{spec: {unschedulable: true}}",
		"label":                   "{metadata: {labels: {node-role.kubernetes.io/control-plane: ''}}}",
		"label removed":           "{metadata: {labels: {a: null}}}",
		"exclusion":               "{metadata: {labels: {" + remedyv1.ExcludeLabel + ": 'true'}}}",
		"foreign annotation":      "{metadata: {annotations: {cluster.x-k8s.io/machine: other}}}",
		"annotation removed":      "{metadata: {annotations: {example.com/a: null}}}",
		"manual remediation":      "{metadata: {annotations: {" + remedyv1.RemediateNodeAnnotation + ": ''}}}",
		"skip removed":            "{metadata: {annotations: {" + remedyv1.SkipRemediationAnnotation + ": null}}}",
		"confirmation":            "{metadata: {annotations: {" + remedyv1.ConfirmedHealthyAnnotation + ": x}}}",
		"unknown key with prefix": "{metadata: {annotations: {" + remedyv1.MarkedByAnnotation + ": x}}}",
		"finalizer":               "{metadata: {finalizers: [" + remedyv1.CleanupFinalizer + "]}}",
		"owner":                   "{metadata: {ownerReferences: [{apiVersion: v1, kind: Node, name: n-2, uid: a}]}}",
	} {
		refused(t, "stolen token, Node, "+attack, patch(ctx, thief, node, change))
	}
	refused(t, "stolen token, status of a Node", patchStatus(ctx, thief, node, "{status: {conditions: [{type: Ready, status: 'False'}]}}"))
	refused(t, "stolen token, deletion of a Node", thief.Delete(ctx, node.DeepCopy(), client.DryRunAll))
	refused(t, "stolen token, deletion of all Nodes", thief.DeleteAllOf(ctx, &corev1.Node{}, client.DryRunAll))
	refused(t, "stolen token, new Node", thief.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-2"}}, client.DryRunAll))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: teamA, Name: "p"}}
	refused(t, "stolen token, eviction of a Pod", thief.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{}))
	for _, change := range []string{
		remedyv1.AttemptsAnnotation + ": '1', " + remedyv1.NotBeforeAnnotation + ": x, " + remedyv1.TriedAnnotation + ": 1 a",
		remedyv1.ConfirmedHealthyAnnotation + ": null",
	} {
		g.Expect(patch(ctx, thief, node, "{metadata: {annotations: {"+change+"}}}")).To(Succeed(), change)
	}
}

// A Lease in kube-system or medik8s-leases needs one of the components, and those of kubelets are only read.
func TestStolenToken_Leases_AreOnlyRead(t *testing.T) {
	g := installed(t)
	ctx := t.Context()
	thief := stolenToken(t)
	for _, key := range []client.ObjectKey{
		workload.ControlPlaneLease,
		{Namespace: "kube-system", Name: "kube-controller-manager"},
		{Namespace: teamA, Name: "any"},
		{Namespace: corev1.NamespaceNodeLease, Name: "n-1"},
	} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		refused(t, "stolen token, new Lease "+key.String(), thief.Create(ctx, lease.DeepCopy(), client.DryRunAll))
		refused(t, "stolen token, deletion of Lease "+key.String(), thief.Delete(ctx, lease.DeepCopy(), client.DryRunAll))
	}
	g.Expect(thief.List(ctx, &coordinationv1.LeaseList{})).To(Succeed())
}

func TestStolenToken_NodeCheck_OnlyOwnMetadata(t *testing.T) {
	g := installed(t)
	ctx := t.Context()
	check := createUntilEnd(t, g, object(g, nodeCheck))
	thief := stolenToken(t)
	for attack, change := range map[string]string{
		"spec":               "{spec: {maxUnhealthy: 100%}}",
		"template":           "{spec: {remediationTemplate: {name: other}}}",
		"pause":              "{metadata: {annotations: {cluster.x-k8s.io/paused: remedy.cluster.x-k8s.io}}}",
		"plural":             "{metadata: {annotations: {" + remedyv1.RequestPluralsAnnotation + ": Metal3Remediation=secrets}}}",
		"foreign annotation": "{metadata: {annotations: {example.com/a: c}}}",
		"label":              "{metadata: {labels: {a: c}}}",
		"label of a Cluster": "{metadata: {labels: {cluster.x-k8s.io/cluster-name: prod}}}",
		"foreign finalizer":  "{metadata: {finalizers: [" + remedyv1.CleanupFinalizer + "]}}",
		"owner":              "{metadata: {ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, name: prod, uid: a}]}}",
	} {
		refused(t, "stolen token, NodeHealthCheck, "+attack, patch(ctx, thief, check, change))
	}
	refused(t, "stolen token, deletion of a NodeHealthCheck", thief.Delete(ctx, check.DeepCopy(), client.DryRunAll))
	another := object(g, nodeCheck)
	another.SetName("another")
	refused(t, "stolen token, new NodeHealthCheck", thief.Create(ctx, another, client.DryRunAll))
	g.Expect(patch(ctx, thief, check, "{metadata: {annotations: {"+remedyv1.StormSinceAnnotation+": x}, "+
		"labels: {clusterctl.cluster.x-k8s.io/move: ''}, "+
		"finalizers: [example.com/keep, "+remedyv1.CleanupFinalizer+"]}}")).To(Succeed())
}

// A tenant has no permission for cluster-scoped objects.
func TestTenant_NodesAndTheirChecks_AreForbidden(t *testing.T) {
	g := installed(t)
	ctx := t.Context()
	node := createUntilEnd(t, g, object(g, someNode))
	attacker := tenant(t, teamA, writesChecks, createsMetal3, readsTemplates)
	refused(t, "new NodeHealthCheck", attacker.Create(ctx, object(g, nodeCheck), client.DryRunAll))
	manual := "{metadata: {annotations: {" + remedyv1.RemediateNodeAnnotation + ": ''}}}"
	refused(t, "manual remediation of a Node", patch(ctx, attacker, node, manual))
}
