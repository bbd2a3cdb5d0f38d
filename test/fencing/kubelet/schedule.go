// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"slices"

	"github.com/pkg/errors"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
)

// UtilityLabel is on a Node that runs only Pods of Jobs.
const UtilityLabel = "node-role.kubernetes.io/utility"

// schedule binds Pods to the first Node that fits. A Pod with claims is bound when they are. What fails is tried again.
func (c *Cluster) schedule(ctx context.Context, pods []*corev1.Pod) {
	if len(pods) == 0 {
		return
	}
	list := &corev1.NodeList{}
	if err := c.api.List(ctx, list); err != nil {
		return
	}
	c.lock.Lock()
	all := slices.Clone(c.nodes)
	c.lock.Unlock()
	for _, pod := range pods {
		for _, n := range all {
			at := slices.IndexFunc(list.Items, func(node corev1.Node) bool { return node.Name == n.Name })
			if _, _, running := n.running(); at < 0 || !running || !fits(pod, &list.Items[at]) {
				continue
			}
			_ = c.bind(ctx, pod, n.Name)
			break
		}
	}
}

func (c *Cluster) bind(ctx context.Context, pod *corev1.Pod, node string) error {
	if err := c.provision(ctx, pod); err != nil {
		return err
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	return errors.WithStack(c.api.SubResource("binding").Create(ctx, pod, binding))
}

// ofJob reports whether a Pod belongs to a Job.
func ofJob(pod *corev1.Pod) bool { return pod.Labels[batchv1.JobNameLabel] != "" }

// fits reports whether a Node is Ready, and has neither taints that a Pod does not tolerate nor labels that it does not select.
func fits(pod *corev1.Pod, node *corev1.Node) bool {
	if _, utility := node.Labels[UtilityLabel]; utility && !ofJob(pod) {
		return false
	}
	if node.Spec.Unschedulable || !isReady(node) || !labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(node.Labels)) {
		return false
	}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		tolerates := func(t corev1.Toleration) bool { return t.ToleratesTaint(klog.Background(), taint, false) }
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(pod.Spec.Tolerations, tolerates) {
			return false
		}
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	terms := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return slices.ContainsFunc(terms, func(term corev1.NodeSelectorTerm) bool { return matches(&term, node) })
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// matches reports whether a Node matches all of a term. Of the operators there are In and NotIn, and of the fields there is the name.
func matches(term *corev1.NodeSelectorTerm, node *corev1.Node) bool {
	isIn := func(r corev1.NodeSelectorRequirement, value string) bool {
		return slices.Contains(r.Values, value) == (r.Operator == corev1.NodeSelectorOpIn)
	}
	for _, r := range term.MatchExpressions {
		if !isIn(r, node.Labels[r.Key]) {
			return false
		}
	}
	for _, r := range term.MatchFields {
		if r.Key != metav1.ObjectNameField || !isIn(r, node.Name) {
			return false
		}
	}
	return true
}
