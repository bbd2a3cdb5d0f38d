// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// warnings collects the warnings of the API server.
type warnings struct {
	mu   sync.Mutex
	seen []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, text)
}

func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.seen = nil }()
	return strings.Join(w.seen, "\n")
}

func to(verbs, group, resources string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Split(resources, ","), Verbs: strings.Split(verbs, ",")}
}

// untilPoliciesWork waits until the API server enforces new policies. The policies must deny the attempt.
func untilPoliciesWork(g Gomega, attempt func() error, words string) {
	g.Eventually(attempt).Should(MatchError(ContainSubstring(words)))
}

const (
	checks         = "remedy.cluster.x-k8s.io"
	checkResources = "machinehealthchecks,nodehealthchecks"
	infrastructure = "infrastructure.cluster.x-k8s.io"
)

var readsMetal = to("get", infrastructure, "metal3remediationtemplates")

// named is permission to read one template of Metal3.
func named(template string) rbacv1.PolicyRule {
	one := readsMetal
	one.ResourceNames = []string{template}
	return one
}

func TestTemplatesPolicy_NoCreatePermission_DeniesCheck(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	writes := to("get,create,update,patch", checks, checkResources)
	unprivileged, _ := b.may(t, "unprivileged", writes)
	metal, _ := b.may(t, "metal", writes, to("create", infrastructure, "metal3remediations"), readsMetal)
	readsNode := []rbacv1.PolicyRule{
		to("get", "self-node-remediation.medik8s.io", "selfnoderemediationtemplates"),
		to("get", "fence-agents-remediation.medik8s.io", "fenceagentsremediationtemplates"),
	}
	deletes, _ := b.may(t, "deletes", writes, to("delete", "cluster.x-k8s.io", "machines"))
	nodeKeeper, _ := b.may(t, "node-keeper", append(readsNode, writes, to("create", "self-node-remediation.medik8s.io", "selfnoderemediations"),
		to("create", "fence-agents-remediation.medik8s.io", "fenceagentsremediations"))...)
	ctx := t.Context()
	mhc, nhc := example(t, machinesMinimal), example(t, nodesMinimal)
	untilPoliciesWork(g, func() error { return tryCreate(ctx, unprivileged, mhc) },
		mustCreate+".infrastructure.cluster.x-k8s.io m3 in namespace default: ask an administrator for this permission")

	t.Run("create", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(tryCreate(ctx, metal, mhc)).To(Succeed())
		g.Expect(tryCreate(ctx, metal, nhc)).To(MatchError(And(
			ContainSubstring("selfnoderemediations.self-node-remediation.medik8s.io"), ContainSubstring(" in namespace remediators"))))
		g.Expect(tryCreate(ctx, nodeKeeper, nhc)).To(Succeed())
		g.Expect(tryCreate(ctx, deletes, patched(g, mhc, "{spec: {remediationTemplate: null}}"))).To(Succeed(), "a check without a template creates no requests")
	})
	t.Run("each step", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(tryCreate(ctx, nodeKeeper, example(t, nodesEscalate))).To(Succeed())
		g.Expect(tryCreate(ctx, deletes, example(t, machinesEscalate))).To(MatchError(ContainSubstring("metal3remediations")))
		one, _ := b.may(t, "one-step-only", append(readsNode, writes, to("create", "self-node-remediation.medik8s.io", "selfnoderemediations"))...)
		g.Expect(tryCreate(ctx, one, example(t, nodesEscalate))).To(MatchError(ContainSubstring("fenceagentsremediations.fence-agents-remediation.medik8s.io")))
	})
	t.Run("ten steps", func(t *testing.T) {
		g := NewWithT(t)
		all := make([]rbacv1.PolicyRule, 0, 12)
		all = append(all, writes, to("get", "a.b", "*"))
		steps := make([]string, 0, 10)
		for i := range 10 {
			steps = append(steps, fmt.Sprintf("{order: %d, timeout: 5m, remediationTemplate: {apiVersion: a.b/v1, kind: Foo%dTemplate, name: x}}", i, i))
			all = append(all, to("create", "a.b", fmt.Sprintf("foo%ds", i)))
		}
		check := patched(g, mhc, "{spec: {remediationTemplate: null, escalatingRemediations: ["+strings.Join(steps, ", ")+"]}}")
		allowed, _ := b.may(t, "all-steps", all...)
		g.Expect(tryCreate(ctx, allowed, check)).To(Succeed())
		allButLast, _ := b.may(t, "all-but-the-last", all[:len(all)-1]...)
		g.Expect(tryCreate(ctx, allButLast, check)).To(MatchError(ContainSubstring("foo9s.a.b")))
	})
	t.Run("unreadable template", func(t *testing.T) {
		g := NewWithT(t)
		blind, _ := b.may(t, "blind", writes, to("create", infrastructure, "metal3remediations"))
		g.Expect(tryCreate(ctx, blind, mhc)).To(MatchError(ContainSubstring("and to get metal3remediationtemplates.infrastructure.cluster.x-k8s.io")))
		other, _ := b.may(t, "reads-another", writes, to("create", infrastructure, "metal3remediations"), named("another"))
		g.Expect(tryCreate(ctx, other, mhc)).To(MatchError(ContainSubstring(mustCreate)))
		one, _ := b.may(t, "reads-one", writes, to("create", infrastructure, "metal3remediations"), named("m3"))
		g.Expect(tryCreate(ctx, one, mhc)).To(Succeed(), "permission for this template is enough")
	})
	t.Run("changed reference", func(t *testing.T) {
		g := NewWithT(t)
		written := mhc.DeepCopy()
		written.SetName("written-by-another-user")
		g.Expect(b.API.Create(ctx, written)).To(Succeed())
		change := func(c client.Client, patch string) error {
			return c.Update(ctx, patched(g, written, patch), client.DryRunAll)
		}
		g.Expect(change(unprivileged, "{metadata: {labels: {a: b}, finalizers: [example.com/x]}}")).To(Succeed())
		g.Expect(change(unprivileged, "{spec: {remediationTemplate: {name: other}}}")).To(MatchError(ContainSubstring("metal3remediations")))
		g.Expect(change(unprivileged, "{spec: {remediationTemplate: {kind: FooTemplate}}}")).To(MatchError(ContainSubstring("foos")))
		g.Expect(change(deletes, "{spec: {remediationTemplate: null}}")).To(Succeed(), "the owners remediate")
		g.Expect(change(metal, "{spec: {remediationTemplate: {name: other}}}")).To(Succeed())
	})
	t.Run("extended and reduced", func(t *testing.T) {
		g := NewWithT(t)
		written := patched(g, mhc, "{metadata: {name: extended}, spec: {maxUnhealthy: 40%, maxInFlight: 2, pauseRequests: [a, b]}}")
		g.Expect(b.API.Create(ctx, written)).To(Succeed())
		for _, patch := range []string{
			"{pauseRequests: [c, b, a]}", "{mode: Observe}", "{maxUnhealthy: 40%}", "{maxUnhealthy: 9%}", "{maxInFlight: 1}",
			"{mode: Observe, maxInFlight: 1, pauseRequests: [a, b, c], maxUnhealthy: 0%}",
		} {
			g.Expect(unprivileged.Update(ctx, patched(g, written, "{spec: "+patch+"}"), client.DryRunAll)).To(Succeed(), patch)
		}
		for _, patch := range []string{
			"{pauseRequests: [a, c]}", "{pauseRequests: null}", "{maxUnhealthy: 41%}", "{maxUnhealthy: 1}", "{maxUnhealthy: null}", "{maxInFlight: 3}",
			"{maxInFlight: null}", "{maxInFlight: 1%}", "{selector: {matchLabels: {a: b}}}", "{nodeStartupTimeout: 1m}",
			"{healthyDelay: 1m}", "{mode: Observe, nodeStartupTimeout: 1m}", "{stormCooldownDuration: 1m}", "{unhealthyRange: '[1-3]'}",
		} {
			changed := patched(g, written, "{spec: "+patch+"}")
			g.Expect(unprivileged.Update(ctx, changed.DeepCopy(), client.DryRunAll)).To(MatchError(ContainSubstring(mustCreate)), patch)
			g.Expect(metal.Update(ctx, changed, client.DryRunAll)).To(Succeed(), patch)
		}
		observing := patched(g, mhc, "{metadata: {name: observing}, spec: {mode: Observe}}")
		g.Expect(b.API.Create(ctx, observing)).To(Succeed())
		g.Expect(unprivileged.Update(ctx, patched(g, observing, "{spec: {mode: Enforce}}"), client.DryRunAll)).To(MatchError(ContainSubstring(mustCreate)))
		g.Expect(unprivileged.Update(ctx, patched(g, observing, "{spec: {maxInFlight: 3}}"), client.DryRunAll)).To(Succeed(), "there was no limit")
		g.Expect(unprivileged.Update(ctx, patched(g, observing, "{spec: {maxUnhealthy: 3}}"), client.DryRunAll)).To(
			MatchError(ContainSubstring(mustCreate)), "the default depends on the kind")
	})
	t.Run("irregular plural", func(t *testing.T) {
		g := NewWithT(t)
		proxies, _ := b.may(t, "proxies", writes, to("create", "a.b", "fooproxies"), to("get", "a.b", "fooproxytemplates"))
		check := patched(g, mhc, "{spec: {remediationTemplate: {apiVersion: a.b/v1, kind: FooProxyTemplate}}}")
		plural := func(text string) *unstructured.Unstructured {
			return patched(g, check, "{metadata: {annotations: {remedy.cluster.x-k8s.io/request-plurals: '"+text+"'}}}")
		}
		g.Expect(tryCreate(ctx, proxies, check)).To(MatchError(ContainSubstring("fooproxys.a.b")))
		g.Expect(tryCreate(ctx, proxies, plural("Bar=bars, FooProxy=fooproxies"))).To(Succeed())
		g.Expect(tryCreate(ctx, proxies, plural("XFooProxy=fooproxies"))).To(MatchError(ContainSubstring("fooproxys.a.b")), "the kind must match completely")
		for _, nonsense := range []string{"nonsense", "FooProxy=", "=fooproxies", "FooProxy=fooproxies,FooProxy=others", "FooProxy=Foo Proxies"} {
			g.Expect(tryCreate(ctx, b.API, plural(nonsense))).To(MatchError(ContainSubstring("must list Kind=plural, each kind once")), nonsense)
		}
	})
	t.Run("changed annotation", func(t *testing.T) {
		g := NewWithT(t)
		harmless, _ := b.may(t, "harmless", writes, to("create", "a.b", "harmless"), to("get", "a.b", "thingtemplates"))
		check := patched(g, mhc, "{metadata: {name: by-stealth, annotations: {remedy.cluster.x-k8s.io/request-plurals: Thing=harmless}}, spec: {remediationTemplate: {apiVersion: a.b/v1, kind: ThingTemplate}}}")
		g.Expect(harmless.Create(ctx, check)).To(Succeed())
		for _, then := range []string{"null", "Thing=secrets", "Other=harmless"} {
			g.Expect(harmless.Update(ctx, patched(g, check, "{metadata: {annotations: {remedy.cluster.x-k8s.io/request-plurals: "+then+"}}}"), client.DryRunAll)).
				To(MatchError(ContainSubstring("this check requires permission to create")), then)
		}
		g.Expect(harmless.Update(ctx, patched(g, check, "{metadata: {annotations: {remedy.cluster.x-k8s.io/request-plurals: 'Thing=harmless,Other=others'}}}"), client.DryRunAll)).To(Succeed())
	})
	t.Run("check from before the policy", func(t *testing.T) {
		g := NewWithT(t)
		b.withoutPolicy(t, "remedy-system-templates", func() error {
			stored := patched(g, mhc, "{metadata: {name: stored-before, finalizers: [example.com/x], annotations: {remedy.cluster.x-k8s.io/request-plurals: nonsense}}, spec: {remediationTemplate: {namespace: other}}}")
			return client.IgnoreAlreadyExists(b.API.Create(ctx, stored))
		})
		untilPoliciesWork(g, func() error { return tryCreate(ctx, unprivileged, mhc) }, "this check requires permission to create")
		stored := mhc.DeepCopy()
		stored.SetName("stored-before")
		g.Expect(unprivileged.Get(ctx, client.ObjectKeyFromObject(stored), stored)).To(Succeed())
		g.Expect(unprivileged.Update(ctx, patched(g, stored, "{metadata: {labels: {a: b}}}"), client.DryRunAll)).To(Succeed())
		g.Expect(b.API.Delete(ctx, stored)).To(Succeed())
		g.Expect(unprivileged.Get(ctx, client.ObjectKeyFromObject(stored), stored)).To(Succeed())
		g.Expect(unprivileged.Update(ctx, patched(g, stored, "{metadata: {finalizers: null, annotations: null}}"))).To(Succeed())
		g.Expect(apierrors.IsNotFound(b.API.Get(ctx, client.ObjectKeyFromObject(stored), stored))).To(BeTrue())
	})
	t.Run("other namespace", func(t *testing.T) {
		g := NewWithT(t)
		words := "the template of a MachineHealthCheck must be in the namespace of the check: remove its namespace"
		g.Expect(tryCreate(ctx, b.API, patched(g, mhc, "{spec: {remediationTemplate: {namespace: other}}}"))).To(MatchError(ContainSubstring(words)))
		g.Expect(tryCreate(ctx, b.API, patched(g, mhc, "{spec: {remediationTemplate: {namespace: default}}}"))).To(Succeed())
		g.Expect(tryCreate(ctx, b.API, nhc)).To(Succeed(), "a NodeHealthCheck has no namespace")
	})
}

