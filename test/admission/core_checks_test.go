// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"encoding/pem"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // that checks are still written in that version is what it is about
	coreconversion "sigs.k8s.io/cluster-api/core/webhooks/conversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
	"sigs.k8s.io/yaml"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

const cluster = "cluster.x-k8s.io"

// installCoreChecks installs the definition of in-tree checks, and a server that converts between its versions with Cluster API's code.
func installCoreChecks(_ context.Context, e *testenv.Environment) error {
	scheme := testenv.NewScheme()
	utilruntime.Must(clusterv1beta1.AddToScheme(scheme))
	converter, err := coreconversion.MachineHealthCheck(scheme)
	if err != nil {
		return err
	}
	registry := conversion.NewRegistry()
	if err := registry.RegisterConverter(schema.GroupKind{Group: cluster, Kind: "MachineHealthCheck"}, converter); err != nil {
		return err
	}
	crd, err := testenv.ClusterAPIKind("machinehealthchecks")
	if err != nil {
		return err
	}
	server := httptest.NewTLSServer(conversion.NewWebhookHandler(scheme, registry))
	testenv.AtEnd(server.Close)
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			ConversionReviewVersions: []string{"v1"},
		},
	}
	return e.InstallCRDObjects(crd)
}

// adoptedCheck returns an in-tree check with a template that requests adoption. adoptedV1beta1Check returns the same check in the older version.
func adoptedCheck(g Gomega) *unstructured.Unstructured {
	return parsed(g, `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: core, namespace: default, annotations: {`+remedyv1.AdoptAnnotation+`: "true"}}
spec:
  clusterName: prod-1
  selector: {matchLabels: {nodepool: nodepool-0}}
  remediation: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3RemediationTemplate, name: m3}}`)
}

func adoptedV1beta1Check(g Gomega) *unstructured.Unstructured {
	return parsed(g, `
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineHealthCheck
metadata: {name: core, namespace: default, annotations: {`+remedyv1.AdoptAnnotation+`: "true"}}
spec:
  clusterName: prod-1
  selector: {matchLabels: {nodepool: nodepool-0}}
  remediationTemplate: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3RemediationTemplate, name: m3}`)
}

func parsed(g Gomega, text string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	g.Expect(yaml.Unmarshal([]byte(text), &object.Object)).To(Succeed())
	return object
}

const (
	noAdoption       = "{metadata: {annotations: {" + remedyv1.AdoptAnnotation + ": null}}}"
	adoptionDeclined = "{metadata: {annotations: {" + remedyv1.AdoptAnnotation + ": 'false'}}}"
	mustCreate       = "this check requires permission to create metal3remediations.infrastructure.cluster.x-k8s.io and to get metal3remediationtemplates"
)

var writesCore = to("get,create,update,patch", cluster, "machinehealthchecks")

// stored creates a check as a user with all permissions.
func (b *bench) stored(t *testing.T, name, patch string) *unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	written := patched(g, adoptedCheck(g), patch)
	written.SetName(name)
	g.Expect(b.API.Create(t.Context(), written)).To(Succeed())
	return written
}

