// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// pod creates a Pod on worker-1.
func (s *stage) pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{"name": name}},
		Spec:       corev1.PodSpec{NodeName: "worker-1", Containers: []corev1.Container{{Name: "a", Image: "a"}}},
	}
	for _, c := range change {
		c(p)
	}
	s.Expect(s.admin.Create(s.t.Context(), p)).To(Succeed())
	return p
}

// listed are the Pods of worker-1.
func (s *stage) listed() []corev1.Pod {
	all, onNode := &corev1.PodList{}, client.MatchingFields{"spec.nodeName": "worker-1"}
	s.Expect(s.admin.List(s.t.Context(), all, client.InNamespace(s.namespace), onNode)).To(Succeed())
	return all.Items
}

// pods are the names of the Pods of worker-1. Those that terminate end with "-".
func (s *stage) pods() string {
	all := s.listed()
	names := make([]string, 0, len(all))
	for i := range all {
		name := all[i].Name
		if all[i].DeletionTimestamp != nil {
			name += "-"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (s *stage) attachment(name string) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: "csi.example.com", NodeName: "worker-1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("a")},
	}}
	s.Expect(s.admin.Create(s.t.Context(), a)).To(Succeed())
	s.t.Cleanup(func() { s.Expect(client.IgnoreNotFound(s.admin.Delete(context.Background(), a))).To(Succeed()) })
	return a
}

// playKubernetes does what taint-eviction, PodGC and attach-detach do.
func (s *stage) playKubernetes(a *storagev1.VolumeAttachment) {
	all, node := s.listed(), s.getNode("worker-1")
	has := func(key string) bool {
		return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == key && t.Effect == corev1.TaintEffectNoExecute
		})
	}
	for i := range all {
		switch pod := &all[i]; {
		case pod.Name == "agent":
			// It tolerates every taint.
		case pod.DeletionTimestamp != nil && has(corev1.TaintNodeOutOfService):
			s.Expect(s.admin.Delete(s.t.Context(), pod, client.GracePeriodSeconds(0))).To(Succeed())
			s.Expect(client.IgnoreNotFound(s.admin.Delete(s.t.Context(), a))).To(Succeed())
		case pod.DeletionTimestamp == nil && has(fencingv1.FencingTaint):
			s.Expect(s.admin.Delete(s.t.Context(), pod)).To(Succeed())
		}
	}
}

func TestReconcile_Workload_IsReleasedAfterProof(t *testing.T) {
	s := newStage(t)
	s.profile()
	s.pod("db-0")
	s.pod("agent", func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	})
	attachment, messages := s.attachment("csi-"+s.namespace), []string{}
	f := s.fence("release")
	s.run(f, func(f *fencingv1.NodeFence) bool {
		s.playKubernetes(attachment)
		if c := meta.FindStatusCondition(f.Status.Conditions, fencingv1.ReleasedCondition); c != nil {
			messages = append(messages, c.Reason+": "+c.Message)
		}
		return final(f)
	})
	s.Expect(strings.Join(s.played, ", ")).To(Equal(cycle))
	s.Expect(s.pods()).To(Equal("agent"))
	found := s.get(f)
	s.Expect(condition(found, "Released")).To(Equal("True Released"))
	s.Expect(condition(found, "Succeeded")).To(Equal("True Rejoined"))
	s.Expect(found.Status.Release.Pods).To(BeEquivalentTo(1))
	s.Expect(s.drained()).To(Equal("FenceAdmitted PowerOffRequested NodeFenced WorkloadReleased PowerOnRequested NodeRejoined NodeRecovered"))
	s.Expect(messages).To(ContainElements(
		And(HavePrefix("WaitingForPods: "), ContainSubstring("1 do not terminate yet"), ContainSubstring("Pod "+s.namespace+"/db-0"),
			ContainSubstring("VolumeAttachment "+attachment.Name), Not(ContainSubstring("agent"))),
		MatchRegexp("^WaitingForJob: 1 Pod terminating since .*Z. Method ipmi: Job .* performs status"),
		MatchRegexp("^Releasing: 1 Pod terminating since .*Z, proven again at .*Z. These are being removed from Node worker-1")))
	s.Expect(nodeFacts(s.getNode("worker-1"), f.UID)).To(And(HaveField("Fence", ""), HaveField("OutOfService", false)))
}

