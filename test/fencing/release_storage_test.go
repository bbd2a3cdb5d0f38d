// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fencing

package fencing_test

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing/bmc"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing/kubelet"
)

// newPort adds a port of a storage switch. To a fence agent it is what a machine is: it is on or off, and a management controller answers.
func newPort(t *testing.T, w *fencing.World, name string) *bmc.Machine {
	t.Helper()
	port, err := w.Rack.Add(t.Context(), name)
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return port
}

// isolatedBy adds a method of isolation to a profile: a port, which cuts off the shared volumes.
func isolatedBy(port *bmc.Machine) func(*fencingv1.FenceProfile) {
	return func(profile *fencingv1.FenceProfile) {
		method := *profile.Spec.Methods[0].DeepCopy()
		method.Name, method.StorageClasses = "port", []fencingv1.StorageClassName{kubelet.SharedStorageClass}
		profile.Spec.Methods = append(profile.Spec.Methods, method)
		profile.Spec.Isolation = []fencingv1.MethodName{"port"}
		for i := range profile.Spec.Nodes {
			profile.Spec.Nodes[i].Parameters["port"] = fencingv1.Parameters{
				"ip": fencingv1.ParameterValue(port.IP), "ipport": fencingv1.ParameterValue(port.Port),
			}
		}
	}
}

// storageOnly takes the power management from a profile.
func storageOnly(profile *fencingv1.FenceProfile) { profile.Spec.PowerManagement = nil }

// onSharedVolume puts a StatefulSet on a volume that the port cuts off.
func onSharedVolume(set *appsv1.StatefulSet) {
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(kubelet.SharedStorageClass)
}

// A profile can only cut a machine off from its shared volumes. Pods that use nothing else run elsewhere, while the machine keeps its power
// and their containers still run there. Other Pods stay. The machine gets its volumes back after a boot, and not before: its containers
// would write to them.
func TestFenceRelease_StorageOnly_CoveredPodsMove(t *testing.T) {
	t.Parallel()
	w := theWorld(t)
	port := newPort(t, w, "storage-only-port")
	d := newDatabase(t, w, "storage-only", isolatedBy(port), storageOnly, onSharedVolume)
	d.Kubelet.Connect(kubelet.SharedStorageClass, port.Power)
	// Both Nodes fit, and the machine has joined first.
	other := fencing.NewStatefulSet(d.Name, "other", d.Name)
	d.create(other)
	stays := d.untilRuns("other-0", d.Name)
	d.hang()
	fence := d.fence()
	proven := d.until(fence, "the storage is proven isolated", func(f *fencingv1.NodeFence) bool { return f.Status.Evidence != nil })
	d.g.Expect(proven.Status.Evidence.Class).To(Equal(fencingv1.EvidenceStorageIsolation))
	d.untilRuns("db-0", d.spare.Name)
	d.until(fence, "the covered Pods are released", released)
	d.g.Expect(d.pod("other-0").UID).To(Equal(stays))
	d.g.Expect(d.pod("other-0").DeletionTimestamp).To(BeNil())
	for _, taint := range d.node().Spec.Taints {
		d.g.Expect(taint.Key).ToNot(Equal(corev1.TaintNodeOutOfService))
		d.g.Expect(taint.Key == fencingv1.FencingTaint && taint.Effect == corev1.TaintEffectNoExecute).To(BeFalse())
	}

	d.Kubelet.Recover()
	d.untilReady(corev1.ConditionTrue)
	d.log("the kubelet runs again, without a boot")
	d.g.Consistently(port.Power, "3s").Should(BeFalse())
	d.g.Expect(d.SetPower(false)).To(Succeed())
	d.g.Expect(d.SetPower(true)).To(Succeed())
	d.g.Eventually(port.Power, limit).Should(BeTrue())
	d.log("the machine has booted, and has its volumes")
	d.g.Expect(condition(d.untilEnded(fence), remedyv1.SucceededCondition)).To(Equal(metav1.ConditionTrue))
	d.undone()
	d.g.Expect(d.Requests()).To(BeEmpty())
	d.g.Expect(d.untilRuns("other-0", d.Name)).To(Equal(stays))
}
