// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

// Each case is what an administrator, a person or a stop of the manager does between the first proof and the removal.
func TestStep_AfterProof_NothingOldCounts(t *testing.T) {
	until := func(f *fence, effect lifecycle.Effect) {
		f.until(effect)
		f.did()
	}
	t.Run("level removed", func(t *testing.T) {
		f := withPods(t, methods{bmc}, methods{pdu})
		f.fails["bmc"] = 3
		until(f, lifecycle.AddNoExecute)
		f.o.Plan.Levels = f.o.Plan.Levels[:1]
		f.run()
		f.Expect(f.did()).To(HavePrefix("AddNoExecute, "+cycle+", status bmc, AddOutOfService"), "the next proof is one of the levels")
	})
	t.Run("confirmation removed", func(t *testing.T) {
		f := withPods(t, methods{bmc})
		f.o.Spec.Restarts, f.fails["bmc"], f.o.ConfirmedOff = ptr.To[int32](0), always, f.o.Node.UID
		f.until(lifecycle.AddNoExecute)
		f.perform(lifecycle.AddNoExecute)
		f.o.Node.Ready = corev1.ConditionFalse
		f.run()
		f.o.Node.Ready, f.record.Release.ProvenAt, f.o.ConfirmedOff = corev1.ConditionUnknown, f.record.Since, ""
		f.run()
		f.Expect(f.did()).ToNot(ContainSubstring("AddOutOfService"))
		f.Expect(f.record.Evidence).To(BeNil())
	})
	t.Run("storage added", func(t *testing.T) {
		f := withStorage(t)
		until(f, lifecycle.RemovePods)
		f.o.Plan.Isolation = methods{san, fabric}
		f.o.Plan.Methods[fabric] = fencingv1.FenceMethod{StorageClasses: []fencingv1.StorageClassName{"silver"}}
		f.run()
		f.Expect(f.did()).To(Equal("off fabric, status fabric, status san, status fabric, RemovePods"))
	})
	t.Run("boot before the isolation", func(t *testing.T) {
		f := withStorage(t)
		f.until(lifecycle.RunJob)
		f.o.Node.BootID = "boot-1"
		f.perform(lifecycle.RunJob)
		f.run()
		f.o.Node.Ready = corev1.ConditionTrue
		f.after(time.Minute)
		f.Expect(f.did()).ToNot(ContainSubstring("on san"), "it has not booted since")
	})
	t.Run("another class", func(t *testing.T) {
		f := withStorage(t)
		f.o.Spec.Restarts = ptr.To[int32](0)
		f.until(lifecycle.TerminatePods)
		f.pods.Staying, f.off[san] = 0, false
		f.run()
		f.o.ConfirmedOff = f.o.Node.UID
		f.after(time.Minute)
		f.Expect(f.record.Release).To(HaveValue(And(HaveField("Scope", fencingv1.ScopeNode), HaveField("OutOfServiceTaint", true))))
	})
	for _, effect := range []lifecycle.Effect{lifecycle.AddNoExecute, lifecycle.AddOutOfService} {
		t.Run("stopped before "+string(effect), func(t *testing.T) {
			f := withPods(t, methods{bmc})
			f.o.Spec.Restarts = ptr.To[int32](0)
			f.untilProven()
			for effect == lifecycle.AddOutOfService && (f.record.Release == nil || f.record.Release.ProvenAt == nil) {
				f.once()
			}
			f.Expect(f.did()).ToNot(ContainSubstring(string(effect)))
			f.keepsPods = effect == lifecycle.AddOutOfService
			f.Expect(f.after(time.Hour).Why.Reason).To(Equal(map[bool]string{true: "Releasing"}[f.keepsPods]), "Kubernetes has its time")
			f.keepsPods = false
			f.endPods()
			f.after(time.Second)
			f.Expect(f.did()).To(HaveSuffix("on bmc, RemoveOutOfService" + ends))
			f.Expect(f.record.Release.Left).To(BeEmpty())
		})
	}
	t.Run("Pod tolerates the taint for an hour", func(t *testing.T) {
		f := withPods(t, methods{bmc})
		until(f, lifecycle.AddNoExecute)
		f.perform(lifecycle.AddNoExecute)
		f.pods.Staying = 1
		f.run()
		f.Expect(f.did()).To(Equal("AddNoExecute"))
		f.after(30 * time.Second)
		f.Expect(f.did()).To(HavePrefix("TerminatePods, status bmc, AddOutOfService"))
	})
	t.Run("confirmed after the second answer failed", func(t *testing.T) {
		f := withPods(t, methods{bmc})
		f.o.Spec.Restarts = ptr.To[int32](0)
		until(f, lifecycle.AddNoExecute)
		f.fails["bmc"] = always
		f.run()
		f.Expect(f.record.Reason).To(Equal("NotProvenOff"))
		f.o.ConfirmedOff = f.o.Node.UID
		f.after(time.Minute)
		f.Expect(f.record.Evidence).To(HaveValue(HaveField("Class", fencingv1.EvidenceAcknowledged)))
		f.Expect(f.did()).To(ContainSubstring("AddOutOfService"))
	})
	t.Run("row changed, and confirmed", func(t *testing.T) {
		f := withPods(t, methods{bmc})
		f.o.Spec.Restarts = ptr.To[int32](0)
		until(f, lifecycle.AddNoExecute)
		f.o.Plan.Methods[bmc] = fencingv1.FenceMethod{Agent: "fence_other"}
		f.run()
		f.Expect(f.record.Reason).To(Equal("DeviceChanged"))
		f.o.ConfirmedOff = f.o.Node.UID
		f.after(time.Minute)
		f.Expect(f.did()).To(Equal("AddNoExecute, AddOutOfService"))
	})
	t.Run("not released in time", func(t *testing.T) {
		f := withPods(t, methods{bmc})
		f.keepsPods, f.o.Node.Evicts = true, true
		f.run()
		f.did()
		f.Expect(f.after(10 * time.Minute).Why.Reason).To(Equal("WaitingForPods"))
		f.Expect(f.record.Restarts).To(BeEquivalentTo(1))
		f.Expect(f.did()).ToNot(ContainSubstring("on bmc"), "its Pods would start again")
	})
	t.Run("profile deleted, and confirmed", func(t *testing.T) {
		f := withPods(t, methods{bmc})
		f.o.Spec.Restarts, f.fails["bmc"] = ptr.To[int32](0), always
		f.run()
		f.o.Plan, f.o.Problem, f.o.ConfirmedOff = nil, &profile.Problem{Reason: "ProfileNotResolved"}, f.o.Node.UID
		f.after(time.Minute)
		f.Expect(f.did()).To(HaveSuffix("AddNoExecute, AddOutOfService"))
	})
}