// Its taint is not removed, and the Pods that are left are named.
func TestReconcile_ForeignOutOfService_IsKept(t *testing.T) {
	s := newStage(t)
	s.profile()
	s.pod("db-0", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/stuck"} })
	node := s.getNode("worker-1")
	node.Spec.Taints = append(node.Spec.Taints, outOfService)
	s.Expect(s.admin.Update(t.Context(), node)).To(Succeed())
	a := s.attachment("csi-" + s.namespace)
	f := s.fence("foreign")
	s.run(f, func(f *fencingv1.NodeFence) bool {
		s.playKubernetes(a)
		return final(f)
	})
	found := s.get(f)
	s.Expect(condition(found, "Released")).To(Equal("False NotReleased"))
	s.Expect(found.Status.Release.Left).To(ConsistOf("Pod " + s.namespace + "/db-0"))
	s.Expect(s.drained()).ToNot(ContainSubstring("WorkloadReleased"))
	s.Expect(nodeFacts(s.getNode("worker-1"), f.UID)).To(And(HaveField("Fence", ""), HaveField("OutOfService", true)))
	s.Expect(s.admin.Patch(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "db-0"}},
		client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
}

func TestReconcile_StorageIsolation_RemovesPodsOfTheStorage(t *testing.T) {
	s := newStage(t)
	s.mortal = true
	s.profile(func(p *fencingv1.FenceProfile) {
		p.Spec.Methods = []fencingv1.FenceMethod{{Name: "fabric", Agent: "fence_brocade", StorageClasses: []fencingv1.StorageClassName{"gold"}}}
		p.Spec.Nodes[0].Parameters = nil
		p.Spec.Isolation, p.Spec.PowerManagement = []fencingv1.MethodName{"fabric"}, nil
	})
	uses := func(claim string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "a", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}}
		}
	}
	for _, class := range []string{"gold", "other"} {
		s.Expect(s.admin.Create(t.Context(), &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: class}, Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: ptr.To(class), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
			},
		})).To(Succeed())
	}
	s.pod("db-0", uses("gold"))
	s.pod("db-1", uses("other"))
	s.pod("db-2", uses("none"))
	s.pod("web")
	off := false
	s.answer = func(_, action string) (int32, string) {
		switch {
		case action == "status" && off:
			return 2, "Status: OFF"
		case action == "status":
			return 0, "Status: ON"
		}
		off = action == "off"
		return 0, "Success"
	}
	f := s.fence("storage")
	s.run(f, func(f *fencingv1.NodeFence) bool { return f.Status.Release != nil && f.Status.Release.EndedAt != nil })
	s.Expect(s.pods()).To(Equal("db-1 db-2 web"))
	found := s.get(f)
	s.Expect(condition(found, "Fenced")).To(Equal("True StorageIsolation"))
	s.Expect(meta.FindStatusCondition(found.Status.Conditions, "Fenced").Message).To(And(
		HaveSuffix("and may still run. StorageClasses: gold"), Not(ContainSubstring("proven off"))))
	s.Expect(nodeFacts(s.getNode("worker-1"), f.UID)).To(And(HaveField("Evicts", false), HaveField("OutOfService", false)))
}