func machine(name string) *unstructured.Unstructured {
	m := &unstructured.Unstructured{}
	m.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	m.SetKind("Machine")
	m.SetNamespace("default")
	m.SetName(name)
	m.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "prod-1"})
	m.Object["spec"] = map[string]any{
		"clusterName":       "prod-1",
		"bootstrap":         map[string]any{"dataSecretName": "x"},
		"infrastructureRef": map[string]any{"apiGroup": infrastructure, "kind": "DevMachine", "name": name},
	}
	return m
}

const (
	byHand             = "{metadata: {annotations: {cluster.x-k8s.io/remediate-machine: ''}}}"
	notAllowedToDelete = "you are not allowed to delete machines.cluster.x-k8s.io in namespace default"
)

func TestManualRemediationPolicy_NoDeletePermission_Warns(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	editor, warned := b.may(t, "editor", to("get,create,update,patch", "cluster.x-k8s.io", "machines"))
	owner, ownerWarnings := b.may(t, "owner", to("get,create,update,patch,delete", "cluster.x-k8s.io", "machines"))
	ctx := t.Context()
	m := machine("machine-1")
	g.Expect(b.API.Create(ctx, m)).To(Succeed())
	ask := func(c client.Client) error { return c.Update(ctx, patched(g, m, byHand), client.DryRunAll) }

	g.Eventually(func() string {
		g.Expect(ask(editor)).To(Succeed(), "the policy only warns")
		return warned.take()
	}).Should(ContainSubstring(notAllowedToDelete))
	g.Eventually(b.audited).
		Should(And(ContainSubstring("validation.policy.admission.k8s.io/validation_failure"), ContainSubstring("remedy-system-manual-remediation")))
	g.Expect(ask(owner)).To(Succeed())
	g.Expect(ownerWarnings.take()).To(BeEmpty())
	named, namedWarnings := b.may(t, "owner-of-one", to("get,create,update,patch", "cluster.x-k8s.io", "machines"),
		rbacv1.PolicyRule{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"machines"}, ResourceNames: []string{"machine-1"}, Verbs: []string{"delete"}})
	g.Expect(ask(named)).To(Succeed())
	g.Expect(namedWarnings.take()).To(BeEmpty(), "permission for this Machine is enough")

	g.Expect(tryCreate(ctx, editor, patched(g, machine("machine-2"), byHand))).To(Succeed())
	g.Expect(warned.take()).To(ContainSubstring(notAllowedToDelete), "also on creation")

	g.Expect(editor.Update(ctx, patched(g, m, "{metadata: {labels: {a: b}}}"), client.DryRunAll)).To(Succeed())
	g.Expect(warned.take()).To(BeEmpty(), "the policy ignores other changes")
	marked := patched(g, m, byHand)
	g.Expect(b.API.Update(ctx, marked)).To(Succeed())
	g.Expect(editor.Update(ctx, patched(g, marked, "{metadata: {labels: {a: b}}}"), client.DryRunAll)).To(Succeed())
	g.Expect(warned.take()).To(BeEmpty(), "the annotation is not new")
}

