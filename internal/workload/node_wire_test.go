// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"pgregory.net/rapid"
	"sigs.k8s.io/randfill"
)

// drawNode fills all fields of a Node.
func drawNode(seed int64) *corev1.Node {
	node := &corev1.Node{}
	randfill.NewWithSeed(seed).NilChance(0.2).NumElements(0, 5).Funcs(
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(1<<32), 0) },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(c.Int63n(1000), resource.DecimalSI)
		},
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawString(`{"f:status":{}}`) },
	).Fill(node)
	node.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	return node
}

func encoded(g Gomega, object runtime.Object) []byte {
	serializer := protobuf.NewSerializer(clientgoscheme.Scheme, clientgoscheme.Scheme)
	content := &bytes.Buffer{}
	g.Expect(serializer.Encode(object, content)).To(Succeed())
	return content.Bytes()
}

// eventOf is a watch event as an API server sends it.
func eventOf(g Gomega, kind watch.EventType, object runtime.Object) []byte {
	event, err := (&metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: encoded(g, object)}}).Marshal()
	g.Expect(err).ToNot(HaveOccurred())
	return event
}

func framed(event []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
}

// decoded is what a client decodes of an event.
func decoded(g Gomega, event []byte) (kind string, object runtime.Object) {
	outer := &metav1.WatchEvent{}
	g.Expect(outer.Unmarshal(event)).To(Succeed())
	object, _, err := protobuf.NewSerializer(clientgoscheme.Scheme, clientgoscheme.Scheme).Decode(outer.Object.Raw, nil, nil)
	g.Expect(err).ToNot(HaveOccurred())
	return outer.Type, object
}

// Of any Node, a client that trims keeps the same as one that does not, and decodes nothing that Strip removes.
func TestTrim_AnyNode_KeepsWhatStripKeeps(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for seed := range int64(2000) {
		node := drawNode(seed)
		kind, trimmed := decoded(g, TrimEvent(eventOf(g, watch.Modified, node)))
		g.Expect(kind).To(Equal(string(watch.Modified)))
		_, whole := decoded(g, eventOf(g, watch.Modified, node))
		g.Expect(Strip(trimmed.(*corev1.Node))).To(Equal(Strip(whole.(*corev1.Node))), "seed %d", seed)
		status := trimmed.(*corev1.Node).Status
		g.Expect(status.Images).To(BeEmpty())
		g.Expect(trimmed.(*corev1.Node).ManagedFields).To(BeEmpty())
		for i := range status.Conditions {
			g.Expect(status.Conditions[i].LastHeartbeatTime.IsZero()).To(BeTrue())
			g.Expect(status.Conditions[i].Message).To(BeEmpty())
		}
	}
}

// Events about other objects, and those that are no valid protobuf, are left to the decoder of the client.
func TestTrim_NoNode_LeavesTheEvent(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	expired := eventOf(g, watch.Error, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Reason: "Expired"})
	for _, event := range [][]byte{nil, {0xff}, expired, eventOf(g, watch.Added, &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}})} {
		g.Expect(TrimEvent(event)).To(Equal(event))
	}
}

// A workload cluster can send anything. The result is never longer, and it remains an event of the same type.
func TestTrim_AnyBytes_RemainAnEvent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		g := NewWithT(rt)
		event := eventOf(g, watch.Added, drawNode(rapid.Int64Range(0, 50).Draw(rt, "Node")))
		for range rapid.IntRange(0, 3).Draw(rt, "changes") {
			event[rapid.IntRange(0, len(event)-1).Draw(rt, "at")] = rapid.Byte().Draw(rt, "byte")
		}
		event = event[:len(event)-rapid.SampledFrom([]int{0, 0, 1, len(event) / 2}).Draw(rt, "cut")]
		trimmed := TrimEvent(bytes.Clone(event))
		g.Expect(len(trimmed)).To(BeNumerically("<=", len(event)))
		if bytes.Equal(event, trimmed) {
			return
		}
		before, after := &metav1.WatchEvent{}, &metav1.WatchEvent{}
		g.Expect(after.Unmarshal(trimmed)).To(Succeed())
		if before.Unmarshal(event) == nil {
			g.Expect(after.Type).To(Equal(before.Type))
		}
	})
}

// A heartbeat of a Node with 47 images is copied once, without the images.
func TestGuard_Update_IsTrimmedInOneAllocation(t *testing.T) {
	g := NewWithT(t)
	node := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for i := range 47 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{strings.Repeat("a", 200+i)}})
	}
	event := eventOf(g, watch.Modified, node)
	g.Expect(testing.AllocsPerRun(100, func() { TrimEvent(event) })).To(BeEquivalentTo(1))
	g.Expect(len(TrimEvent(event))).To(BeNumerically("<", 150))
}
