// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
)

func pod(name string, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	for _, c := range change {
		c(&p)
	}
	return p
}

func names(of []corev1.Pod) string {
	all := make([]string, 0, len(of))
	for i := range of {
		all = append(all, of[i].Name)
	}
	return strings.Join(all, " ")
}

func owned(kind, version string, controller bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "a", Controller: ptr.To(controller)}}
	}
}

func ended(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func tolerates(all ...corev1.Toleration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Tolerations = all }
}

func volumes(sources ...corev1.VolumeSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for i, source := range sources {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: string(rune('a' + i)), VolumeSource: source})
		}
	}
}

func claim(name string) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

func TestSelect_Scopes_HaveTheirPods(t *testing.T) {
	configMap := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	noSchedule, sometime, atOnce := everything, everything, everything
	noSchedule.Effect, sometime.TolerationSeconds, atOnce.TolerationSeconds = corev1.TaintEffectNoSchedule, ptr.To(int64(30)), ptr.To(int64(0))
	emptyDir := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	ephemeral := corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		// in are the scopes with the Pod: d, n and s for drain, Node and storage.
		in string
	}{
		"plain":                    {func(*corev1.Pod) {}, "dn"},
		"mirror":                   {func(p *corev1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.mirror": ""} }, ""},
		"of a DaemonSet":           {owned("DaemonSet", "apps/v1", true), ""},
		"owned, not controlled":    {owned("DaemonSet", "apps/v1", false), "dn"},
		"of another DaemonSet":     {owned("DaemonSet", "apps.example.com/v1", true), "dn"},
		"of a StatefulSet":         {owned("StatefulSet", "apps/v1", true), "dn"},
		"succeeded":                {ended(corev1.PodSucceeded), ""},
		"failed":                   {ended(corev1.PodFailed), ""},
		"tolerates everything":     {tolerates(everything), "d"},
		"tolerates this fence":     {tolerates(corev1.Toleration{Key: fencingv1.FencingTaint, Value: "uid"}), "d"},
		"tolerates another fence":  {tolerates(corev1.Toleration{Key: fencingv1.FencingTaint, Value: "other"}), "dn"},
		"tolerates NoSchedule":     {tolerates(noSchedule), "dn"},
		"tolerates for some time":  {tolerates(sometime), "dn"},
		"tolerates unreachability": {tolerates(corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists}), "dn"},
		"first toleration counts":  {tolerates(atOnce, everything), "dn"},
		"no claim":                 {volumes(configMap), "dn"},
		"isolated claim":           {volumes(configMap, claim("gold"), emptyDir), "dns"},
		"ephemeral claim":          {volumes(emptyDir, ephemeral), "dns"},
		"other ephemeral":          {volumes(ephemeral), "dn"},
		"other claim":              {volumes(claim("gold"), claim("other")), "dn"},
		"hostPath":                 {volumes(claim("gold"), corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}), "dn"},
		"NFS":                      {volumes(claim("gold"), corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}), "dn"},
		"inline CSI":               {volumes(claim("gold"), corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}), "dn"},
		"no source":                {volumes(claim("gold"), corev1.VolumeSource{}), "dn"},
		"in-tree disk": {
			volumes(claim("gold"), corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}), "dn",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			in := ""
			for letter, scope := range map[string]lifecycle.WorkloadScope{
				"d": lifecycle.DrainScope, "n": lifecycle.NodeScope, "s": lifecycle.StorageScope,
			} {
				selected := Select([]corev1.Pod{pod("db-0", test.change)}, scope, "uid", func(claim types.NamespacedName) bool {
					return claim.String() == "default/gold" || claim.String() == "default/db-0-b"
				})
				if len(selected) == 1 {
					in += letter
				}
			}
			g.Expect(strings.Split(in, "")).To(ConsistOf(strings.Split(test.in, "")))
		})
	}
}

func TestSelect_Order_IsStable(t *testing.T) {
	all := []corev1.Pod{pod("b"), pod("a", ended(corev1.PodFailed)), pod("c"), pod("a"), pod("d", func(p *corev1.Pod) { p.Namespace = "a" })}
	NewWithT(t).Expect(names(Select(all, lifecycle.DrainScope, "uid", nil))).To(Equal("d a b c"))
	NewWithT(t).Expect(names(all)).To(Equal("b a c a d"), "the Pods that were read are not changed")
}

func TestToEvict_PodsThatEnd_AreNotEvicted(t *testing.T) {
	g := NewWithT(t)
	labeled := func(p *corev1.Pod) { p.Labels = map[string]string{"job": "training"} }
	terminating := func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }
	of := []corev1.Pod{pod("a"), pod("b", labeled), pod("c", terminating), pod("d", labeled, terminating)}
	g.Expect(names(ToEvict(of, nil))).To(Equal("a b"))
	g.Expect(names(ToEvict(of, &remedyv1.Selector{MatchLabels: map[string]remedyv1.LabelValue{"job": "training"}}))).To(Equal("a"))
	g.Expect(names(ToEvict(of, &remedyv1.Selector{}))).To(BeEmpty(), "an empty selector selects everything")
	g.Expect(names(ToEvict(of, &remedyv1.Selector{MatchExpressions: []remedyv1.SelectorRequirement{{Operator: "Has"}}}))).To(BeEmpty())
	g.Expect(names(Staying(of, 0))).To(Equal("a b"))
	g.Expect(names(Staying(of, 1))).To(Equal("a"))
	g.Expect(names(Staying(of, 3))).To(Equal("a b"))
	g.Expect(names(Terminating(of))).To(Equal("c d"))
}
