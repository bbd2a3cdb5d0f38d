// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

func TestNodeEventHandler_Change_NotifiesOnce(t *testing.T) {
	g := NewWithT(t)
	var told []string
	r := newNodeCache(transitions{clock.RealClock{}, ClockTolerance})
	f := nodeEventHandler{nodeCache: r, ignored: func() {}, notify: func(before, after *corev1.Node) {
		switch {
		case before == nil:
			told = append(told, "came "+after.Name)
		case after == nil:
			told = append(told, "went "+before.Name)
		default:
			told = append(told, "changed "+after.Name)
		}
	}}
	a := node("a", "id://a")
	beat := a.DeepCopy()
	beat.ResourceVersion = "2"
	ill := beat.DeepCopy()
	ill.ResourceVersion = "3"
	ill.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
	f.OnAdd(a, true)
	f.OnAdd(node("b", ""), false)
	f.OnUpdate(a, beat)
	f.OnUpdate(beat, ill)
	f.OnUpdate(a, ill)
	f.OnDelete(ill)
	f.OnDelete(ill)
	f.OnAdd(&corev1.Pod{}, false)
	f.OnUpdate(nil, &corev1.Pod{})
	f.OnDelete(&corev1.Pod{})
	g.Expect(told).To(Equal([]string{"came b", "changed a", "went a"}))
	names, _ := r.list()
	g.Expect(names).To(HaveLen(1))
	g.Expect(r.byProviderID).To(BeEmpty())
}

// A million heartbeats of 5,000 Nodes cause no notification, so no reconcile, and leave one entry for each Node.
func TestNodeEventHandler_MillionHeartbeats_NotifyOfNone(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const nodes, heartbeats = 5_000, 1_000_000
	notified, ignored := 0, 0
	handler := nodeEventHandler{
		nodeCache: newNodeCache(transitions{clock.RealClock{}, ClockTolerance}), ignored: func() { ignored++ }, notify: func(*corev1.Node, *corev1.Node) { notified++ },
	}
	pairs := make([][2]*corev1.Node, nodes)
	for i := range pairs {
		name := strconv.Itoa(i)
		for j := range pairs[i] {
			pairs[i][j] = node(name, "id://"+name)
			pairs[i][j].ResourceVersion = strconv.Itoa(j)
			pairs[i][j].Status.Conditions = []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(noon.Add(time.Duration(j) * time.Minute)),
			}}
		}
		handler.OnAdd(pairs[i][0], true)
	}
	for beat := range heartbeats {
		pair := &pairs[beat%nodes]
		handler.OnUpdate(nil, pair[(beat/nodes+1)%2])
	}
	g.Expect([]int{notified, ignored, len(handler.byName), len(handler.byProviderID)}).To(Equal([]int{0, heartbeats, nodes, nodes}))
}

func TestNodeCache_ProviderIDChanges_IndexFollows(t *testing.T) {
	g := NewWithT(t)
	r := newNodeCache(transitions{clock.RealClock{}, ClockTolerance})
	r.put(node("a", "id://1"))
	r.put(node("b", "id://1"))
	r.remove("a")
	g.Expect(r.byProviderID).To(Equal(map[string]string{"id://1": "b"}), "the other one has it still")
	r.put(node("b", "id://2"))
	g.Expect(r.byProviderID).To(Equal(map[string]string{"id://2": "b"}))
	g.Expect(r.remove("missing")).To(BeNil())
}

// The cache has all Nodes already. After a live list, they are not held a second time.
func TestLive_ListOfNodes_IsReleased(t *testing.T) {
	g := NewWithT(t)
	const count = 5000
	nodes := manyNodes(count)
	for _, node := range nodes {
		node.Status.NodeInfo.KubeletVersion = strings.Repeat("v", 10)
		node.Status.Conditions = make([]corev1.NodeCondition, 5)
	}
	b := newBench(t, nodes...)
	before := heldBytes()
	g.Expect(b.readLive(t, Target{ProviderID: "missing"})[0].State).To(Equal(health.NotJoined))
	after := heldBytes()
	g.Expect(int64(after)-int64(before)).To(BeNumerically("<", 400*count), "bytes")
	runtime.KeepAlive(b)
}
