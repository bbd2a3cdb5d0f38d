// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

func TestAFollowerTellsWhatChangedAndNothingElse(t *testing.T) {
	g := NewWithT(t)
	var told []string
	r := newNodeCache()
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

func TestARosterFollowsProviderIDs(t *testing.T) {
	g := NewWithT(t)
	r := newNodeCache()
	r.put(node("a", "id://1"))
	r.put(node("b", "id://1"))
	r.remove("a")
	g.Expect(r.byProviderID).To(Equal(map[string]string{"id://1": "b"}), "the other one has it still")
	r.put(node("b", "id://2"))
	g.Expect(r.byProviderID).To(Equal(map[string]string{"id://2": "b"}))
	g.Expect(r.remove("nobody")).To(BeNil())
}
