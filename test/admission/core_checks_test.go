// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // that checks are still written in that version is what it is about
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	coreconversion "sigs.k8s.io/cluster-api/core/webhooks/conversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
	"sigs.k8s.io/yaml"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

const cluster = "cluster.x-k8s.io"

// installCoreChecks installs Cluster API's own definition, with its own conversion between its versions, which the server returned does.
func installCoreChecks(plane *controlplane.ControlPlane, file string) (*httptest.Server, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clusterv1.AddToScheme(scheme))
	utilruntime.Must(clusterv1beta1.AddToScheme(scheme))
	converter, err := coreconversion.MachineHealthCheck(scheme)
	if err != nil {
		return nil, err
	}
	registry := conversion.NewRegistry()
	if err := registry.RegisterConverter(schema.GroupKind{Group: cluster, Kind: "MachineHealthCheck"}, converter); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(content, crd); err != nil {
		return nil, err
	}
	server := httptest.NewTLSServer(conversion.NewWebhookHandler(scheme, registry))
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			ConversionReviewVersions: []string{"v1"},
		},
	}
	return server, plane.InstallCRDObjects(crd)
}

// takenOver is a check of Cluster API that asks to be taken over and names a template; in the older version it is the same check.
func takenOver(g Gomega) *unstructured.Unstructured {
	return parsed(g, `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: core, namespace: default, annotations: {remedy.cluster.x-k8s.io/take-over: "true"}}
spec:
  clusterName: prod-1
  selector: {matchLabels: {nodepool: nodepool-0}}
  remediation: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3RemediationTemplate, name: m3}}`)
}

