// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

var (
	metal3Template = Reference{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3RemediationTemplate", Namespace: "default", Name: "m3"}
	hcloudTemplate = Reference{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "HCloudRemediationTemplate", Namespace: "default", Name: "h"}
	farTemplate    = Reference{APIVersion: "fence-agents-remediation.medik8s.io/v1alpha1", Kind: "FenceAgentsRemediationTemplate", Namespace: "far", Name: "ipmi"}
	machineCheck   = Check{Kind: "MachineHealthCheck", Namespace: "default", Name: "workers"}
	nodeCheck      = Check{Kind: "NodeHealthCheck", Name: "nodes"}
	noon           = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
)

// templateFor is a template with this content.
func templateFor(t testing.TB, r Reference, spec string) *unstructured.Unstructured {
	t.Helper()
	template := &unstructured.Unstructured{Object: map[string]any{}}
	NewWithT(t).Expect(json.Unmarshal([]byte(spec), &template.Object)).To(Succeed())
	template.SetGroupVersionKind(r.TemplateKind())
	template.SetNamespace(r.Namespace)
	template.SetName(r.Name)
	return template
}

func TestBuild_Template_GivesRequestForTarget(t *testing.T) {
	g := NewWithT(t)
	template := templateFor(t, metal3Template, `{"spec":{"template":{
		"apiVersion":"v1","kind":"Secret",
		"metadata":{"name":"other","namespace":"kube-system","uid":"u","resourceVersion":"7","finalizers":["f"],"generateName":"x-",
			"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}],"deletionTimestamp":"2026-01-01T00:00:00Z",
			"labels":{"kept":"yes","remediation.medik8s.io/isControlPlaneNode":""},
			"annotations":{"kept":"yes","remediation.medik8s.io/nhc-timed-out":"x","remedy.cluster.x-k8s.io/healthy-since":"2026-01-01T00:00:00Z"}},
		"spec":{"strategy":{"type":"Reboot"}},"status":{"phase":"Failed"}}}}`)
	before := template.DeepCopy()
	request, err := Build(template, &Draft{
		Check: machineCheck, Target: OfMachine(Object{"m1", "machine-uid"}, Object{"n1", "node-uid"}), Template: metal3Template,
		Order: 2, Attempt: 3, Started: noon.Add(1500 * time.Microsecond), ControlPlane: true, Cluster: client.ObjectKey{
			Namespace: "default", Name: "prod",
		},
	})
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(request.Object).To(Equal(map[string]any{
		"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Metal3Remediation",
		"metadata": map[string]any{
			"namespace": "default", "name": "m1",
			"labels": map[string]any{"kept": "yes", "remediation.medik8s.io/isControlPlaneNode": "", "cluster.x-k8s.io/cluster-name": "prod"},
			"annotations": map[string]any{
				"kept":                              "yes",
				"cluster.x-k8s.io/cloned-from-name": "m3", "cluster.x-k8s.io/cloned-from-groupkind": "Metal3RemediationTemplate.infrastructure.cluster.x-k8s.io",
				"remediation.medik8s.io/node-name": "n1", "remediation.medik8s.io/template-name": "m3",
				"remedy.cluster.x-k8s.io/check": "MachineHealthCheck/default/workers", "remedy.cluster.x-k8s.io/step": "2",
				"remedy.cluster.x-k8s.io/attempt": "3", "remedy.cluster.x-k8s.io/started": "2026-01-02T12:00:00.001Z",
				"remedy.cluster.x-k8s.io/node-uid": "node-uid",
			},
			"ownerReferences": []any{map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "m1", "uid": "machine-uid"}},
		},
		"spec": map[string]any{"strategy": map[string]any{"type": "Reboot"}},
	}))
	g.Expect(template).To(Equal(before))
	request.Object["spec"].(map[string]any)["strategy"].(map[string]any)["type"] = "changed"
	g.Expect(template).To(Equal(before), "they share nothing")
}

