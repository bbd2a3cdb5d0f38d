// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const metal3Check = `
apiVersion: remedy.cluster.x-k8s.io/v1alpha1
kind: MachineHealthCheck
metadata: {name: reboot, namespace: team-a}
spec:
  clusterName: prod
  selector: {matchLabels: {pool: workers}}
  unhealthyConditions: [{type: Ready, status: Unknown, timeout: 5m}]
  maxUnhealthy: 40%
  remediationTemplate: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3RemediationTemplate, name: m3}`

var (
	writesChecks   = rule("create,get,patch,update", "remedy.cluster.x-k8s.io", "machinehealthchecks")
	createsMetal3  = rule("create", "infrastructure.cluster.x-k8s.io", "metal3remediations")
	readsTemplates = rule("get", "infrastructure.cluster.x-k8s.io", "metal3remediationtemplates")
)

// A tenant that may write checks, but not create requests, changes a check of an administrator until it selects healthy Machines.
func TestTemplateDeputy_CheckOfAdministrator_IsDenied(t *testing.T) {
	g := installed(t)
	ctx := t.Context()
	check := object(g, metal3Check)
	g.Expect(plane.API.Create(ctx, check)).To(Succeed())
	attacker := tenant(t, teamA, writesChecks)
	for attack, change := range map[string]string{
		"conditions":         "{spec: {unhealthyMachineConditions: [{type: InfrastructureReady, status: 'True', timeout: 0s}]}}",
		"limit raised":       "{spec: {maxUnhealthy: 100%}}",
		"selector":           "{spec: {selector: {matchLabels: {pool: other}}}}",
		"timeout":            "{spec: {unhealthyConditions: [{type: Ready, status: Unknown, timeout: 0s}]}}",
		"limit removed":      "{spec: {maxUnhealthy: null}}",
		"limit as a number":  "{spec: {maxUnhealthy: 1}}",
		"pause and selector": "{spec: {pauseRequests: [x], selector: {matchLabels: {pool: other}}}}",
	} {
		refused(t, "template of another user, "+attack, patch(ctx, attacker, check, change))
	}
	for what, change := range map[string]string{
		"pause": "{spec: {pauseRequests: [upgrade]}}", "Observe": "{spec: {mode: Observe}}", "lower limit": "{spec: {maxUnhealthy: 9%}}",
		"no template in flight": "{spec: {maxInFlight: 1}}", "label": "{metadata: {labels: {a: b}}}",
	} {
		g.Expect(patch(ctx, attacker, check, change)).To(Succeed(), what)
	}
}

const recorded = `
metadata:
  finalizers: [remedy.cluster.x-k8s.io/cleanup]
  annotations:
    remedy.cluster.x-k8s.io/storm-since: "2026-01-01T00:00:00Z"
    remedy.cluster.x-k8s.io/cooldown-since: "2026-01-01T00:05:00Z"
    remedy.cluster.x-k8s.io/replacing: m-1 MachineSet/a
    remedy.cluster.x-k8s.io/request-kinds: Metal3Remediation.v1beta1.infrastructure.cluster.x-k8s.io`

// A tenant that may write checks ends a storm or frees places of maxInFlight, by the annotations in which the manager of an administrator's
// check remembers them.
func TestTemplateDeputy_RecordsOfManager_AreDenied(t *testing.T) {
	g := installed(t)
	ctx := t.Context()
	attacker, manager := tenant(t, teamA, writesChecks), stolenToken(t)
	byOwner := object(g, metal3Check)
	byOwner.SetName("replace")
	delete(byOwner.Object["spec"].(map[string]any), "remediationTemplate")
	for name, check := range map[string]*unstructured.Unstructured{"template": object(g, metal3Check), "owner remediation": byOwner} {
		g.Expect(plane.API.Create(ctx, check)).To(Succeed())
		g.Expect(plane.API.Patch(ctx, check, merge(recorded))).To(Succeed())
		for attack, change := range map[string]string{
			"storm ended":            "{metadata: {annotations: {remedy.cluster.x-k8s.io/storm-since: null}}}",
			"storm ends earlier":     "{metadata: {annotations: {remedy.cluster.x-k8s.io/cooldown-since: '2020-01-01T00:00:00Z'}}}",
			"replacements forgotten": "{metadata: {annotations: {remedy.cluster.x-k8s.io/replacing: null}}}",
			"kinds forgotten":        "{metadata: {annotations: {remedy.cluster.x-k8s.io/request-kinds: ''}}}",
			"kinds added":            "{metadata: {annotations: {remedy.cluster.x-k8s.io/request-kinds: 'A.v1.b,C.v1.d'}}}",
			"no finalizer":           "{metadata: {finalizers: []}}",
		} {
			refused(t, "check of another user with "+name+", "+attack, patch(ctx, attacker, check, change))
			g.Expect(patch(ctx, manager, check, change)).To(Succeed(), attack)
		}
		g.Expect(patch(ctx, attacker, check, "{metadata: {annotations: {a: b}}, spec: {pauseRequests: [upgrade]}}")).To(Succeed())
	}
}

// A tenant that may create requests, but not read templates, has the manager copy a template into a request that the tenant can read.
func TestTemplateDeputy_UnreadableTemplate_IsDenied(t *testing.T) {
	g := installed(t)
	attacker := tenant(t, teamA, writesChecks, createsMetal3)
	refused(t, "template that the user cannot read", attacker.Create(t.Context(), object(g, metal3Check)))
	g.Expect(tenant(t, teamA, writesChecks, createsMetal3, readsTemplates).Create(t.Context(), object(g, metal3Check))).To(Succeed())
}
