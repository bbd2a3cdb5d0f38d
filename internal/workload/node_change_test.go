// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// readFields are all fields of a Node that a rule reads. A change of another field enqueues no request. The list repeats that of the product,
// so an addition needs both.
var readFields = []string{
	"metadata.uid",
	"metadata.deletionTimestamp",
	"metadata.labels[*]",
	"metadata.annotations[read]",
	"spec.providerID",
	"spec.taints[read].key",
	"spec.taints[read].value",
	"spec.taints[read].effect",
	"spec.taints[read].timeAdded",
	"status.conditions[*].type",
	"status.conditions[*].status",
	"status.conditions[*].reason",
	"status.conditions[*].lastTransitionTime",
}

// keptFields are the other fields that Strip keeps.
var keptFields = []string{"kind", "apiVersion", "metadata.name", "metadata.resourceVersion", "metadata.creationTimestamp"}

// leaf is one field of a Node in which every field is set.
type leaf struct {
	path string
	// change gives it another value.
	change func()
}

// leaves are all fields below a value, each of which is filled with something.
func leaves(v reflect.Value, path string) []leaf {
	switch at := v.Addr().Interface().(type) {
	case *metav1.Time:
		at.Time = noon
		return []leaf{{path, func() { at.Time = noon.Add(time.Hour) }}}
	case *metav1.FieldsV1:
		_ = at.UnmarshalJSON([]byte(`{"a":{}}`))
		return []leaf{{path, func() { _ = at.UnmarshalJSON([]byte(`{"b":{}}`)) }}}
	case *resource.Quantity:
		*at = resource.MustParse("1")
		return []leaf{{path, func() { *at = resource.MustParse("2") }}}
	}
	var all []leaf
	switch v.Kind() { //nolint:exhaustive // what a Node does not have needs no case; the default fails for a new kind.
	case reflect.Struct:
		for i := range v.NumField() {
			all = append(all, leaves(v.Field(i), below(path, v.Type().Field(i)))...)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		all = leaves(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i, entry := range entries(path) {
			all = append(all, leaves(v.Index(i), path+entry)...)
		}
	case reflect.Map:
		all = leavesOfMap(v, path)
	case reflect.String:
		v.SetString(valueAt(path))
		all = []leaf{{path, func() { v.SetString(v.String() + "-other") }}}
	case reflect.Bool:
		all = []leaf{{path, func() { v.SetBool(true) }}}
	case reflect.Int32, reflect.Int64:
		all = []leaf{{path, func() { v.SetInt(1) }}}
	case reflect.Uint8:
		all = []leaf{{path, func() { v.SetUint(1) }}}
	default:
		panic(fmt.Sprintf("a Node has a %s at %s: add a case that changes it", v.Kind(), path))
	}
	return all
}

func leavesOfMap(v reflect.Value, path string) []leaf {
	v.Set(reflect.MakeMap(v.Type()))
	var all []leaf
	for _, entry := range entries(path) {
		key := reflect.ValueOf(keyOf(path, entry)).Convert(v.Type().Key())
		value := reflect.New(v.Type().Elem()).Elem()
		inside := leaves(value, path+entry)
		v.SetMapIndex(key, value)
		for _, l := range inside {
			all = append(all, leaf{l.path, func() {
				l.change()
				v.SetMapIndex(key, value)
			}})
		}
	}
	return all
}

// below is the path of a field, by its name in JSON.
func below(path string, field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return strings.TrimPrefix(strings.TrimSuffix(path+"."+name, "."), ".")
}

// entries are those that a list or a map is filled with. Of annotations and taints there is one that is read and one that is not.
func entries(path string) []string {
	if path == "metadata.annotations" || path == "spec.taints" {
		return []string{"[read]", "[unread]"}
	}
	return []string{"[*]", "[*]"}
}

func keyOf(path, entry string) string {
	if path == "metadata.annotations" && entry == "[read]" {
		return "remediation.medik8s.io/manually-confirmed-healthy"
	}
	return "example.com/key"
}

func valueAt(path string) string {
	if path == "spec.taints[read].key" {
		return departureTaints[0]
	}
	return "value of " + path
}

// fullNode returns a Node in which every field is set.
func fullNode() (*corev1.Node, []leaf) {
	node := &corev1.Node{}
	return node, leaves(reflect.ValueOf(node).Elem(), "")
}

// TestChanged_EachField_OnlyReadFieldsCount changes every field that a Node has, one by one.
func TestChanged_EachField_OnlyReadFieldsCount(t *testing.T) {
	g := NewWithT(t)
	before, all := fullNode()
	seen := make([]string, 0, len(all))
	for i := range all {
		after, same := fullNode()
		after.ResourceVersion = "another"
		same[i].change()
		read := slices.Contains(readFields, all[i].path)
		g.Expect(changed(Strip(before), Strip(after))).To(Equal(read), all[i].path)
		g.Expect(changed(Strip(after), Strip(before))).To(Equal(read), "backwards: %s", all[i].path)
		seen = append(seen, all[i].path)
	}
	g.Expect(seen).To(ContainElements(readFields), "the list has nothing that a Node does not have")
	g.Expect(len(seen)).To(BeNumerically(">", 100))
}

// TestStrip_EachField_KeepsReadFields changes every field that a Node has, one by one.
func TestStrip_EachField_KeepsReadFields(t *testing.T) {
	g := NewWithT(t)
	before, all := fullNode()
	kept := append(slices.Clone(keptFields), readFields...)
	for i := range all {
		after, same := fullNode()
		same[i].change()
		g.Expect(reflect.DeepEqual(Strip(before), Strip(after))).To(Equal(!slices.Contains(kept, all[i].path)), all[i].path)
	}
	g.Expect(Strip(Strip(before))).To(Equal(Strip(before)), "a transform may see what it has transformed")
	untouched, _ := fullNode()
	g.Expect(before).To(Equal(untouched))
}

// A value at its limit is kept, and a longer one is left out.
func TestStrip_LongValues_AreLeftOut(t *testing.T) {
	for name, test := range map[string]struct {
		set  func(node *corev1.Node, length int)
		kept func(node *corev1.Node) bool
		most int
	}{
		"label key": {
			func(n *corev1.Node, length int) { n.Labels = map[string]string{strings.Repeat("k", length): "v"} },
			func(n *corev1.Node) bool { return len(n.Labels) == 1 }, maxKey,
		},
		"provider ID": {
			func(n *corev1.Node, length int) { n.Spec.ProviderID = strings.Repeat("p", length) },
			func(n *corev1.Node) bool { return n.Spec.ProviderID != "" }, maxValue,
		},
		"condition type": {
			func(n *corev1.Node, length int) {
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeConditionType(strings.Repeat("c", length))}}
			},
			func(n *corev1.Node) bool { return len(n.Status.Conditions) == 1 }, maxKey,
		},
		"taint value": {
			func(n *corev1.Node, length int) {
				n.Spec.Taints = []corev1.Taint{{Key: departureTaints[0], Value: strings.Repeat("t", length)}}
			},
			func(n *corev1.Node) bool { return len(n.Spec.Taints) == 1 }, maxValue,
		},
		"name": {
			func(n *corev1.Node, length int) { n.Name = strings.Repeat("n", length) }, HasValidName, maxName,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			longest, longer := &corev1.Node{}, &corev1.Node{}
			test.set(longest, test.most)
			test.set(longer, test.most+1)
			g.Expect(test.kept(Strip(longest))).To(BeTrue())
			g.Expect(test.kept(Strip(longer))).To(BeFalse())
		})
	}
}