func TestBuild_Owners_AreAsRemediatorsExpect(t *testing.T) {
	node, machine := Object{"n1", "node-uid"}, Object{"m1", "machine-uid"}
	prod := client.ObjectKey{Namespace: "team", Name: "prod"}
	tests := []struct {
		name   string
		draft  Draft
		owners []string
		labels []string
	}{
		{
			"a Machine",
			Draft{Target: OfMachine(machine, node), Template: metal3Template, Cluster: prod},
			[]string{"Machine"},
			[]string{"cluster.x-k8s.io/cluster-name"},
		},
		{
			"a Node of another cluster",
			Draft{Target: OfNode(node, machine), Template: farTemplate, Cluster: prod},
			[]string{"NodeHealthCheck"},
			[]string{"cluster.x-k8s.io/cluster-name", "clusterctl.cluster.x-k8s.io/move"},
		},
		{
			"a Node, for a kind that needs a Machine",
			Draft{Target: OfNode(node, machine), Template: metal3Template, Cluster: prod},
			[]string{"NodeHealthCheck", "Machine"},
			[]string{"cluster.x-k8s.io/cluster-name", "clusterctl.cluster.x-k8s.io/move"},
		},
		{
			"a Node, for another kind of that group",
			Draft{Target: OfNode(node, machine), Template: hcloudTemplate, Cluster: prod},
			[]string{"NodeHealthCheck", "Machine"},
			[]string{"cluster.x-k8s.io/cluster-name", "clusterctl.cluster.x-k8s.io/move"},
		},
		{
			"a Node without a Machine, for such a kind",
			Draft{Target: OfNode(node, Object{}), Template: metal3Template, Cluster: prod},
			[]string{"NodeHealthCheck"},
			[]string{"cluster.x-k8s.io/cluster-name", "clusterctl.cluster.x-k8s.io/move"},
		},
		{"a Node at home", Draft{Target: OfNode(node, machine), Template: farTemplate, Place: InOneCluster}, []string{"NodeHealthCheck", "Node"}, nil},
		{
			"a Node at home, of a cluster that manages itself",
			Draft{Target: OfNode(node, machine), Template: metal3Template, Place: InOneCluster},
			[]string{"NodeHealthCheck", "Node", "Machine"},
			nil,
		},
		{
			"next to a Node",
			Draft{Target: OfNode(node, machine), Template: metal3Template, Place: InWorkload, Cluster: prod},
			[]string{"Node"},
			[]string{"cluster.x-k8s.io/cluster-name", "remedy.cluster.x-k8s.io/check"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			tt.draft.Check, tt.draft.CheckUID = nodeCheck, "check-uid"
			request, err := Build(templateFor(t, tt.draft.Template, `{"spec":{"template":{"spec":{}}}}`), &tt.draft)
			g.Expect(err).ToNot(HaveOccurred())
			kinds, uids := []string{}, map[string]types.UID{"Machine": "machine-uid", "Node": "node-uid", "NodeHealthCheck": "check-uid"}
			for _, owner := range request.GetOwnerReferences() {
				kinds = append(kinds, owner.Kind)
				g.Expect(owner.UID).To(Equal(uids[owner.Kind]))
				g.Expect(owner.Controller).To(BeNil())
				g.Expect(owner.BlockOwnerDeletion).To(BeNil(), "that would need the permission to change finalizers of the owner")
			}
			g.Expect(kinds).To(Equal(tt.owners))
			labels := []string{}
			for key := range request.GetLabels() {
				labels = append(labels, key)
			}
			g.Expect(labels).To(ConsistOf(tt.labels))
			found := Read(request)
			g.Expect(found.IsFor(tt.draft.Target)).To(BeTrue())
			restored := OfNode(Object{"n1", "another"}, machine)
			g.Expect(found.IsFor(restored)).To(Equal(tt.draft.Target.OfNode && slices.Contains(tt.owners, "Machine")), "the Machine is the same")
			g.Expect(found.IsFor(OfNode(Object{"n1", "another"}, Object{"m1", "another"}))).To(BeFalse())
			g.Expect(found.IsFor(OfNode(Object{"n2", "another"}, machine))).To(BeFalse())
			g.Expect(found.IsFor(OfMachine(Object{"m1", "another"}, node))).To(BeFalse())
			// A remediator writes it back without the annotations that it does not define.
			request.SetAnnotations(map[string]string{remedyv1.CheckAnnotation: request.GetAnnotations()[remedyv1.CheckAnnotation]})
			g.Expect(Read(request).IsFor(tt.draft.Target)).To(BeTrue())
		})
	}
}

