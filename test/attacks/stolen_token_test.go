// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package attacks_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

const (
	someMachine = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: m-1, namespace: team-a, labels: {cluster.x-k8s.io/cluster-name: prod}}
spec:
  clusterName: prod
  bootstrap: {dataSecretName: x}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3Machine, name: m-1}`
	machineStatus = `
status:
  phase: Running
  conditions:
  - {type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: HealthCheckSucceeded, status: "True", reason: HealthCheckSucceeded, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
  deprecated:
    v1beta1:
      conditions:
      - {type: Ready, status: "True", lastTransitionTime: "2026-01-01T00:00:00Z"}
      - {type: HealthCheckSucceeded, status: "True", lastTransitionTime: "2026-01-01T00:00:00Z"}`
	someCluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod, namespace: team-a}
spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3Cluster, name: prod}}`
	inTreeCheck = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: core, namespace: team-a, finalizers: [example.com/keep], annotations: {example.com/a: b}, labels: {a: b}}
spec:
  clusterName: prod
  selector: {matchLabels: {pool: workers}}
  remediation: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3RemediationTemplate, name: m3}}`
)

// The manager may patch the status of a Machine: owners act on its conditions, and so do users and other controllers.
func TestStolenToken_MachineStatus_OnlyOwnConditions(t *testing.T) {
	g := installed(t)
	ctx := t.Context()
	machine := object(g, someMachine)
	g.Expect(plane.API.Create(ctx, machine)).To(Succeed())
	g.Expect(plane.API.Status().Patch(ctx, machine, merge(machineStatus))).To(Succeed())
	thief := stolenToken(t)
	const transition = `lastTransitionTime: "2026-01-02T00:00:00Z"}`
	const older = `{status: {deprecated: {v1beta1: {conditions: [`
	modern := func(condition string) string {
		return `{status: {conditions: [{type: Ready, status: "True", reason: Ready, message: "", ` +
			`lastTransitionTime: "2026-01-01T00:00:00Z"}, ` + condition + `]}}`
	}
	for attack, change := range map[string]string{
		"nodeRef":               "{status: {nodeRef: {name: other}}}",
		"phase":                 "{status: {phase: Failed}}",
		"phase removed":         "{status: {phase: null}}",
		"failureMessage":        "{status: {deprecated: {v1beta1: {failureMessage: x}}}}",
		"condition of an owner": modern(`{type: EtcdMemberHealthy, status: "False", reason: x, message: "", ` + transition),
		"condition changed":     `{status: {conditions: [{type: Ready, status: "False", reason: x, message: "", ` + transition + `]}}`,
		"conditions removed":    `{status: {conditions: [{type: OwnerRemediated, status: "False", reason: x, message: "", ` + transition + `]}}`,
		"v1beta1 condition":     older + `{type: Ready, status: "False", severity: Error, ` + transition + `]}}}}`,
	} {
		refused(t, "stolen token, status of a Machine, "+attack, patchStatus(ctx, thief, machine, change))
	}
	for _, kind := range []string{"HealthCheckSucceeded", "OwnerRemediated", "ExternallyRemediated"} {
		condition := `{type: ` + kind + `, status: "False", reason: x, message: "", ` + transition
		g.Expect(patchStatus(ctx, thief, machine, modern(condition))).To(Succeed(), kind)
	}
	g.Expect(patchStatus(ctx, thief, machine, older+`{type: Ready, status: "True", lastTransitionTime: "2026-01-01T00:00:00Z"}, `+
		`{type: OwnerRemediated, status: "False", severity: Warning, `+transition+`]}}}}`)).To(Succeed())
}

// The manager may patch checks: garbage collection deletes a check with an owner that does not exist, and other controllers depend on
// finalizers, annotations and labels.
func TestStolenToken_CheckMetadata_OnlyOwn(t *testing.T) {
	g := installed(t)
	ctx := t.Context()
	cluster := object(g, someCluster)
	g.Expect(plane.API.Create(ctx, cluster)).To(Succeed())
	thief := stolenToken(t)
	owner := func(kind, name, uid string) string {
		return "{metadata: {ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: " + kind + ", name: " + name + ", uid: " + uid + "}]}}"
	}
	for _, check := range []*unstructured.Unstructured{object(g, inTreeCheck), object(g, metal3Check)} {
		g.Expect(plane.API.Create(ctx, check)).To(Succeed())
		of := "stolen token, " + check.GetAPIVersion() + ", "
		wrongUID := owner("Cluster", "prod", "a")
		g.Eventually(func() error { return patch(ctx, thief, check, wrongUID) }).ShouldNot(Succeed(), "the API server has read the Cluster")
		for attack, change := range map[string]string{
			"owner with another UID": wrongUID, "another Cluster": owner("Cluster", "other", "a"), "another kind": owner("MachineSet", "prod", "a"),
			"foreign finalizer":    "{metadata: {finalizers: [example.com/other]}}",
			"foreign annotation":   "{metadata: {annotations: {example.com/a: c}}}",
			"adoption":             "{metadata: {annotations: {" + remedyv1.AdoptAnnotation + ": 'true'}}}",
			"plural":               "{metadata: {annotations: {remedy.cluster.x-k8s.io/request-plurals: Metal3Remediation=secrets}}}",
			"pause by another":     "{metadata: {annotations: {cluster.x-k8s.io/paused: ''}}}",
			"label":                "{metadata: {labels: {a: c}}}",
			"label of a Cluster":   "{metadata: {labels: {cluster.x-k8s.io/cluster-name: other}}}",
			"spec":                 "{spec: {selector: {matchLabels: {pool: other}}}}",
			"label of a topology":  "{metadata: {labels: {topology.cluster.x-k8s.io/owned: ''}}}",
			"owner and finalizers": "{metadata: {finalizers: [remedy.cluster.x-k8s.io/cleanup, example.com/x]}}",
		} {
			refused(t, of+attack, patch(ctx, thief, check, change))
		}
		refused(t, of+"deletion", thief.Delete(ctx, check.DeepCopy(), client.DryRunAll))
		for _, change := range []string{
			owner("Cluster", "prod", string(cluster.GetUID())),
			"{metadata: {annotations: {cluster.x-k8s.io/paused: remedy.cluster.x-k8s.io, " + remedyv1.AdoptionIDAnnotation + ": x}, " +
				"labels: {cluster.x-k8s.io/cluster-name: prod}, finalizers: [" + keep(check) + "remedy.cluster.x-k8s.io/cleanup]}}",
		} {
			g.Expect(patch(ctx, thief, check, change)).To(Succeed(), change)
		}
		g.Expect(plane.API.Patch(ctx, check, merge("{metadata: {annotations: {cluster.x-k8s.io/paused: ''}}}"))).To(Succeed())
		refused(t, of+"pause of a user removed", patch(ctx, thief, check, "{metadata: {annotations: {cluster.x-k8s.io/paused: null}}}"))
	}
}

// keep is the beginning of a list with the finalizers that a check has.
func keep(check *unstructured.Unstructured) string {
	list := ""
	for _, one := range check.GetFinalizers() {
		list += one + ", "
	}
	return list
}

// Everything else that a thief would like to do has no permission.
func TestStolenToken_OtherRequests_AreForbidden(t *testing.T) {
	g := installed(t)
	ctx := t.Context()
	machine := object(g, someMachine)
	g.Expect(plane.API.Create(ctx, machine)).To(Succeed())
	thief := stolenToken(t)
	refused(t, "stolen token, list of Secrets", thief.List(ctx, &corev1.SecretList{}))
	refused(t, "stolen token, deletion of a Machine", thief.Delete(ctx, machine.DeepCopy(), client.DryRunAll))
	refused(t, "stolen token, spec of a Machine", patch(ctx, thief, machine, "{spec: {providerID: x}}"))
	byHand := "{metadata: {annotations: {cluster.x-k8s.io/remediate-machine: ''}}}"
	refused(t, "stolen token, manual remediation", patch(ctx, thief, machine, byHand))
	refused(t, "stolen token, new check", thief.Create(ctx, object(g, metal3Check), client.DryRunAll))
}