func TestTemplatesPolicy_AdoptedCheck_NeedsCreatePermission(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	unprivileged, _ := b.may(t, "unprivileged", writesCore)
	metal, _ := b.may(t, "metal", writesCore, to("create", infrastructure, "metal3remediations"), readsMetal)
	ctx := t.Context()
	core := adoptedCheck(g)
	untilPoliciesWork(g, func() error { return tryCreate(ctx, unprivileged, core) }, mustCreate)

	t.Run("create in both versions", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(tryCreate(ctx, metal, core)).To(Succeed())
		g.Expect(tryCreate(ctx, unprivileged, adoptedV1beta1Check(g))).To(MatchError(ContainSubstring(mustCreate)))
		g.Expect(tryCreate(ctx, metal, adoptedV1beta1Check(g))).To(Succeed())
		elsewhere := patched(g, adoptedV1beta1Check(g), "{spec: {remediationTemplate: {namespace: other}}}")
		g.Expect(tryCreate(ctx, metal, elsewhere)).To(Succeed(), "Cluster API and Remedy ignore a namespace there")
	})
	t.Run("check without adoption", func(t *testing.T) {
		g := NewWithT(t)
		for _, patch := range []string{noAdoption, adoptionDeclined, "{metadata: {annotations: null}}"} {
			g.Expect(tryCreate(ctx, unprivileged, patched(g, core, patch))).To(Succeed(), patch)
			g.Expect(tryCreate(ctx, unprivileged, patched(g, adoptedV1beta1Check(g), patch))).To(Succeed(), patch)
		}
		g.Expect(tryCreate(ctx, unprivileged, patched(g, core, "{metadata: {annotations: {"+remedyv1.AdoptAnnotation+": null, remedy.cluster.x-k8s.io/request-plurals: nonsense}}}"))).To(Succeed())
		g.Expect(tryCreate(ctx, unprivileged, patched(g, core, "{spec: {remediation: null}}"))).To(Succeed(), "a check without a template needs no permission")
		g.Expect(tryCreate(ctx, unprivileged, patched(g, adoptedV1beta1Check(g), "{spec: {remediationTemplate: null}}"))).To(Succeed())
	})
	t.Run("adoption requested for an existing check", func(t *testing.T) {
		g := NewWithT(t)
		for name, before := range map[string]string{"not-requested": noAdoption, "declined": adoptionDeclined, "no-annotations": "{metadata: {annotations: null}}"} {
			there := b.stored(t, name, before)
			asking := patched(g, there, "{metadata: {annotations: {"+remedyv1.AdoptAnnotation+": 'true'}}}")
			g.Expect(unprivileged.Update(ctx, asking, client.DryRunAll)).To(MatchError(ContainSubstring(mustCreate)), name)
			g.Expect(metal.Update(ctx, asking.DeepCopy(), client.DryRunAll)).To(Succeed(), name)
			g.Expect(unprivileged.Update(ctx, patched(g, there, "{spec: {remediation: {templateRef: {name: other}}}}"), client.DryRunAll)).To(Succeed(), name)
		}
	})
	t.Run("changed reference", func(t *testing.T) {
		g := NewWithT(t)
		there := b.stored(t, "there", "{}")
		change := func(c client.Client, patch string) error {
			return c.Update(ctx, patched(g, there, patch), client.DryRunAll)
		}
		handed := "{metadata: {annotations: {cluster.x-k8s.io/paused: remedy.cluster.x-k8s.io, " + remedyv1.AdoptionIDAnnotation + ": x}, finalizers: [remedy.cluster.x-k8s.io/cleanup], labels: {a: b}}}"
		g.Expect(change(unprivileged, handed)).To(Succeed())
		for _, patch := range []string{
			"{checks: {nodeStartupTimeoutSeconds: 600}}", "{selector: {matchLabels: {other: pool}}}", "{remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 1}}}",
		} {
			g.Expect(change(unprivileged, "{spec: "+patch+"}")).To(MatchError(ContainSubstring(mustCreate)), patch)
			g.Expect(change(metal, "{spec: "+patch+"}")).To(Succeed(), patch)
		}
		g.Expect(change(unprivileged, "{spec: {remediation: null}}")).To(Succeed(), "removing a template needs no permission")
		g.Expect(change(unprivileged, noAdoption)).To(Succeed(), "canceling the adoption needs no permission")
		g.Expect(change(unprivileged, "{spec: {remediation: {templateRef: {name: other}}}}")).To(MatchError(ContainSubstring(mustCreate)))
		g.Expect(change(unprivileged, "{spec: {remediation: {templateRef: {kind: FooTemplate}}}}")).To(MatchError(ContainSubstring("foos." + infrastructure)))
		g.Expect(change(unprivileged, "{spec: {remediation: {templateRef: {apiVersion: a.b/v1}}}}")).To(MatchError(ContainSubstring("metal3remediations.a.b")))
		g.Expect(change(metal, "{spec: {remediation: {templateRef: {name: other}}}}")).To(Succeed())
		// GitOps applies the check again, in the version of its manifests.
		again := adoptedV1beta1Check(g)
		g.Expect(unprivileged.Get(ctx, client.ObjectKeyFromObject(there), withName(again, "there"))).To(Succeed())
		g.Expect(unprivileged.Update(ctx, patched(g, again, "{metadata: {labels: {a: b}}}"), client.DryRunAll)).To(Succeed())
		g.Expect(unprivileged.Update(ctx, patched(g, again, "{spec: {remediationTemplate: {name: other}}}"), client.DryRunAll)).To(MatchError(ContainSubstring(mustCreate)))
	})
	t.Run("irregular plural", func(t *testing.T) {
		g := NewWithT(t)
		harmless, _ := b.may(t, "harmless", writesCore, to("create", "a.b", "harmless"), to("get", "a.b", "thingtemplates"))
		plural := func(of *unstructured.Unstructured, text string) *unstructured.Unstructured {
			return patched(g, of, "{metadata: {annotations: {remedy.cluster.x-k8s.io/request-plurals: '"+text+"'}}}")
		}
		thing := patched(g, core, "{spec: {remediation: {templateRef: {apiVersion: a.b/v1, kind: ThingTemplate}}}}")
		g.Expect(tryCreate(ctx, harmless, thing)).To(MatchError(ContainSubstring("things.a.b")))
		g.Expect(tryCreate(ctx, harmless, plural(thing, "Thing=harmless"))).To(Succeed())
		for _, nonsense := range []string{"nonsense", "Thing=", "Thing=harmless,Thing=others"} {
			g.Expect(tryCreate(ctx, b.API, plural(thing, nonsense))).To(MatchError(ContainSubstring("must list Kind=plural, each kind once")), nonsense)
		}
		there := b.stored(t, "by-stealth", "{metadata: {annotations: {remedy.cluster.x-k8s.io/request-plurals: Thing=harmless}}, spec: {remediation: {templateRef: {apiVersion: a.b/v1, kind: ThingTemplate}}}}")
		for _, then := range []string{"null", "Thing=secrets", "Other=harmless"} {
			g.Expect(harmless.Update(ctx, patched(g, there, "{metadata: {annotations: {remedy.cluster.x-k8s.io/request-plurals: "+then+"}}}"), client.DryRunAll)).
				To(MatchError(ContainSubstring("this check requires permission to create")), then)
		}
		g.Expect(harmless.Update(ctx, plural(there, "Thing=harmless,Other=others"), client.DryRunAll)).To(Succeed())
		untouched := b.stored(t, "nonsense-before", "{metadata: {annotations: {"+remedyv1.AdoptAnnotation+": null, remedy.cluster.x-k8s.io/request-plurals: nonsense}}}")
		g.Expect(metal.Update(ctx, patched(g, untouched, "{metadata: {annotations: {"+remedyv1.AdoptAnnotation+": 'true'}}}"), client.DryRunAll)).
			To(MatchError(ContainSubstring("must list Kind=plural")), "the annotation applies from now on")
	})
	t.Run("incomplete reference", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(tryCreate(ctx, unprivileged, patched(g, core, "{spec: {remediation: {templateRef: {kind: Foo}}}}"))).To(MatchError(ContainSubstring("foos." + infrastructure)))
		b.stored(t, "no-template", "{spec: {remediation: {templateRef: {kind: Foo}}}}")
		odd := patched(g, adoptedV1beta1Check(g), "{metadata: {name: odd}, spec: {remediationTemplate: {apiVersion: null, kind: null}}}")
		g.Expect(unprivileged.Create(ctx, odd)).To(Succeed(), "only a name")
		g.Expect(unprivileged.Update(ctx, patched(g, odd, "{metadata: {labels: {a: b}}}"), client.DryRunAll)).To(Succeed())
	})
	t.Run("check that is being deleted", func(t *testing.T) {
		g := NewWithT(t)
		deleted := b.stored(t, "being-deleted", "{metadata: {annotations: {remedy.cluster.x-k8s.io/request-plurals: Thing=harmless}, finalizers: [remedy.cluster.x-k8s.io/cleanup]}}")
		g.Expect(b.API.Delete(ctx, deleted)).To(Succeed())
		g.Expect(unprivileged.Get(ctx, client.ObjectKeyFromObject(deleted), deleted)).To(Succeed())
		g.Expect(unprivileged.Update(ctx, patched(g, deleted, "{metadata: {finalizers: null, annotations: {remedy.cluster.x-k8s.io/request-plurals: nonsense}}}"))).To(Succeed())
	})
}