// An API server that an attacker runs has Nodes of any size, and the cache keeps all of them.
func TestStrip_HugeNode_HasLimits(t *testing.T) {
	g := NewWithT(t)
	long := strings.Repeat("x", 1<<20)
	huge := node("n", "id://1")
	huge.Labels = map[string]string{"long": long, ControlPlaneLabel: "", remedyv1.ExcludeLabel: "true"}
	huge.Annotations = map[string]string{clusterv1.PausedAnnotation: long, remedyv1.SkipRemediationAnnotation: long}
	for i := range 10_000 {
		huge.Labels[fmt.Sprintf("a.medik8s.io/%05d", i)], huge.Annotations[fmt.Sprintf("a.medik8s.io/%05d", i)] = "value", "value"
		huge.Spec.Taints = append(huge.Spec.Taints, corev1.Taint{Key: departureTaints[0], Effect: corev1.TaintEffect(fmt.Sprint(i))})
		huge.Status.Conditions = append(huge.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeConditionType(fmt.Sprint(i)), Reason: long})
	}
	kept := Strip(huge)
	g.Expect(kept.Labels).To(And(HaveLen(maxPairs), HaveKey("a.medik8s.io/00000"), HaveKey("a.medik8s.io/00509")))
	g.Expect(kept.Labels).To(And(HaveKey(ControlPlaneLabel), HaveKey(remedyv1.ExcludeLabel)), "what blocks a remediation is kept")
	g.Expect(kept.Annotations).To(And(HaveLen(maxPairs), HaveKey("a.medik8s.io/00509"), HaveKey(remedyv1.SkipRemediationAnnotation)))
	g.Expect(kept.Annotations).To(HaveKeyWithValue(clusterv1.PausedAnnotation, HaveLen(maxValue)), "any value pauses the Node")
	g.Expect(kept.Spec.Taints).To(HaveLen(maxTaints))
	g.Expect(kept.Status.Conditions).To(And(HaveLen(maxConditions), HaveEach(HaveField("Reason", HaveLen(maxValue)))))
	g.Expect(kept.Size()).To(BeNumerically("<", 200<<10))
	again := Strip(huge)
	again.ResourceVersion = "2"
	g.Expect(changed(kept, again)).To(BeFalse(), "it is the same each time")
}

