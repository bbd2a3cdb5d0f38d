// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
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
		taints = theFencingManager + "changes only the taints remedy.cluster.x-k8s.io/fencing and " +
			"node.kubernetes.io/out-of-service=nodeshutdown:NoExecute of a Node"
		spec     = theFencingManager + "changes only taints in the spec of Nodes"
		metadata = theFencingManager + "does not change labels, finalizers or owner references"
		foreign  = "{key: a, effect: NoSchedule}, {key: node.kubernetes.io/not-ready, effect: NoSchedule}"
		own      = "{key: remedy.cluster.x-k8s.io/fencing, value: uid, effect: NoSchedule}, {key: remedy.cluster.x-k8s.io/fencing, value: uid, effect: NoExecute}, " +
			"{key: node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoExecute}"
		outOfService = "{key: node.kubernetes.io/out-of-service, "
	)
	untilPoliciesWork(g, func() error { return tryUpdate(t, manager, n, "{spec: {unschedulable: true}}") }, spec)
	for patch, words := range map[string]string{
		"{metadata: {annotations: {example.com/a: null}}}":                                                  annotations + "example.com/a",
		"{metadata: {annotations: {remedy.cluster.x-k8s.io/skip-remediation: ''}}}":                         annotations + "remedy.cluster.x-k8s.io/skip-remediation",
		"{metadata: {labels: {a: b}}}":                                                                      metadata,
		"{metadata: {finalizers: [a.b/c]}}":                                                                 metadata,
		"{metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: a, uid: b}]}}":                     metadata,
		"{spec: {unschedulable: true}}":                                                                     spec,
		"{spec: {providerID: 'a://b'}}":                                                                     spec,
		"{spec: {podCIDR: 10.0.0.0/24, podCIDRs: [10.0.0.0/24]}}":                                           spec,
		"{spec: {taints: null}}":                                                                            taints,
		"{spec: {taints: [{key: a, effect: NoExecute}]}}":                                                   taints,
		"{spec: {taints: [" + foreign + ", {key: b, effect: NoSchedule}]}}":                                 taints,
		"{spec: {taints: [" + own + "]}}":                                                                   taints,
		"{spec: {unschedulable: true, taints: [" + foreign + ", " + own + "]}}":                             spec,
		"{spec: {taints: [" + foreign + ", " + outOfService + "value: other, effect: NoExecute}]}}":         taints,
		"{spec: {taints: [" + foreign + ", " + outOfService + "effect: NoExecute}]}}":                       taints,
		"{spec: {taints: [" + foreign + ", " + outOfService + "value: nodeshutdown, effect: NoSchedule}]}}": taints,
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

// A taint out-of-service with another value belongs to another party.
func TestFencingPolicy_ForeignOutOfService_IsKept(t *testing.T) {
	g := NewWithT(t)
	fences.Use(t)
	fences.Grant(t, fencingManager, "", to("*", "*", "*"))
	n := node()
	n.SetName("out-of-service")
	n.Object["spec"] = map[string]any{"taints": []any{map[string]any{"key": "node.kubernetes.io/out-of-service", "value": "storage", "effect": "NoExecute"}}}
	fences.CreateUntilEnd(t, n)
	remove := func() error { return tryUpdate(t, fences.As(t, fencingManager), n, "{spec: {taints: null}}") }
	untilPoliciesWork(g, remove, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute of a Node")
}

// Requesters can set annotations, but not this one.
func TestFencingPolicy_ConfirmOffWithoutPermission_IsDenied(t *testing.T) {
	g := NewWithT(t)
	fences.Use(t)
	const (
		uid    = "0f8fad5b-d9cb-469f-a165-70867728950e"
		denied = "the annotation remedy.cluster.x-k8s.io/confirm-off requires permission to confirm NodeFence default/full, because workload is removed when it " +
			"is set: ask an administrator to bind the role remedy-system-fencing-admin in this namespace"
		notUID = "the annotation remedy.cluster.x-k8s.io/confirm-off must be the UID of the Node: read it from status.node.uid of the NodeFence"
	)
	confirms := func(value string) string {
		return "{metadata: {annotations: {remedy.cluster.x-k8s.io/confirm-off: " + value + "}}}"
	}
	editor, namesake, person := controlplane.User{Name: "fence-editor"}, controlplane.User{Name: "fence-namesake"}, controlplane.User{Name: "fence-person"}
	writes, confirm := to("get,create,update,patch", checks, "nodefences"), to("confirm", checks, "nodefences")
	fences.Grant(t, editor, "", writes)
	fences.Grant(t, editor, "remedy-system", confirm)
	confirm.ResourceNames = []string{"other"}
	fences.Grant(t, namesake, "", writes, confirm)
	confirm.ResourceNames = []string{"full"}
	fences.Grant(t, person, "", writes)
	fences.Grant(t, person, "default", confirm)

	fence := example(t, nodeFence)
	confirmed := patched(g, fence, confirms(uid))
	untilPoliciesWork(g, func() error { return tryCreate(t.Context(), fences.As(t, editor), confirmed) }, denied)
	g.Expect(tryCreate(t.Context(), fences.As(t, namesake), confirmed)).To(MatchError(HaveSuffix(denied)))
	g.Expect(tryCreate(t.Context(), fences.As(t, person), confirmed)).To(Succeed())
	g.Expect(tryCreate(t.Context(), fences.As(t, person), patched(g, fence, confirms("'yes'")))).To(MatchError(HaveSuffix(notUID)))
	g.Expect(tryCreate(t.Context(), fences.As(t, person), patched(g, fence, confirms("''")))).To(MatchError(HaveSuffix(notUID)))

	fences.CreateUntilEnd(t, fence)
	g.Expect(tryUpdate(t, fences.As(t, editor), fence, "{metadata: {annotations: {a: b}}}")).To(Succeed())
	g.Expect(tryUpdate(t, fences.As(t, editor), fence, confirms(uid))).To(MatchError(HaveSuffix(denied)))
	g.Expect(fences.As(t, person).Update(t.Context(), confirmed)).ToNot(Succeed(), "it has no resourceVersion")
	confirmed = patched(g, fence, confirms(uid))
	g.Expect(fences.As(t, person).Update(t.Context(), confirmed)).To(Succeed())
	for _, patch := range []string{"{metadata: {annotations: {a: b}}}", "{metadata: {finalizers: [a.b/c]}}", confirms("null")} {
		g.Expect(tryUpdate(t, fences.As(t, editor), confirmed, patch)).To(Succeed(), patch)
	}
	g.Expect(tryUpdate(t, fences.As(t, editor), confirmed, confirms("1"+uid[1:]))).To(MatchError(HaveSuffix(denied)))
	// The fencing manager patches annotations and finalizers, with the permissions of config/fencing/rbac.
	finished := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"remedy.cluster.x-k8s.io/finished": "Failed"}, "finalizers": []}}`))
	g.Expect(fences.As(t, fencingManager).Patch(t.Context(), confirmed.DeepCopy(), finished, client.DryRunAll)).To(Succeed())
}

// A check copies the annotations of a template. Its manager has no permission to confirm, so a template cannot confirm either.
func TestFencingPolicy_ConfirmOffByRoles_OnlyAdmin(t *testing.T) {
	g := NewWithT(t)
	fences.Use(t)
	confirming := []string{}
	roles := &rbacv1.ClusterRoleList{}
	g.Expect(fences.API.List(t.Context(), roles)).To(Succeed())
	for i := range roles.Items {
		for _, rule := range roles.Items[i].Rules {
			ofRemedy := slices.ContainsFunc(rule.Resources, func(resource string) bool { return strings.HasPrefix(resource, "nodefence") })
			if ofRemedy && !strings.HasPrefix(roles.Items[i].Name, "granted-") && slices.ContainsFunc(rule.Verbs, func(verb string) bool { return verb == "confirm" || verb == "*" }) {
				confirming = append(confirming, roles.Items[i].Name)
			}
		}
	}
	g.Expect(confirming).To(ConsistOf("remedy-system-fencing-admin"))
	requester := controlplane.User{Name: "fence-requester"}
	fences.Grant(t, requester, "", to("get,list,watch,create,patch,delete", checks, "nodefences"))
	request := patched(g, example(t, nodeFence), "{metadata: {annotations: {remedy.cluster.x-k8s.io/confirm-off: 0f8fad5b-d9cb-469f-a165-70867728950e}}}")
	untilPoliciesWork(g, func() error { return tryCreate(t.Context(), fences.As(t, requester), request) }, "bind the role remedy-system-fencing-admin in this namespace")
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