func TestDenyComponent_NoDeletePermission_DeniesRemediation(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	b.deny(t)
	editor, _ := b.may(t, "editor", to("get,create,update,patch", "cluster.x-k8s.io", "machines"))
	owner, _ := b.may(t, "owner", to("get,create,update,patch,delete", "cluster.x-k8s.io", "machines"))
	ctx := t.Context()
	m := machine("machine-1")
	g.Expect(b.API.Create(ctx, m)).To(Succeed())
	untilPoliciesWork(g, func() error { return editor.Update(ctx, patched(g, m, byHand), client.DryRunAll) }, notAllowedToDelete)
	g.Expect(owner.Update(ctx, patched(g, m, byHand), client.DryRunAll)).To(Succeed())
	g.Expect(editor.Update(ctx, patched(g, m, "{metadata: {labels: {a: b}}}"), client.DryRunAll)).To(Succeed())
}

func TestOwnerRemediationPolicy_NoDeletePermission_IsDenied(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	ctx := t.Context()
	tenant, warned := b.may(t, "tenant", to("get,create,update,patch", checks, checkResources), to("create", infrastructure, "metal3remediations"), readsMetal, writesCore)
	platform, _ := b.may(t, "platform", to("get,create,update,patch", checks, checkResources), to("delete", "cluster.x-k8s.io", "machines"), to("create", infrastructure, "metal3remediations"), readsMetal)
	byOwner := patched(g, example(t, machinesMinimal), "{spec: {remediationTemplate: null}}")
	words := "with this check, owners delete Machines, but " + notAllowedToDelete
	untilPoliciesWork(g, func() error { return tryCreate(ctx, tenant, byOwner) }, words)
	g.Expect(tryCreate(ctx, tenant, example(t, machinesEscalate))).To(MatchError(ContainSubstring(words)), "the last step is owner remediation")
	g.Expect(tryCreate(ctx, tenant, example(t, machinesMinimal))).To(Succeed(), "a template needs no permission to delete Machines")
	warned.take()
	g.Expect(tryCreate(ctx, tenant, patched(g, adoptedCheck(g), "{spec: {remediation: null}}"))).To(Succeed(), "in-tree checks are not matched")
	g.Expect(warned.take()).To(BeEmpty())
	g.Expect(tryCreate(ctx, platform, byOwner)).To(Succeed())
	g.Expect(b.API.Create(ctx, byOwner)).To(Succeed())
	change := func(c client.Client, patch string) error {
		return c.Update(ctx, patched(g, byOwner, patch), client.DryRunAll)
	}
	g.Expect(change(tenant, "{metadata: {labels: {a: b}}, spec: {mode: Observe, pauseRequests: [a], maxInFlight: 1}}")).To(Succeed())
	for _, patch := range []string{"{selector: {matchLabels: {a: b}}}", "{maxUnhealthy: 1}", "{mode: Observe, nodeStartupTimeout: 1m}"} {
		g.Expect(change(tenant, "{spec: "+patch+"}")).To(MatchError(ContainSubstring(words)), patch)
		g.Expect(change(platform, "{spec: "+patch+"}")).To(Succeed(), patch)
	}
	template := example(t, machinesMinimal)
	g.Expect(b.API.Create(ctx, withName(template, "template"))).To(Succeed())
	g.Expect(tenant.Update(ctx, patched(g, template, "{spec: {remediationTemplate: null}}"), client.DryRunAll)).To(MatchError(ContainSubstring(words)))
}