func TestStrippedNodes_OtherObjects_AreKept(t *testing.T) {
	g := NewWithT(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": "b"}}}
	g.Expect(stripObject(pod)).To(BeIdenticalTo(any(pod)))
	node, _ := fullNode()
	g.Expect(StrippedNodes().Transform(node)).To(Equal(any(Strip(node))))
}

func TestChanged_RealUpdates_AreClassified(t *testing.T) {
	base := func() *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", Labels: map[string]string{"pool": "a"}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)}}},
		}
	}
	tests := []struct {
		why    string
		change func(n *corev1.Node)
		wakes  bool
	}{
		{"a heartbeat", func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(noon.Add(time.Minute)) }, false},
		{"a heartbeat with another message", func(n *corev1.Node) { n.Status.Conditions[0].Message = "kubelet is posting ready status" }, false},
		{"an image that was pulled", func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{Names: []string{"busybox"}}} }, false},
		{"a volume that was attached", func(n *corev1.Node) { n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "a"}} }, false},
		{"a cordon", func(n *corev1.Node) { n.Spec.Unschedulable = true }, false},
		{"an annotation of a network plugin", func(n *corev1.Node) { n.Annotations = map[string]string{"projectcalico.org/IPv4Address": "10.0.0.1"} }, false},
		{"an annotation without a domain", func(n *corev1.Node) { n.Annotations = map[string]string{"cluster.x-k8s.io": "a"} }, false},
		{"an annotation of a similar domain", func(n *corev1.Node) { n.Annotations = map[string]string{"mycluster.x-k8s.io/a": "b"} }, false},
		{"the taint of a Node that is not ready", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady}} }, false},
		{"the same time in another place", func(n *corev1.Node) {
			n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.In(time.FixedZone("there", 3600)))
		}, false},

		{"a condition with another status", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }, true},
		{"a condition with another transition time", func(n *corev1.Node) {
			n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(time.Second))
		}, true},
		{"a condition that was added", func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "KernelDeadlock"})
		}, true},
		{"a condition that was removed", func(n *corev1.Node) { n.Status.Conditions = nil }, true},
		{"a label that was changed", func(n *corev1.Node) { n.Labels["pool"] = "b" }, true},
		{"a label that was removed", func(n *corev1.Node) { n.Labels = nil }, true},
		{"an annotation of Remedy", func(n *corev1.Node) { n.Annotations = map[string]string{"remedy.cluster.x-k8s.io/not-before": "x"} }, true},
		{"an annotation of Cluster API", func(n *corev1.Node) { n.Annotations = map[string]string{"cluster.x-k8s.io/paused": ""} }, true},
		{"a departure taint", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted"}} }, true},
		{"a provider ID", func(n *corev1.Node) { n.Spec.ProviderID = "a://b" }, true},
		{"its deletion", func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: noon} }, true},
		{"another Node of that name", func(n *corev1.Node) { n.UID = "2" }, true},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			after := base()
			test.change(after)
			g.Expect(changed(Strip(base()), Strip(after))).To(Equal(test.wakes))
		})
	}
	t.Run("a resync has nothing new", func(t *testing.T) {
		node := base()
		NewWithT(t).Expect(changed(node, node)).To(BeFalse())
	})
}

func TestGuard_Heartbeat_AllocatesNothing(t *testing.T) {
	before, after := heartbeat()
	NewWithT(t).Expect(testing.AllocsPerRun(100, func() { changed(before, after) })).To(BeZero())
}

// heartbeat is a Node before and after one.
func heartbeat() (before, after *corev1.Node) {
	build := func(version string, at time.Time) *corev1.Node {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: version, Labels: map[string]string{}, Annotations: map[string]string{}}}
		for i := range 20 {
			node.Labels[fmt.Sprintf("example.com/%d", i)] = "value"
			node.Annotations[fmt.Sprintf("example.com/%d", i)] = "value"
		}
		for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady} {
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(noon), LastHeartbeatTime: metav1.NewTime(at),
			})
		}
		return node
	}
	return build("1", noon), build("2", noon.Add(time.Minute))
}

// Autoscalers and cloud providers announce the end of a Node with these taints. The cache keeps them.
func TestDepartureTaint_EachKey_IsKept(t *testing.T) {
	for _, key := range []string{
		"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption", "aws-node-termination-handler/spot-itn",
		"aws-node-termination-handler/asg-lifecycle-termination", "cloud.google.com/impending-node-termination",
	} {
		node := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeUnreachable}, {Key: key}}}}
		NewWithT(t).Expect(DepartureTaint(Strip(node))).To(HaveField("Key", key))
	}
}

func TestNodeFields_TaintsAndLabels_AreDetected(t *testing.T) {
	g := NewWithT(t)
	node := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeUnreachable}}}}
	g.Expect(DepartureTaint(node)).To(BeNil())
	g.Expect(IsControlPlaneNode(node)).To(BeFalse())
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Value: "1773489600"})
	g.Expect(DepartureTaint(node).Value).To(Equal("1773489600"))
	for _, label := range []string{ControlPlaneLabel, LegacyControlPlaneLabel, EtcdLabel} {
		node.Labels = map[string]string{label: ""}
		g.Expect(IsControlPlaneNode(node)).To(BeTrue(), label)
	}
}