func withName(object *unstructured.Unstructured, name string) *unstructured.Unstructured {
	object.SetName(name)
	return object
}

// fromTopology returns a check as the topology controller of Cluster API applies it: with labels, owner references and the spec, without
// annotations.
func fromTopology(g Gomega, name, template string) *unstructured.Unstructured {
	applied := patched(g, adoptedCheck(g), "{metadata: {name: "+name+", annotations: null, labels: {topology.cluster.x-k8s.io/owned: ''}}, spec: {remediation: {templateRef: {kind: "+template+"}}}}")
	return applied
}

func TestTemplatesPolicy_TopologyController_IsNotDenied(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	// These are the permissions for checks of Cluster API's role. It has none to create requests.
	capi, _ := b.may(t, "system:serviceaccount:capi-system:capi-manager", writesCore, to("get,patch,update", cluster, "machinehealthchecks/status"))
	impostor, _ := b.may(t, "system:serviceaccount:tenant:capi-manager", writesCore)
	namesake, _ := b.may(t, "capi-manager", writesCore, to("get,patch,update", cluster, "machinehealthchecks/status"))
	ctx := t.Context()
	apply := func(c client.Client, object *unstructured.Unstructured, options ...client.ApplyOption) error {
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), append(options, client.FieldOwner("capi-topology"), client.ForceOwnership)...)
	}
	untilPoliciesWork(g, func() error { return tryCreate(ctx, impostor, adoptedCheck(g)) }, mustCreate)
	g.Expect(tryCreate(ctx, namesake, adoptedCheck(g))).To(MatchError(ContainSubstring(mustCreate)), "the user is no ServiceAccount")

	g.Expect(apply(capi, fromTopology(g, "generated", "Metal3RemediationTemplate"))).To(Succeed())
	// The annotation on a Cluster adopts checks with the label of a topology, so the policy applies to them without an annotation.
	g.Expect(apply(impostor, fromTopology(g, "forged", "Metal3RemediationTemplate"), client.DryRunAll)).To(MatchError(ContainSubstring(mustCreate)))
	g.Expect(apply(impostor, fromTopology(g, "generated", "OtherTemplate"), client.DryRunAll)).To(MatchError(ContainSubstring("others." + infrastructure)))
	plain := b.stored(t, "plain", noAdoption)
	g.Expect(impostor.Update(ctx, patched(g, plain, "{metadata: {labels: {topology.cluster.x-k8s.io/owned: ''}}}"), client.DryRunAll)).
		To(MatchError(ContainSubstring(mustCreate)), "the check can be adopted from now on")
	declined := b.stored(t, "declined", "{metadata: {labels: {topology.cluster.x-k8s.io/owned: ''}, annotations: {"+remedyv1.AdoptAnnotation+": 'false'}}}")
	g.Expect(impostor.Update(ctx, patched(g, declined, "{spec: {selector: {matchLabels: {a: b}}}}"), client.DryRunAll)).To(Succeed())
	g.Expect(impostor.Update(ctx, patched(g, declined, noAdoption), client.DryRunAll)).To(MatchError(ContainSubstring(mustCreate)))
	generated := withName(adoptedCheck(g), "generated")
	g.Expect(b.API.Get(ctx, client.ObjectKeyFromObject(generated), generated)).To(Succeed())
	asked := patched(g, generated, "{metadata: {annotations: {"+remedyv1.AdoptAnnotation+": 'true', cluster.x-k8s.io/paused: remedy.cluster.x-k8s.io}}}")
	g.Expect(b.API.Update(ctx, asked)).To(Succeed())

	changed := fromTopology(g, "generated", "OtherTemplate")
	g.Expect(apply(impostor, changed, client.DryRunAll)).To(MatchError(ContainSubstring("others." + infrastructure)))
	g.Expect(apply(capi, changed)).To(Succeed())
	g.Expect(b.API.Get(ctx, client.ObjectKeyFromObject(generated), generated)).To(Succeed())
	g.Expect(generated.GetAnnotations()).To(And(HaveKeyWithValue(remedyv1.AdoptAnnotation, "true"), HaveKey("cluster.x-k8s.io/paused")),
		"the topology controller keeps annotations of other field managers")
}