// The BMC does not answer, and a user has switched the machine off by hand.
func TestReconcile_ConfirmedOff_IsProof(t *testing.T) {
	s := newStage(t)
	s.profile()
	s.pod("db-0")
	a := s.attachment("csi-" + s.namespace)
	s.answer = func(string, string) (int32, string) { return 1, "Failed" }
	f := s.fence("confirmed")
	s.run(f, failed)
	s.Expect(condition(s.get(f), "Succeeded")).To(Equal("False NotProvenOff"))
	s.Expect(s.pods()).To(Equal("db-0"))
	message := meta.FindStatusCondition(s.get(f).Status.Conditions, "Succeeded").Message
	command := "kubectl annotate nodefence -n " + s.namespace + " confirmed " + fencingv1.ConfirmOffAnnotation + "=" + string(s.node.UID)
	s.Expect(message).To(HaveSuffix("If you have switched its machine off, confirm that it stays off: " + command))
	s.Expect(s.admin.Patch(t.Context(), f, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"`+fencingv1.ConfirmOffAnnotation+`":"`+string(s.node.UID)+`"}}}`)))).To(Succeed())
	s.run(f, func(f *fencingv1.NodeFence) bool {
		s.playKubernetes(a)
		return f.Status.Release != nil && f.Status.Release.EndedAt != nil
	})
	s.Expect(condition(s.get(f), "Fenced")).To(Equal("True Acknowledged"))
	s.Expect(condition(s.get(f), "Released")).To(Equal("True Released"))
	s.Expect(s.pods()).To(BeEmpty())
}

// A disruption budget delays the drain, and a Pod that is waited for is not evicted.
func TestReconcile_Drain_EvictsWithinBudgets(t *testing.T) {
	s := newStage(t)
	s.profile()
	s.ready("worker-1", corev1.ConditionTrue, "boot-1")
	s.pod("web")
	training, db := s.pod("training"), s.pod("db")
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "db"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: db.Labels}},
	}
	s.Expect(s.admin.Create(t.Context(), budget)).To(Succeed())
	budget.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: budget.Generation, ExpectedPods: 1, CurrentHealthy: 1, DesiredHealthy: 1,
	}
	s.Expect(s.admin.Status().Update(t.Context(), budget)).To(Succeed())
	db.Status.Phase = corev1.PodRunning
	db.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	s.Expect(s.admin.Status().Update(t.Context(), db)).To(Succeed())
	f := s.fence("drain", func(f *fencingv1.NodeFence) {
		f.Spec.Drain = &fencingv1.Drain{
			Timeout: remedyv1.Duration{Duration: metav1.Duration{Duration: time.Hour}},
			WaitFor: &remedyv1.Selector{MatchLabels: map[string]remedyv1.LabelValue{"name": "training"}},
		}
	})
	s.reconcile(f)
	s.reconcile(f)
	s.Expect(s.pods()).To(Equal("db training web-"))
	found := meta.FindStatusCondition(s.get(f).Status.Conditions, "Succeeded")
	s.Expect(found).To(And(HaveField("Reason", "Draining"), HaveField("Message", ContainSubstring("Pod "+s.namespace+"/training"))))
	budget.Status.DisruptionsAllowed = 1
	s.Expect(s.admin.Status().Update(t.Context(), budget)).To(Succeed())
	s.reconcile(f)
	s.Expect(s.pods()).To(Equal("db- training web-"))
	for _, pod := range []client.Object{training, db, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}} {
		s.Expect(s.admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0))).To(Succeed())
	}
	s.run(f, final)
	s.Expect(strings.Join(s.played, ", ")).To(Equal(cycle))
}

func TestObserve_WorkloadUnreadable_IsReported(t *testing.T) {
	s := newStage(t)
	s.pod("db-0")
	fails := ""
	nodes := interceptor.NewClient(s.r.Live.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			_, pods := list.(*corev1.PodList)
			if fails == "Pods" && pods || fails == "VolumeAttachments" && !pods {
				return errors.New("secret text")
			}
			return c.List(ctx, list, options...)
		},
	})
	f := &fencingv1.NodeFence{}
	f.Status = fencingv1.NodeFenceStatus{
		Phase: fencingv1.PhaseDone, Step: fencingv1.StepPowerManagement, Evidence: &fencingv1.Evidence{Class: fencingv1.EvidencePowerOff},
	}
	read := func() *observed {
		o := &observed{node: s.node, nodes: nodes, target: &target{cluster: workload.ManagementCluster}}
		s.r.readWorkload(t.Context(), f, o)
		return o
	}
	s.Expect(read().Workload).To(Equal(&lifecycle.Workload{Pods: 1, Staying: 1, Names: []string{"Pod " + s.namespace + "/db-0"}}))
	for _, fails = range []string{"Pods", "VolumeAttachments"} {
		o := read()
		s.Expect(o.Workload).To(BeNil())
		s.Expect(o.Unreadable).To(And(HavePrefix("the "+fails+" of Node worker-1 cannot be listed: "), Not(ContainSubstring("secret"))))
	}
	f.Status.Evidence.Class = fencingv1.EvidenceStorageIsolation
	s.Expect(read().Workload).To(BeNil(), "without a profile, the covered storage is unknown")
}

func TestNodeFacts_TwoFences_OtherCounts(t *testing.T) {
	g := NewWithT(t)
	taint := func(value string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: fencingv1.FencingTaint, Value: value, Effect: effect}
	}
	own, evicts := taint("own", corev1.TaintEffectNoSchedule), taint("own", corev1.TaintEffectNoExecute)
	for _, test := range []struct {
		taints []corev1.Taint
		fence  string
		evicts bool
	}{
		{nil, "", false},
		{[]corev1.Taint{own}, "own", false},
		{[]corev1.Taint{own, evicts}, "own", true},
		{[]corev1.Taint{taint("other", corev1.TaintEffectNoExecute)}, "other", false},
		{[]corev1.Taint{own, taint("other", corev1.TaintEffectNoExecute)}, "other", false},
		{[]corev1.Taint{taint("z", corev1.TaintEffectNoSchedule), evicts}, "z", true},
		{[]corev1.Taint{taint("z", corev1.TaintEffectNoSchedule), taint("a", corev1.TaintEffectNoExecute)}, "a", false},
		{[]corev1.Taint{own, taint("", corev1.TaintEffectNoExecute)}, "unknown", false},
		{[]corev1.Taint{taint("other", corev1.TaintEffectNoSchedule)}, "other", false},
	} {
		facts := nodeFacts(&corev1.Node{Spec: corev1.NodeSpec{Taints: test.taints}}, "own")
		g.Expect(facts.Fence).To(Equal(test.fence))
		g.Expect(facts.Evicts).To(Equal(test.evicts))
		g.Expect(facts.Marked).To(Equal(slices.Contains(test.taints, own) || slices.Contains(test.taints, evicts)))
	}
}
