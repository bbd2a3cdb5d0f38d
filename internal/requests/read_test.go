// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

var (
	names = rapid.StringMatching(`[a-z0-9]([-a-z0-9.]{0,60}[a-z0-9])?`)
	uids  = rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}`)
)

func drawObject(t *rapid.T, label string) Object {
	return Object{Name: names.Draw(t, label), UID: types.UID(uids.Draw(t, label+" UID"))}
}

func drawDraft(t *rapid.T) *Draft {
	d := &Draft{
		Check:    Check{Kind: nodeCheck.Kind, Name: names.Draw(t, "check")},
		CheckUID: types.UID(uids.Draw(t, "check UID")), Order: rapid.Int32Range(0, 1000).Draw(t, "order"), Attempt: rapid.IntRange(1, 1000).Draw(t, "attempt"),
		Started:  noon.Add(time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "started"))),
		Template: rapid.SampledFrom([]Reference{metal3Template, farTemplate}).Draw(t, "template"), ControlPlane: rapid.Bool().Draw(t, "control plane"),
		Place: rapid.SampledFrom([]Place{InManagement, InOneCluster, InWorkload}).Draw(t, "place"),
	}
	d.Template.Name = names.Draw(t, "template name")
	d.Target = OfMachine(drawObject(t, "machine"), drawObject(t, "node"))
	d.Target.OfNode = rapid.Bool().Draw(t, "of node")
	if !d.Target.OfNode {
		d.Check.Kind = rapid.SampledFrom([]string{"MachineHealthCheck", "MachineHealthCheck.cluster.x-k8s.io"}).Draw(t, "kind")
		d.Check.Namespace = d.Template.Namespace
	}
	if rapid.Bool().Draw(t, "cluster") {
		d.Cluster = client.ObjectKey{Namespace: "team", Name: names.Draw(t, "cluster name")}
	}
	return d
}

func TestRead_BuiltRequest_IsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		d := drawDraft(t)
		template := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"a": "b"}}}}}
		request, err := Build(template, d)
		g.Expect(err).ToNot(HaveOccurred())
		// As it comes back from an API server.
		content, err := json.Marshal(request.Object)
		g.Expect(err).ToNot(HaveOccurred())
		back := &unstructured.Unstructured{}
		g.Expect(back.UnmarshalJSON(content)).To(Succeed())
		found := Read(back)
		g.Expect(found.IsOf(d.Check)).To(BeTrue())
		g.Expect(found.IsFor(d.Target)).To(BeTrue())
		g.Expect(found.matches(d)).To(BeTrue())
		elsewhere := map[bool]Place{true: InOneCluster, false: InWorkload}[d.Place == InWorkload]
		g.Expect(found.CreatedBy(d.Check, d.Check.LabelIn(d.Place, d.Cluster))).To(BeTrue())
		g.Expect(found.CreatedBy(d.Check, d.Check.LabelIn(elsewhere, d.Cluster))).To(BeFalse(), "of a check of its name in another cluster")
		g.Expect(found.Key()).To(Equal(client.ObjectKey{Namespace: d.Template.Namespace, Name: d.Target.Object().Name}))
		naming := Naming{d.Template}
		g.Expect(*found.Facts(naming)).To(Equal(remediation.Request{
			Step: naming.StepID(d.Order, d.Template), Attempt: d.Attempt, Started: d.Started.Truncate(time.Millisecond),
		}))
		stranger := d.Target
		stranger.Machine.UID, stranger.Node.UID = "another", "another"
		g.Expect(found.IsFor(stranger)).To(BeFalse())
		for _, label := range request.GetLabels() {
			if label != d.Cluster.Name {
				g.Expect(validation.IsValidLabelValue(label)).To(BeEmpty())
			}
		}
	})
}

func TestNaming_AnyTemplates_AreUnambiguous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		references := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Reference {
			few := func(label string, all ...string) string { return rapid.SampledFrom(all).Draw(t, label) }
			return Reference{few("group", "a.io/v1", "b.io/v1", "a.io/v2"), few("kind", "FooTemplate", "BarTemplate"), few("namespace", "one", "two"), few("name", "x", "y")}
		}), 2, 6).Draw(t, "references")
		naming := Naming(references)
		for _, a := range references {
			for _, b := range references {
				if (naming.Text(a) == naming.Text(b)) != a.Same(b) {
					t.Fatalf("%v is called %s and %v is called %s", a, naming.Text(a), b, naming.Text(b))
				}
			}
		}
	})
}

func TestReadStatus_Remediators_AreUnderstood(t *testing.T) {
	sbr := schema.GroupVersionKind{Group: "storage-based-remediation.medik8s.io", Version: "v1alpha1", Kind: "StorageBasedRemediation"}
	far, metal3 := farTemplate.RequestKind(), metal3Template.RequestKind()
	hcloud := schema.GroupVersionKind{Group: metal3.Group, Version: "v1beta1", Kind: "HCloudRemediation"}
	tests := []struct {
		kind   schema.GroupVersionKind
		status string
		want   remediatorStatus
	}{
		{far, `{}`, remediatorStatus{}},
		{far, `{"conditions":[{"type":"Succeeded","status":"True"}]}`, remediatorStatus{succeeded: true}},
		{far, `{"conditions":[{"type":"Succeeded","status":"False"}]}`, remediatorStatus{failed: true}},
		{far, `{"conditions":[{"type":"Succeeded","status":"Unknown"}]}`, remediatorStatus{}},
		{far, `{"conditions":[{"type":"PermanentNodeDeletionExpected","status":"True"}]}`, remediatorStatus{nodeDeletion: true}},
		{far, `{"conditions":[{"type":"Succeeded","status":"True"},{"type":"Succeeded","status":"False"}]}`, remediatorStatus{}},
		{far, `{"conditions":[{"type":"Processing","status":"False"}]}`, remediatorStatus{}},
		{far, `{"phase":"Failed"}`, remediatorStatus{}},
		{metal3, `{"phase":"Failed"}`, remediatorStatus{failed: true}},
		{metal3, `{"phase":"Deleting machine"}`, remediatorStatus{failed: true}},
		{metal3, `{"phase":"Running"}`, remediatorStatus{nodeDeletion: true}},
		{metal3, `{"phase":"Waiting"}`, remediatorStatus{nodeDeletion: true}},
		{hcloud, `{"phase":"Failed"}`, remediatorStatus{failed: true}},
		{hcloud, `{"phase":"Deleting machine"}`, remediatorStatus{failed: true}},
		{hcloud, `{"phase":"Waiting"}`, remediatorStatus{}},
		{sbr, `{"conditions":[{"type":"Ready","status":"False"},{"type":"FencingInProgress","status":"True"}]}`, remediatorStatus{}},
		{sbr, `{"conditions":[{"type":"Ready","status":"False"},{"type":"FencingInProgress","status":"False"}]}`, remediatorStatus{failed: true}},
		{far, `{"conditions":"no"}`, remediatorStatus{}},
		{far, `{"conditions":[1,null,{"type":2,"status":true},{"status":"True"}]}`, remediatorStatus{}},
	}
	for _, tt := range tests {
		request := &unstructured.Unstructured{Object: map[string]any{}}
		var status map[string]any
		NewWithT(t).Expect(json.Unmarshal([]byte(tt.status), &status)).To(Succeed())
		request.Object["status"] = status
		request.SetGroupVersionKind(tt.kind)
		got := readStatus(request)
		got.acted = false
		NewWithT(t).Expect(got).To(Equal(tt.want), "%s %s", tt.kind.Kind, tt.status)
	}
}

// A remediator acts if it writes a status or a finalizer. Those of the garbage collector are none of it.
func TestReadStatus_AnythingWritten_HasActed(t *testing.T) {
	long := strings.Repeat("x", 2*maxProblem)
	for _, tt := range []struct {
		why        string
		status     map[string]any
		finalizers []string
		want       remediatorStatus
	}{
		{"nothing", nil, nil, remediatorStatus{}},
		{"an empty status", map[string]any{}, nil, remediatorStatus{}},
		{"a field", map[string]any{"phase": "Running"}, nil, remediatorStatus{acted: true}},
		{"a condition", map[string]any{"conditions": []any{map[string]any{"type": "Processing"}}}, nil, remediatorStatus{acted: true}},
		{"an error", map[string]any{"lastError": "cannot reboot"}, nil, remediatorStatus{acted: true, problem: "cannot reboot"}},
		{"a long error", map[string]any{"lastError": long}, nil, remediatorStatus{acted: true, problem: long[:maxProblem]}},
		{"an invalid error", map[string]any{"lastError": 7}, nil, remediatorStatus{acted: true}},
		{"a finalizer", nil, []string{"medik8s.io/finalizer"}, remediatorStatus{acted: true}},
		{"of the garbage collector", nil, []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents}, remediatorStatus{}},
	} {
		request := &unstructured.Unstructured{Object: map[string]any{}}
		request.SetGroupVersionKind(farTemplate.RequestKind())
		if request.SetFinalizers(tt.finalizers); tt.status != nil {
			request.Object["status"] = tt.status
		}
		NewWithT(t).Expect(readStatus(request)).To(Equal(tt.want), tt.why)
	}
}

func TestRead_InvalidAnnotations_DoNoHarm(t *testing.T) {
	g := NewWithT(t)
	request := &unstructured.Unstructured{Object: map[string]any{"status": "no"}}
	request.SetGroupVersionKind(farTemplate.RequestKind())
	request.SetCreationTimestamp(metav1.NewTime(noon))
	request.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: remedyv1.GroupVersion.String(), Kind: nodeCheck.Kind, Name: nodeCheck.Name}})
	request.SetAnnotations(map[string]string{
		remedyv1.CheckAnnotation: nodeCheck.String(), remedyv1.StepAnnotation: "first", remedyv1.AttemptAnnotation: "-1", remedyv1.StartedAnnotation: "noon",
		remedyv1.HealthySinceAnnotation: "yesterday", remedyv1.TimedOutAnnotation: "",
	})
	found := Read(request)
	g.Expect(*found.Facts(Naming{farTemplate})).To(Equal(remediation.Request{
		Step: remediation.StepID{Order: -1, Template: "FenceAgentsRemediationTemplate/"}, Attempt: 1, Started: noon, TimedOut: true,
	}), "its step is none that there is, and it was started when it was created")
	g.Expect(found.IsOf(nodeCheck)).To(BeTrue())
	g.Expect(found.IsFor(Target{})).To(BeFalse(), "an empty target is no target")
	g.Expect(found.IsFor(Target{OfNode: true})).To(BeFalse())
	g.Expect((&Request{}).IsOf(Check{})).To(BeFalse())
}

func FuzzParseCheck(f *testing.F) {
	for _, seed := range []string{"MachineHealthCheck/default/a", "NodeHealthCheck//a", "", "///", "a/b", "a//"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, is := ParseCheck(text)
		if is && c.String() != text || !is && c != (Check{}) {
			t.Errorf("%q is read as %v", text, c)
		}
		if is && (c.Kind == "" || c.Name == "" || strings.Contains(c.Name, "/")) {
			t.Errorf("%q is read as %v", text, c)
		}
	})
}

func FuzzPlural(f *testing.F) {
	f.Add("FooProxy=fooproxies,Gas=gases", "Gas")
	f.Add(" Gas = gases ,=,a=b=c", "Gas")
	f.Fuzz(func(t *testing.T, annotation, kind string) {
		if plural := Plural(annotation, kind); plural != strings.ToLower(kind)+"s" && !strings.Contains(annotation, kind+"="+plural) {
			t.Errorf("%q has %q as the plural of %q", annotation, plural, kind)
		}
	})
}

// Whatever an API server may hold in a custom resource is read, and whatever is read has a meaning.
func FuzzRead(f *testing.F) {
	f.Add(`{"apiVersion":"a/v1","kind":"B","metadata":{"name":"x","annotations":{"remedy.cluster.x-k8s.io/step":"1"}},"status":{"conditions":[{"type":"Succeeded","status":"True"}]}}`)
	f.Add(`{"metadata":{"ownerReferences":[{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","uid":"u"}],"deletionTimestamp":"x"},"status":{"phase":1}}`)
	f.Add(`{"metadata":7,"status":[],"apiVersion":{},"kind":[]}`)
	f.Fuzz(func(t *testing.T, content string) {
		request := &unstructured.Unstructured{}
		if json.Unmarshal([]byte(content), &request.Object) != nil || request.Object == nil {
			return
		}
		found := Read(request)
		r := found.Facts(Naming{metal3Template})
		if r.Attempt < 1 || r.Step.Order < noOrder || r.Succeeded && r.Failed {
			t.Errorf("%s is read as %+v", content, r)
		}
		if _, err := Build(request, &Draft{Template: metal3Template}); err == nil && readTemplate(request).problem != "" {
			t.Errorf("a request is built from %s, which cannot be", content)
		}
		_ = found.String()
	})
}