func TestManagerPolicy_CheckDeletedOrSpecChanged_IsDenied(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	everything := to("*", "*", "*")
	manager := b.manager(t)
	namesake, _ := b.may(t, "system:serviceaccount:elsewhere:remedy-manager", everything)
	other, _ := b.may(t, "other", everything)
	person, _ := b.may(t, "a-person:renamed", everything)
	ctx := t.Context()
	own := example(t, machinesMinimal)
	g.Expect(b.API.Create(ctx, own)).To(Succeed())
	for _, check := range []*unstructured.Unstructured{b.stored(t, "core", "{}"), own} {
		of := check.GetAPIVersion()
		remove := func(c client.Client) error { return c.Delete(ctx, check.DeepCopy(), client.DryRunAll) }
		change := func(c client.Client, patch string) error {
			return c.Update(ctx, patched(g, check, patch), client.DryRunAll)
		}
		untilPoliciesWork(g, func() error { return remove(manager) }, "does not delete checks")
		g.Expect(change(manager, "{spec: {selector: {matchLabels: {a: b}}}}")).To(MatchError(ContainSubstring("does not change specs")), of)
		g.Expect(change(manager, "{metadata: {annotations: {cluster.x-k8s.io/paused: remedy.cluster.x-k8s.io}, labels: {cluster.x-k8s.io/cluster-name: prod-1}, finalizers: [remedy.cluster.x-k8s.io/cleanup], "+
			"ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, name: prod-1, uid: a}]}}")).To(Succeed(), of)
		g.Expect(manager.Status().Update(ctx, patched(g, check, "{status: {expectedMachines: 3}}"), client.DryRunAll)).To(Succeed(), of)
		for _, c := range []client.Client{other, person, namesake} {
			g.Expect(remove(c)).To(Succeed(), of)
			g.Expect(change(c, "{spec: {selector: {matchLabels: {a: b}}}}")).To(Succeed(), of)
		}
	}
}

