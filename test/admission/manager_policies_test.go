// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	theManager       = "the manager of cluster-api-provider-remedy "
	onlyOtherChanges = theManager + "does not change labels, finalizers or owner references"
)

// tryUpdate patches an object as a dry run.
func tryUpdate(t *testing.T, c client.Client, object *unstructured.Unstructured, patch string) error {
	t.Helper()
	return c.Update(t.Context(), patched(NewWithT(t), object, patch), client.DryRunAll)
}

// others returns clients of users who are not the manager, with all permissions.
func (b *bench) others(t *testing.T) []client.Client {
	t.Helper()
	everything := to("*", "*", "*")
	namesake, _ := b.may(t, "system:serviceaccount:elsewhere:remedy-manager", everything)
	person, _ := b.may(t, "a-person:renamed", everything)
	return []client.Client{namesake, person}
}

func TestManagerPolicy_OtherChangeOfMachine_IsDenied(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	// The policy denies the requests even with all permissions.
	manager, others := b.manager(t), b.others(t)
	m := machine("machine-1")
	m.SetAnnotations(map[string]string{"example.com/a": "b", "remedy.cluster.x-k8s.io/failed-remediations": "1"})
	g.Expect(b.API.Create(t.Context(), m)).To(Succeed())
	untilPoliciesWork(g, func() error { return tryUpdate(t, manager, m, "{metadata: {labels: {a: b}}}") }, onlyOtherChanges)
	for patch, words := range map[string]string{
		"{metadata: {annotations: {example.com/a: c}}}": theManager + "sets only annotations with the prefix remedy.cluster.x-k8s.io/, not example.com/a",
		"{metadata: {annotations: {cluster.x-k8s.io/remediate-machine: ''}}}": theManager +
			"sets only annotations with the prefix remedy.cluster.x-k8s.io/, not cluster.x-k8s.io/remediate-machine",
		"{metadata: {annotations: {example.com/a: null}}}":                              theManager + "removes only annotations with the prefix remedy.cluster.x-k8s.io/",
		"{metadata: {labels: {a: b}}}":                                                  onlyOtherChanges,
		"{metadata: {finalizers: [remedy.cluster.x-k8s.io/x]}}":                         onlyOtherChanges,
		"{metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: a, uid: b}]}}": onlyOtherChanges,
		"{spec: {providerID: x}}":                                                       theManager + "does not change specs",
	} {
		g.Expect(tryUpdate(t, manager, m, patch)).To(MatchError(HaveSuffix(words)), patch)
		for _, other := range others {
			g.Expect(tryUpdate(t, other, m, patch)).To(Succeed(), patch)
		}
	}
	for _, patch := range []string{
		"{metadata: {annotations: {remedy.cluster.x-k8s.io/failed-remediations: '2', remedy.cluster.x-k8s.io/marked-by: x}}}",
		"{metadata: {annotations: {remedy.cluster.x-k8s.io/failed-remediations: null}}}",
	} {
		g.Expect(tryUpdate(t, manager, m, patch)).To(Succeed(), patch)
	}
}

func TestManagerPolicy_OtherChangeOfNode_IsDenied(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	manager, others := b.manager(t), b.others(t)
	n := node()
	n.SetAnnotations(map[string]string{
		"example.com/a": "b", "remedy.cluster.x-k8s.io/failed-remediations": "1", "remedy.cluster.x-k8s.io/skip-remediation": "",
		"remediation.medik8s.io/manually-confirmed-healthy": "",
	})
	g.Expect(b.API.Create(t.Context(), n)).To(Succeed())
	const (
		sets    = theManager + "sets only the annotations of a Node with its remediation history, not "
		removes = theManager + "removes only the annotations of a Node with its remediation history and remediation.medik8s.io/manually-confirmed-healthy, not "
		spec    = theManager + "does not change the spec of Nodes"
		status  = theManager + "does not change the status of Nodes"
	)
	untilPoliciesWork(g, func() error { return tryUpdate(t, manager, n, "{metadata: {labels: {a: b}}}") }, onlyOtherChanges)
	metadata := map[string]string{
		"{annotations: {example.com/a: c}}":                                         sets + "example.com/a",
		"{annotations: {cluster.x-k8s.io/machine: other}}":                          sets + "cluster.x-k8s.io/machine",
		"{annotations: {remedy.cluster.x-k8s.io/remediate-node: ''}}":               sets + "remedy.cluster.x-k8s.io/remediate-node",
		"{annotations: {remedy.cluster.x-k8s.io/skip-remediation: x}}":              sets + "remedy.cluster.x-k8s.io/skip-remediation",
		"{annotations: {remediation.medik8s.io/manually-confirmed-healthy: 'x'}}":   sets + "remediation.medik8s.io/manually-confirmed-healthy",
		"{annotations: {example.com/a: null}}":                                      removes + "example.com/a",
		"{annotations: {remedy.cluster.x-k8s.io/skip-remediation: null}}":           removes + "remedy.cluster.x-k8s.io/skip-remediation",
		"{labels: {node-role.kubernetes.io/control-plane: ''}}":                     onlyOtherChanges,
		"{finalizers: [remedy.cluster.x-k8s.io/cleanup]}":                           onlyOtherChanges,
		"{ownerReferences: [{apiVersion: v1, kind: Pod, name: a, uid: b}]}":         onlyOtherChanges,
		"{annotations: {remedy.cluster.x-k8s.io/tried: 1 a}, labels: {a: changed}}": onlyOtherChanges,
	}
	for patch, words := range metadata {
		patch = "{metadata: " + patch + "}"
		g.Expect(tryUpdate(t, manager, n, patch)).To(MatchError(HaveSuffix(words)), patch)
		// An update of the status can also change the metadata.
		g.Expect(manager.Status().Update(t.Context(), patched(g, n, patch), client.DryRunAll)).To(MatchError(HaveSuffix(words)), patch)
		for _, other := range others {
			g.Expect(tryUpdate(t, other, n, patch)).To(Succeed(), patch)
		}
	}
	for _, patch := range []string{
		"{spec: {unschedulable: true}}", "{spec: {taints: [{key: a, effect: NoExecute}]}}", "{spec: {providerID: 'a://b'}}",
	} {
		g.Expect(tryUpdate(t, manager, n, patch)).To(MatchError(HaveSuffix(spec)), patch)
	}
	unready := patched(g, n, "{status: {conditions: [{type: Ready, status: 'False'}]}}")
	g.Expect(manager.Status().Update(t.Context(), unready, client.DryRunAll)).To(MatchError(HaveSuffix(status)))
	g.Expect(others[0].Status().Update(t.Context(), unready, client.DryRunAll)).To(Succeed())
	for _, patch := range []string{
		"{remedy.cluster.x-k8s.io/failed-remediations: '2', remedy.cluster.x-k8s.io/not-before: x, remedy.cluster.x-k8s.io/tried: 1 a}",
		"{remedy.cluster.x-k8s.io/failed-remediations: null, remediation.medik8s.io/manually-confirmed-healthy: null}",
	} {
		g.Expect(tryUpdate(t, manager, n, "{metadata: {annotations: "+patch+"}}")).To(Succeed(), patch)
	}
}