func older(g Gomega) *unstructured.Unstructured {
	return parsed(g, `
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineHealthCheck
metadata: {name: core, namespace: default, annotations: {remedy.cluster.x-k8s.io/take-over: "true"}}
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
	noTakeOver  = "{metadata: {annotations: {remedy.cluster.x-k8s.io/take-over: null}}}"
	notTakeOver = "{metadata: {annotations: {remedy.cluster.x-k8s.io/take-over: 'false'}}}"
	mustCreate  = "permission to create all remediation requests of this check is required: metal3remediations.infrastructure.cluster.x-k8s.io in namespace default"
)

var writesCore = to("get,create,update,patch", cluster, "machinehealthchecks")

// stored is a check that somebody with all rights has written.
func (b *bench) stored(t *testing.T, name, patch string) *unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	written := patched(g, takenOver(g), patch)
	written.SetName(name)
	g.Expect(b.admin.Create(t.Context(), written)).To(Succeed())
	return written
}

func TestWhoHasACheckTakenOverMustBeAllowedToCreateItsRequests(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	lesser, _ := b.may(t, "lesser", writesCore)
	metal, _ := b.may(t, "metal", writesCore, to("create", infrastructure, "metal3remediations"))
	ctx := t.Context()
	core := takenOver(g)
	untilPoliciesWork(g, func() error { return tryCreate(ctx, lesser, core) }, mustCreate)

	t.Run("on creation, in either version", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(tryCreate(ctx, metal, core)).To(Succeed())
		g.Expect(tryCreate(ctx, lesser, older(g))).To(MatchError(ContainSubstring(mustCreate)))
		g.Expect(tryCreate(ctx, metal, older(g))).To(Succeed())
		elsewhere := patched(g, older(g), "{spec: {remediationTemplate: {namespace: other}}}")
		g.Expect(tryCreate(ctx, metal, elsewhere)).To(Succeed(), "Cluster API does not heed a namespace there, and neither do we")
	})
	t.Run("what is not taken over is none of our business", func(t *testing.T) {
		g := NewWithT(t)
		for _, patch := range []string{noTakeOver, notTakeOver, "{metadata: {annotations: null}}"} {
			g.Expect(tryCreate(ctx, lesser, patched(g, core, patch))).To(Succeed(), patch)
			g.Expect(tryCreate(ctx, lesser, patched(g, older(g), patch))).To(Succeed(), patch)
		}
		g.Expect(tryCreate(ctx, lesser, patched(g, core, "{metadata: {annotations: {remedy.cluster.x-k8s.io/take-over: null, remedy.cluster.x-k8s.io/request-plurals: nonsense}}}"))).To(Succeed())
		g.Expect(tryCreate(ctx, lesser, patched(g, core, "{spec: {remediation: null}}"))).To(Succeed(), "no template, no right is needed")
		g.Expect(tryCreate(ctx, lesser, patched(g, older(g), "{spec: {remediationTemplate: null}}"))).To(Succeed())
	})
	t.Run("asking for it is what counts, also for a check that was there before", func(t *testing.T) {
		g := NewWithT(t)
		for name, before := range map[string]string{"not-asked": noTakeOver, "refused": notTakeOver, "bare": "{metadata: {annotations: null}}"} {
			there := b.stored(t, name, before)
			asking := patched(g, there, "{metadata: {annotations: {remedy.cluster.x-k8s.io/take-over: 'true'}}}")
			g.Expect(lesser.Update(ctx, asking, client.DryRunAll)).To(MatchError(ContainSubstring(mustCreate)), name)
			g.Expect(metal.Update(ctx, asking.DeepCopy(), client.DryRunAll)).To(Succeed(), name)
			g.Expect(lesser.Update(ctx, patched(g, there, "{spec: {remediation: {templateRef: {name: other}}}}"), client.DryRunAll)).To(Succeed(), name)
		}
	})
	t.Run("when what it leads to changes, and only then", func(t *testing.T) {
		g := NewWithT(t)
		there := b.stored(t, "there", "{}")
		change := func(c client.Client, patch string) error {
			return c.Update(ctx, patched(g, there, patch), client.DryRunAll)
		}
		handed := "{metadata: {annotations: {cluster.x-k8s.io/paused: remedy.cluster.x-k8s.io, remedy.cluster.x-k8s.io/take-over-id: x}, finalizers: [remedy.cluster.x-k8s.io/cleanup], labels: {a: b}}}"
		g.Expect(change(lesser, handed)).To(Succeed())
		g.Expect(change(lesser, "{spec: {checks: {nodeStartupTimeoutSeconds: 600}, selector: {matchLabels: {other: pool}}}}")).To(Succeed())
		g.Expect(change(lesser, "{spec: {remediation: null}}")).To(Succeed(), "taking a template away needs no right")
		g.Expect(change(lesser, noTakeOver)).To(Succeed(), "taking the take-over away needs none, either")
		g.Expect(change(lesser, "{spec: {remediation: {templateRef: {name: other}}}}")).To(MatchError(ContainSubstring(mustCreate)))
		g.Expect(change(lesser, "{spec: {remediation: {templateRef: {kind: FooTemplate}}}}")).To(MatchError(ContainSubstring("foos." + infrastructure)))
		g.Expect(change(lesser, "{spec: {remediation: {templateRef: {apiVersion: a.b/v1}}}}")).To(MatchError(ContainSubstring("metal3remediations.a.b")))
		g.Expect(change(metal, "{spec: {remediation: {templateRef: {name: other}}}}")).To(Succeed())
		// GitOps applies again what is there, in the version that its manifests are in.
		again := older(g)
		g.Expect(lesser.Get(ctx, client.ObjectKeyFromObject(there), withName(again, "there"))).To(Succeed())
		g.Expect(lesser.Update(ctx, patched(g, again, "{metadata: {labels: {a: b}}}"), client.DryRunAll)).To(Succeed())
		g.Expect(lesser.Update(ctx, patched(g, again, "{spec: {remediationTemplate: {name: other}}}"), client.DryRunAll)).To(MatchError(ContainSubstring(mustCreate)))
	})
	t.Run("by a plural that is not regular, and not around it", func(t *testing.T) {
		g := NewWithT(t)
		harmless, _ := b.may(t, "harmless", writesCore, to("create", "a.b", "harmless"))
		plural := func(of *unstructured.Unstructured, text string) *unstructured.Unstructured {
			return patched(g, of, "{metadata: {annotations: {remedy.cluster.x-k8s.io/request-plurals: '"+text+"'}}}")
		}
		thing := patched(g, core, "{spec: {remediation: {templateRef: {apiVersion: a.b/v1, kind: ThingTemplate}}}}")
		g.Expect(tryCreate(ctx, harmless, thing)).To(MatchError(ContainSubstring("things.a.b in namespace default")))
		g.Expect(tryCreate(ctx, harmless, plural(thing, "Thing=harmless"))).To(Succeed())
		for _, nonsense := range []string{"nonsense", "Thing=", "Thing=harmless,Thing=others"} {
			g.Expect(tryCreate(ctx, b.admin, plural(thing, nonsense))).To(MatchError(ContainSubstring("must list Kind=plural, each kind once")), nonsense)
		}
		there := b.stored(t, "by-stealth", "{metadata: {annotations: {remedy.cluster.x-k8s.io/request-plurals: Thing=harmless}}, spec: {remediation: {templateRef: {apiVersion: a.b/v1, kind: ThingTemplate}}}}")
		for _, then := range []string{"null", "Thing=secrets", "Other=harmless"} {
			g.Expect(harmless.Update(ctx, patched(g, there, "{metadata: {annotations: {remedy.cluster.x-k8s.io/request-plurals: "+then+"}}}"), client.DryRunAll)).
				To(MatchError(ContainSubstring("permission to create all remediation requests")), then)
		}
		g.Expect(harmless.Update(ctx, plural(there, "Thing=harmless,Other=others"), client.DryRunAll)).To(Succeed())
		untouched := b.stored(t, "nonsense-before", "{metadata: {annotations: {remedy.cluster.x-k8s.io/take-over: null, remedy.cluster.x-k8s.io/request-plurals: nonsense}}}")
		g.Expect(metal.Update(ctx, patched(g, untouched, "{metadata: {annotations: {remedy.cluster.x-k8s.io/take-over: 'true'}}}"), client.DryRunAll)).
			To(MatchError(ContainSubstring("must list Kind=plural")), "it counts from now on")
	})
	t.Run("what Cluster API accepts as a reference can be written, whatever it leads to", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(tryCreate(ctx, lesser, patched(g, core, "{spec: {remediation: {templateRef: {kind: Foo}}}}"))).To(MatchError(ContainSubstring("foos." + infrastructure)))
		b.stored(t, "no-template", "{spec: {remediation: {templateRef: {kind: Foo}}}}")
		odd := patched(g, older(g), "{metadata: {name: odd}, spec: {remediationTemplate: {apiVersion: null, kind: null}}}")
		g.Expect(lesser.Create(ctx, odd)).To(Succeed(), "only a name")
		g.Expect(lesser.Update(ctx, patched(g, odd, "{metadata: {labels: {a: b}}}"), client.DryRunAll)).To(Succeed())
	})
	t.Run("what is on its way out can lose its finalizers", func(t *testing.T) {
		g := NewWithT(t)
		going := b.stored(t, "going", "{metadata: {annotations: {remedy.cluster.x-k8s.io/request-plurals: Thing=harmless}, finalizers: [remedy.cluster.x-k8s.io/cleanup]}}")
		g.Expect(b.admin.Delete(ctx, going)).To(Succeed())
		g.Expect(lesser.Get(ctx, client.ObjectKeyFromObject(going), going)).To(Succeed())
		g.Expect(lesser.Update(ctx, patched(g, going, "{metadata: {finalizers: null, annotations: {remedy.cluster.x-k8s.io/request-plurals: nonsense}}}"))).To(Succeed())
	})
}

func withName(object *unstructured.Unstructured, name string) *unstructured.Unstructured {
	object.SetName(name)
	return object
}

// fromTopology is what Cluster API's topology controller applies: labels, owners and the spec, and no annotations.
func fromTopology(g Gomega, name, template string) *unstructured.Unstructured {
	applied := patched(g, takenOver(g), "{metadata: {name: "+name+", annotations: null, labels: {topology.cluster.x-k8s.io/owned: ''}}, spec: {remediation: {templateRef: {kind: "+template+"}}}}")
	return applied
}

func TestWhatATopologyGeneratesIsNotRefused(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	// As in Cluster API's own role, as far as it is about checks: it may not create requests.
	capi, _ := b.may(t, "system:serviceaccount:capi-system:capi-manager", writesCore, to("get,patch,update", cluster, "machinehealthchecks/status"))
	impostor, _ := b.may(t, "system:serviceaccount:tenant:capi-manager", writesCore)
	namesake, _ := b.may(t, "capi-manager", writesCore, to("get,patch,update", cluster, "machinehealthchecks/status"))
	ctx := t.Context()
	apply := func(c client.Client, object *unstructured.Unstructured, options ...client.ApplyOption) error {
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), append(options, client.FieldOwner("capi-topology"), client.ForceOwnership)...)
	}
	untilPoliciesWork(g, func() error { return tryCreate(ctx, impostor, takenOver(g)) }, mustCreate)
	g.Expect(tryCreate(ctx, namesake, takenOver(g))).To(MatchError(ContainSubstring(mustCreate)), "no ServiceAccount")

	g.Expect(apply(capi, fromTopology(g, "generated", "Metal3RemediationTemplate"))).To(Succeed())
	generated := withName(takenOver(g), "generated")
	g.Expect(b.admin.Get(ctx, client.ObjectKeyFromObject(generated), generated)).To(Succeed())
	asked := patched(g, generated, "{metadata: {annotations: {remedy.cluster.x-k8s.io/take-over: 'true', cluster.x-k8s.io/paused: remedy.cluster.x-k8s.io}}}")
	g.Expect(b.admin.Update(ctx, asked)).To(Succeed())

	changed := fromTopology(g, "generated", "OtherTemplate")
	g.Expect(apply(impostor, changed, client.DryRunAll)).To(MatchError(ContainSubstring("others." + infrastructure)))
	g.Expect(apply(capi, changed)).To(Succeed())
	g.Expect(b.admin.Get(ctx, client.ObjectKeyFromObject(generated), generated)).To(Succeed())
	g.Expect(generated.GetAnnotations()).To(And(HaveKeyWithValue("remedy.cluster.x-k8s.io/take-over", "true"), HaveKey("cluster.x-k8s.io/paused")),
		"what others have noted on it outlives what the topology applies")
}

func TestTheManagerNeitherDeletesChecksNorChangesWhatTheyAskFor(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	everything := to("*", "*", "*")
	manager, _ := b.may(t, "system:serviceaccount:elsewhere:remedy-manager", everything)
	somebody, _ := b.may(t, "somebody", everything)
	person, _ := b.may(t, "a-person:remedy-manager", everything)
	ctx := t.Context()
	ours := example(t, machinesMinimal)
	g.Expect(b.admin.Create(ctx, ours)).To(Succeed())
	for _, check := range []*unstructured.Unstructured{b.stored(t, "core", "{}"), ours} {
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
		for _, c := range []client.Client{somebody, person} {
			g.Expect(remove(c)).To(Succeed(), of)
			g.Expect(change(c, "{spec: {selector: {matchLabels: {a: b}}}}")).To(Succeed(), of)
		}
	}
}

func TestWhoAsksForATakeOverInAnotherWordIsToldSo(t *testing.T) {
	g := NewWithT(t)
	b := policyBench(t)
	editor, heard := b.may(t, "editor", writesCore)
	ctx := t.Context()
	there := b.stored(t, "says", noTakeOver)
	says := func(word string) string {
		g.Expect(editor.Update(ctx, patched(g, there, "{metadata: {annotations: {remedy.cluster.x-k8s.io/take-over: "+word+"}}}"), client.DryRunAll)).To(Succeed(), "it only warns")
		return heard.take()
	}
	g.Eventually(func() string { return says("'yes'") }, patience).Should(ContainSubstring(`has the unknown value "yes", which is ignored: set "true" or "false"`))
	for _, word := range []string{"'True'", "''", "on-monday"} {
		g.Expect(says(word)).To(ContainSubstring("which is ignored"), word)
	}
	for _, word := range []string{"'false'", "null"} {
		g.Expect(says(word)).To(BeEmpty(), word)
	}
	g.Expect(tryCreate(ctx, editor, patched(g, takenOver(g), "{metadata: {name: new, annotations: {remedy.cluster.x-k8s.io/take-over: 'yes'}}}"))).To(Succeed())
	g.Expect(heard.take()).To(ContainSubstring("which is ignored"), "also on creation")
	old := b.stored(t, "old", "{metadata: {annotations: {remedy.cluster.x-k8s.io/take-over: 'yes'}}}")
	g.Expect(editor.Update(ctx, patched(g, old, "{metadata: {labels: {a: b}}}"), client.DryRunAll)).To(Succeed())
	g.Expect(heard.take()).To(BeEmpty(), "it was told when it was written")
}
