// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"path"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

const (
	theFencingManager = "the fencing manager of cluster-api-provider-remedy "
	onlyRecords       = "only " + theFencingManager + "writes the status of a NodeFence, because it is the proof that a Node is off: to withdraw the fence, " +
		"set its annotation remedy.cluster.x-k8s.io/cancel"
	mustCreateJobs = "a FenceProfile requires permission to create jobs.batch in namespace default: ask an administrator for the role edit in this " +
		"namespace, or ask a user with this permission to write the profile"
)

var fencingManager = controlplane.ServiceAccount("remedy-system", "remedy-fencing-manager")

// The policy denies the changes even with all permissions.
func TestFencingPolicy_OtherChangeOfNode_IsDenied(t *testing.T) {
	g := NewWithT(t)
	fences.Use(t)
	other := controlplane.ServiceAccount("elsewhere", "remedy-fencing-manager")
	kubelet := controlplane.User{Name: "system:node:node-1"}
	for _, user := range []controlplane.User{fencingManager, other, kubelet} {
		fences.Grant(t, user, "", to("*", "*", "*"))
	}
	manager, others := fences.As(t, fencingManager), []client.Client{fences.As(t, other), fences.As(t, kubelet)}
	n := node()
	// The API server adds a taint to a new Node.
	n.Object["spec"] = map[string]any{"taints": []any{map[string]any{"key": "a", "effect": "NoSchedule"}}}
	n.SetAnnotations(map[string]string{"example.com/a": "b"})
	fences.CreateUntilEnd(t, n)
	const (
		annotations = theFencingManager + "changes only the annotations remedy.cluster.x-k8s.io/remediation-timestamp and " +
			"remedy.cluster.x-k8s.io/remediation-podname of a Node, not "
		taints   = theFencingManager + "changes only the taint remedy.cluster.x-k8s.io/fencing of a Node"
		spec     = theFencingManager + "changes only taints in the spec of Nodes"
		metadata = theFencingManager + "does not change labels, finalizers or owner references"
		foreign  = "{key: a, effect: NoSchedule}, {key: node.kubernetes.io/not-ready, effect: NoSchedule}"
		own      = "{key: remedy.cluster.x-k8s.io/fencing, value: uid, effect: NoSchedule}"
	)
	untilPoliciesWork(g, func() error { return tryUpdate(t, manager, n, "{spec: {unschedulable: true}}") }, spec)
	for patch, words := range map[string]string{
		"{metadata: {annotations: {example.com/a: null}}}":                              annotations + "example.com/a",
		"{metadata: {annotations: {remedy.cluster.x-k8s.io/skip-remediation: ''}}}":     annotations + "remedy.cluster.x-k8s.io/skip-remediation",
		"{metadata: {labels: {a: b}}}":                                                  metadata,
		"{metadata: {finalizers: [a.b/c]}}":                                             metadata,
		"{metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: a, uid: b}]}}": metadata,
		"{spec: {unschedulable: true}}":                                                 spec,
		"{spec: {providerID: 'a://b'}}":                                                 spec,
		"{spec: {podCIDR: 10.0.0.0/24, podCIDRs: [10.0.0.0/24]}}":                       spec,
		"{spec: {taints: null}}":                                                        taints,
		"{spec: {taints: [{key: a, effect: NoExecute}]}}":                               taints,
		"{spec: {taints: [" + foreign + ", {key: b, effect: NoSchedule}]}}":             taints,
		"{spec: {taints: [" + own + "]}}":                                               taints,
		"{spec: {unschedulable: true, taints: [" + foreign + ", " + own + "]}}":         spec,
		"{spec: {taints: [" + foreign + ", {key: node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoExecute}]}}": taints,
	} {
		g.Expect(tryUpdate(t, manager, n, patch)).To(MatchError(HaveSuffix(words)), patch)
		for _, c := range others {
			g.Expect(tryUpdate(t, c, n, patch)).To(Succeed(), patch)
		}
	}
	unready := patched(g, n, "{status: {conditions: [{type: Ready, status: 'False'}]}}")
	g.Expect(manager.Status().Update(t.Context(), unready.DeepCopy(), client.DryRunAll)).
		To(MatchError(HaveSuffix(theFencingManager + "does not change the status of Nodes")))
	labeled := patched(g, n, "{metadata: {labels: {a: b}}}")
	g.Expect(manager.Status().Update(t.Context(), labeled, client.DryRunAll)).To(MatchError(HaveSuffix(metadata)))
	g.Expect(others[0].Status().Update(t.Context(), unready, client.DryRunAll)).To(Succeed())

	fenced := patched(g, n, "{metadata: {annotations: {remedy.cluster.x-k8s.io/remediation-timestamp: a, remedy.cluster.x-k8s.io/remediation-podname: b}}, "+
		"spec: {taints: ["+own+", "+foreign+"]}}")
	g.Expect(manager.Update(t.Context(), fenced)).To(Succeed())
	g.Expect(tryUpdate(t, manager, fenced, "{metadata: {annotations: {remedy.cluster.x-k8s.io/remediation-podname: c}}, spec: {taints: ["+foreign+"]}}")).
		To(Succeed())
}