// All kinds of infrastructure providers need a Machine.
func TestWrongPlace_InfrastructureProvider_NeedsMachine(t *testing.T) {
	g, prod := NewWithT(t), client.ObjectKey{Namespace: "default", Name: "prod"}
	g.Expect(hcloudTemplate.WrongPlace(InManagement, true, prod)).To(BeEmpty())
	g.Expect(hcloudTemplate.WrongPlace(InManagement, false, prod)).To(BeEmpty())
	g.Expect(hcloudTemplate.WrongPlace(InWorkload, true, prod)).To(ContainSubstring("reads Machines"))
	g.Expect(hcloudTemplate.WrongPlace(InManagement, true, client.ObjectKey{Namespace: "other", Name: "prod"})).
		To(ContainSubstring("create the template in namespace other"))
}

// The fencing manager runs in the management cluster, and finds the Cluster of a NodeFence in its namespace.
func TestWrongPlace_NodeFence_NeedsNamespaceOfCluster(t *testing.T) {
	prod := client.ObjectKey{Namespace: "default", Name: "prod"}
	for _, tt := range []struct {
		name, namespace string
		place           Place
		cluster         client.ObjectKey
		says            string
	}{
		{"in the namespace of the Cluster", "default", InManagement, prod, ""},
		{"in another namespace", "other", InManagement, prod, "create the template in namespace default"},
		{"in the workload cluster", "default", InWorkload, prod, "its remediator reads Clusters: create the template in the management cluster"},
		{"for Nodes of the management cluster", "other", InOneCluster, client.ObjectKey{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			template := Reference{
				APIVersion: "remedy.cluster.x-k8s.io/v1alpha1", Kind: "NodeFenceTemplate", Namespace: tt.namespace, Name: "power-cycle",
			}
			is := ContainSubstring(tt.says)
			if tt.says == "" {
				is = BeEmpty()
			}
			g := NewWithT(t)
			g.Expect(template.NeedsMachine()).To(BeFalse())
			g.Expect(template.WrongPlace(tt.place, true, tt.cluster)).To(is)
			if tt.place == InManagement {
				g.Expect(template.WrongPlace(tt.place, false, tt.cluster)).To(is, "also for Machines")
			}
		})
	}
}

func TestBuild_InvalidTemplate_IsRejected(t *testing.T) {
	const noSpec = "spec.template.spec must be an object, for example spec: {template: {spec: {}}}; Remedy copies it to spec of the request"
	for content, problem := range map[string]string{
		`{}`: noSpec, `{"spec":"no"}`: noSpec, `{"spec":{}}`: noSpec, `{"spec":{"template":[]}}`: noSpec,
		`{"spec":{"template":{}}}`: noSpec, `{"spec":{"template":{"size":42}}}`: noSpec, `{"spec":{"template":{"metadata":{}}}}`: noSpec,
		`{"spec":{"template":{"spec":"no"}}}`: noSpec, `{"spec":{"template":{"spec":null}}}`: noSpec,
		`{"spec":{"template":{"spec":{},"metadata":{"labels":{"a":1}}}}}`:       "labels has a value that is not a string",
		`{"spec":{"template":{"spec":{},"metadata":{"annotations":{"a":[]}}}}}`: "annotations has a value that is not a string",
	} {
		_, err := Build(templateFor(t, metal3Template, content), &Draft{Template: metal3Template})
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(problem)), content)
	}
}