func TestManagerPolicy_OtherChangeOfNodeCheck_IsDenied(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	manager, others := b.manager(t), b.others(t)
	check := patched(g, example(t, nodes), "{metadata: {name: by-another-user, labels: {a: b}, annotations: {example.com/a: b}, finalizers: [example.com/keep]}}")
	g.Expect(b.API.Create(t.Context(), check)).To(Succeed())
	t.Cleanup(func() {
		free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		g.Expect(b.API.Patch(context.Background(), check.DeepCopy(), free)).To(Succeed())
	})
	const (
		annotations = theManager + "changes only annotations of its own and its own pause of a check"
		finalizers  = theManager + "changes only the finalizer remedy.cluster.x-k8s.io/cleanup of a check"
		labels      = theManager + "sets only the Cluster of a MachineHealthCheck as its label and as its owner, and the label " +
			"clusterctl.cluster.x-k8s.io/move of a NodeHealthCheck"
	)
	untilPoliciesWork(g, func() error { return tryUpdate(t, manager, check, "{metadata: {labels: {a: c}}}") }, labels)
	for patch, words := range map[string]string{
		"{annotations: {example.com/a: c}}":                                     annotations,
		"{annotations: {cluster.x-k8s.io/paused: remedy.cluster.x-k8s.io}}":     annotations,
		"{annotations: {remedy.cluster.x-k8s.io/request-plurals: Foo=secrets}}": annotations,
		"{annotations: {remedy.cluster.x-k8s.io/adopt: 'true'}}":                annotations,
		"{finalizers: [remedy.cluster.x-k8s.io/cleanup]}":                       finalizers,
		"{finalizers: [example.com/keep, example.com/other]}":                   finalizers,
		"{labels: {cluster.x-k8s.io/cluster-name: prod-1}}":                     labels,
		"{labels: {cluster.x-k8s.io/cluster-name: ''}}":                         labels,
		"{labels: {clusterctl.cluster.x-k8s.io/move: other}}":                   labels,
		"{labels: {a: null}}": labels,
		"{ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, name: prod-1, uid: a}]}": labels,
		"{ownerReferences: [{apiVersion: v1, kind: Node, name: a, uid: b}]}":                               labels,
	} {
		patch = "{metadata: " + patch + "}"
		g.Expect(tryUpdate(t, manager, check, patch)).To(MatchError(HaveSuffix(words)), patch)
	}
	for _, patch := range []string{"{spec: {mode: Observe}}", "{spec: {pauseRequests: [x]}}", "{spec: {maxUnhealthy: 100%}}"} {
		g.Expect(tryUpdate(t, manager, check, patch)).To(MatchError(HaveSuffix(theManager+"does not change specs")), patch)
		for _, other := range others {
			g.Expect(tryUpdate(t, other, check, patch)).To(Succeed(), patch)
		}
	}
	g.Expect(manager.Delete(t.Context(), check.DeepCopy(), client.DryRunAll)).To(MatchError(HaveSuffix(theManager + "does not delete checks")))
	g.Expect(others[0].Delete(t.Context(), check.DeepCopy(), client.DryRunAll)).To(Succeed())
	for _, patch := range []string{
		"{labels: {clusterctl.cluster.x-k8s.io/move: ''}, finalizers: [example.com/keep, remedy.cluster.x-k8s.io/cleanup]}",
		"{annotations: {remedy.cluster.x-k8s.io/storm-since: '2026-01-01T00:00:00Z', remedy.cluster.x-k8s.io/request-kinds: A.v1.b}}",
	} {
		g.Expect(tryUpdate(t, manager, check, "{metadata: "+patch+"}")).To(Succeed(), patch)
	}
	// A label of a user stays.
	moved := patched(g, check, "{metadata: {labels: {clusterctl.cluster.x-k8s.io/move: ''}}}")
	g.Expect(b.API.Update(t.Context(), moved)).To(Succeed())
	removed := "{metadata: {labels: {clusterctl.cluster.x-k8s.io/move: null}}}"
	g.Expect(tryUpdate(t, manager, moved, removed)).To(MatchError(HaveSuffix(labels)))
}