// Administrators cannot forge the proof either.
func TestFencingPolicy_StatusByAnotherUser_IsDenied(t *testing.T) {
	g := NewWithT(t)
	fences.Use(t)
	namesake := controlplane.ServiceAccount("elsewhere", "remedy-fencing-manager")
	fences.Grant(t, namesake, "", to("*", "*", "*"))
	fence := patched(g, example(t, nodeFence), "{metadata: {name: forged}, status: {phase: Done}}")
	fences.CreateUntilEnd(t, fence)
	g.Expect(fence.Object).ToNot(HaveKey("status"), "a request is created without a record")
	forged := patched(g, fence, "{status: {phase: Done, step: PowerManagement, evidence: {class: PowerOff, level: 0, recordedAt: '2026-01-01T00:00:00Z'}}}")
	untilPoliciesWork(g, func() error { return fences.API.Status().Update(t.Context(), forged.DeepCopy(), client.DryRunAll) }, onlyRecords)
	for _, c := range []client.Client{fences.API, fences.As(t, namesake)} {
		g.Expect(c.Status().Update(t.Context(), forged.DeepCopy(), client.DryRunAll)).To(MatchError(HaveSuffix(onlyRecords)))
		patch := client.RawPatch(types.MergePatchType, []byte(`{"status": {"phase": "Done"}}`))
		g.Expect(c.Status().Patch(t.Context(), fence.DeepCopy(), patch, client.DryRunAll)).To(MatchError(HaveSuffix(onlyRecords)))
		g.Expect(tryUpdate(t, c, fence, "{metadata: {annotations: {remedy.cluster.x-k8s.io/cancel: ''}}}")).To(Succeed())
	}
	// The permissions are those of config/fencing/rbac.
	g.Expect(fences.As(t, fencingManager).Status().Update(t.Context(), forged, client.DryRunAll)).To(Succeed())
}

func TestFencingPolicy_ProfileWithoutJobs_IsDenied(t *testing.T) {
	g := NewWithT(t)
	fences.Use(t)
	writes := to("get,create,update,patch", checks, "fenceprofiles")
	author, editor, elsewhere := controlplane.User{Name: "author"}, controlplane.User{Name: "editor"}, controlplane.User{Name: "elsewhere"}
	fences.Grant(t, author, "", writes)
	fences.Grant(t, editor, "default", writes, to("create", "batch", "jobs"))
	fences.Grant(t, elsewhere, "", writes)
	fences.Grant(t, elsewhere, "remedy-system", to("create", "batch", "jobs"))
	profile := example(t, fenceProfile)
	untilPoliciesWork(g, func() error { return tryCreate(t.Context(), fences.As(t, author), profile) }, mustCreateJobs)
	g.Expect(tryCreate(t.Context(), fences.As(t, elsewhere), profile)).To(MatchError(HaveSuffix(mustCreateJobs)), "in another namespace")
	g.Expect(tryCreate(t.Context(), fences.As(t, editor), profile)).To(Succeed())

	fences.CreateUntilEnd(t, profile)
	for _, patch := range []string{"{spec: {image: other}}", "{spec: {nodes: null}}", method("serviceAccountName: admin")} {
		g.Expect(tryUpdate(t, fences.As(t, author), profile, patch)).To(MatchError(HaveSuffix(mustCreateJobs)), patch)
		g.Expect(tryUpdate(t, fences.As(t, editor), profile, patch)).To(Succeed(), patch)
	}
	g.Expect(tryUpdate(t, fences.As(t, author), profile, "{metadata: {labels: {a: b}, finalizers: [a.b/c]}}")).To(Succeed())
}

func TestFencingSamples_Created_AreAccepted(t *testing.T) {
	untilFencePoliciesWork(t)
	files := append(sampleFiles(t, "fencing"), "by-hand/check.yaml", "by-hand/fence.yaml")
	g := NewWithT(t)
	list := struct{ Resources []string }{}
	g.Expect(yaml.Unmarshal(readSample(t, path.Join("fencing", kustomization)), &list)).To(Succeed())
	g.Expect(list.Resources).To(Equal(sampleFiles(t, "fencing")))
	g.Expect(files).To(HaveLen(len(list.Resources) + len(sampleFiles(t, "fencing/by-hand"))))
	for _, name := range files {
		content := string(readSample(t, path.Join("fencing", name)))
		g.Expect(content).To(MatchRegexp(`(?m)\A# Copyright .*\n# SPDX.*\n\n# Use: \S`), name)
		for _, sample := range manifestsIn(g, content) {
			g.Expect(tryCreate(t.Context(), fences.API, sample)).To(Succeed(), name)
			if sample.GetKind() == "MachineHealthCheck" || sample.GetKind() == "NodeHealthCheck" {
				mode, _, _ := unstructured.NestedString(sample.Object, "spec", "mode")
				g.Expect(mode).To(Equal("Observe"), "a sample that is applied must not remediate")
			}
		}
	}
}