func TestBuild_EmptySpec_IsValid(t *testing.T) {
	g := NewWithT(t)
	request, err := Build(templateFor(t, metal3Template, `{"spec":{"template":{"spec":{}}}}`), &Draft{Template: metal3Template})
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(request.Object).To(HaveKeyWithValue("spec", BeEmpty()))
}

func TestNaming_SameKindAndName_AddsGroupOrNamespace(t *testing.T) {
	g := NewWithT(t)
	a := Reference{"a.io/v1", "FooTemplate", "one", "x"}
	group, namespace, version := a, a, a
	group.APIVersion, namespace.Namespace, version.APIVersion = "b.io/v1", "two", "a.io/v2"
	g.Expect(Naming{a}.Text(a)).To(Equal("FooTemplate/x"))
	g.Expect(Naming{a, version}.Text(a)).To(Equal("FooTemplate/x"))
	g.Expect(a.Same(version)).To(BeTrue(), "it is the same template")
	g.Expect(Naming{a, group}.Text(a)).To(Equal("FooTemplate.a.io/x"))
	g.Expect(Naming{a, namespace}.Text(a)).To(Equal("FooTemplate/one/x"))
	g.Expect(Naming{a, namespace, group}.Text(group)).To(Equal("FooTemplate.b.io/two/x"[:len("FooTemplate.b.io/")] + "one/x"))
	g.Expect(Naming{group}.Text(a)).To(Equal("FooTemplate.a.io/x"), "also if the check does not name it any more")
	g.Expect(Naming{a}.StepID(3, a)).To(Equal(remediation.StepID{Order: 3, Template: "FooTemplate/x"}))
}

func TestPlural_Annotation_IsReadLikeAdmission(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Plural("", "Metal3Remediation")).To(Equal("metal3remediations"))
	g.Expect(Plural("FooProxy=fooproxies, Gas=gases ", "Gas")).To(Equal("gases"))
	g.Expect(Plural("Gas=gases,Gas=others", "Gas")).To(Equal("gases"))
	g.Expect(Plural("Gas=GASES,Gas=-,Gas", "Gas")).To(Equal("gass"))
}

func TestAdoptable_InTreeRequest_IsRecognized(t *testing.T) {
	g := NewWithT(t)
	machine := Object{"m1", "machine-uid"}
	made := &unstructured.Unstructured{Object: map[string]any{}}
	made.SetGroupVersionKind(metal3Template.RequestKind())
	made.SetNamespace("default")
	made.SetName("m1")
	made.SetAnnotations(map[string]string{"cluster.x-k8s.io/cloned-from-name": "m3", "cluster.x-k8s.io/cloned-from-groupkind": "Metal3RemediationTemplate.infrastructure.cluster.x-k8s.io"})
	made.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: "m1", UID: "machine-uid"}})
	g.Expect(Read(made).Adoptable(machine, metal3Template)).To(BeTrue())
	g.Expect(Read(made).Adoptable(Object{"m1", "another"}, metal3Template)).To(BeFalse())
	other := metal3Template
	other.Name = "m4"
	g.Expect(Read(made).Adoptable(machine, other)).To(BeFalse())
	g.Expect(Read(made).Adoptable(machine, farTemplate)).To(BeFalse())
	ours := made.DeepCopy()
	ours.SetAnnotations(map[string]string{"cluster.x-k8s.io/cloned-from-name": "m3", remedyv1.CheckAnnotation: "broken"})
	g.Expect(Read(ours).Adoptable(machine, metal3Template)).To(BeFalse(), "it has an annotation of Remedy")
	owned := made.DeepCopy()
	owned.SetOwnerReferences(
		append(owned.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}),
	)
	g.Expect(Read(owned).Adoptable(machine, metal3Template)).To(BeFalse(), "it has another owner")
}