func TestTakeOverPolicy_UnknownValue_Warns(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	editor, warned := b.may(t, "editor", writesCore)
	ctx := t.Context()
	there := b.stored(t, "existing", noAdoption)
	warningFor := func(value string) string {
		g.Expect(editor.Update(ctx, patched(g, there, "{metadata: {annotations: {"+remedyv1.AdoptAnnotation+": "+value+"}}}"), client.DryRunAll)).To(Succeed(), "the policy only warns")
		return warned.take()
	}
	g.Eventually(func() string { return warningFor("'yes'") }).Should(ContainSubstring(`has the unknown value "yes", which is ignored: set "true" or "false"`))
	for _, value := range []string{"'True'", "''", "on-monday"} {
		g.Expect(warningFor(value)).To(ContainSubstring("which is ignored"), value)
	}
	for _, value := range []string{"'false'", "null"} {
		g.Expect(warningFor(value)).To(BeEmpty(), value)
	}
	g.Expect(tryCreate(ctx, editor, patched(g, adoptedCheck(g), "{metadata: {name: new, annotations: {"+remedyv1.AdoptAnnotation+": 'yes'}}}"))).To(Succeed())
	g.Expect(warned.take()).To(ContainSubstring("which is ignored"), "also on creation")
	old := b.stored(t, "old", "{metadata: {annotations: {"+remedyv1.AdoptAnnotation+": 'yes'}}}")
	g.Expect(editor.Update(ctx, patched(g, old, "{metadata: {labels: {a: b}}}"), client.DryRunAll)).To(Succeed())
	g.Expect(warned.take()).To(BeEmpty(), "the value is not new")
}

// The annotation on a Cluster applies to the checks that its topology generates.
func TestTakeOverPolicy_ClusterWithoutTopology_Warns(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	editor, warned := b.may(t, "editor", to("create", cluster, "clusters"))
	classless := parsed(g, `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod-1, namespace: default, annotations: {`+remedyv1.AdoptAnnotation+`: "true"}}
spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevCluster, name: prod-1}}`)
	warningFor := func(patch string) string {
		g.Expect(tryCreate(t.Context(), editor, patched(g, classless, patch))).To(Succeed(), "the policy only warns")
		return warned.take()
	}
	g.Eventually(func() string { return warningFor("{}") }).Should(ContainSubstring("this Cluster has no topology: annotate each MachineHealthCheck instead"))
	g.Expect(warningFor("{spec: {topology: {classRef: {name: quick-start}, version: v1.35.0}}}")).To(BeEmpty())
	g.Expect(warningFor("{metadata: {annotations: {" + remedyv1.AdoptAnnotation + ": 'false'}}}")).To(BeEmpty())
}
