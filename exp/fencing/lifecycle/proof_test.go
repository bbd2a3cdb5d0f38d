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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/jobs"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

// A Job that has not ended in time, as one that waits in a queue, is deleted: it must not switch the Node off later.
func TestStep_JobOverdue_IsDeleted(t *testing.T) {
	f := switching(t)
	f.o.Job = jobs.Observed{Exists: true}
	f.after(3 * time.Minute)
	f.Expect(f.did()).To(Equal("DeleteJob, status bmc, status bmc, on bmc, on fabric" + ends))
	f.Expect(f.record.Jobs[3].Result).To(Equal(fencingv1.JobUnknown))
	// It is waited for, also if it is not deleted the first time, and is an error after a minute.
	f = switching(t)
	f.o.Job, f.stays = jobs.Observed{Exists: true}, true
	f.waits(f.after(3*time.Minute), lifecycle.ReasonWaitingForJob, time.Minute)
	f.o.Job.Deleting = false
	f.waits(f.after(10*time.Second), lifecycle.ReasonWaitingForJob, 50*time.Second)
	f.Expect(f.did()).To(Equal("DeleteJob, DeleteJob"))
	f.waits(f.after(50*time.Second-time.Second), lifecycle.ReasonWaitingForJob, time.Second)
	f.waits(f.after(time.Second), lifecycle.ReasonJobNotEnding, time.Minute)
	f.Expect(f.did()).To(BeEmpty())
	// A Job that ends meanwhile counts.
	f.o.Deleting = true
	f.end(fencingv1.JobSucceeded)
	f.run()
	f.Expect(f.did()).To(Equal("on bmc, on fabric" + ends))
}

// A Node that runs, and whose device answers OFF, has the row of another machine.
func TestStep_OffBeforeAndReady_IsWrongMachine(t *testing.T) {
	f := newFence(t, one...)
	f.off[bmc] = true
	f.run()
	f.did()
	f.o.Node.Ready = corev1.ConditionTrue
	f.run()
	f.Expect(f.did()).To(BeEmpty())
	f.Expect(f.record.Reason).To(Equal(lifecycle.ReasonWrongMachine))
	f.Expect(f.record.Result).To(Equal(fencingv1.ResultFailed))
}

// A device answers OFF twice. One that does not answer the second time does not keep the Node off, and one that answers ON is switched
// off again.
func TestStep_SecondAnswer_IsAskedFor(t *testing.T) {
	proven := func() *fence {
		f := switching(t)
		f.next(bmc, fencingv1.ActionStatus)
		f.Expect(f.record.Evidence).To(BeNil())
		f.next(bmc, fencingv1.ActionStatus)
		f.Expect(f.record.Evidence).ToNot(BeNil())
		f.Expect(f.record.Methods[1].Confirmed).To(BeFalse())
		f.did()
		return f
	}
	f := proven()
	f.until(lifecycle.RunJob)
	f.Expect(f.record.Methods[1].Confirmed).To(BeTrue())
	f = proven()
	f.end(fencingv1.JobFailed)
	f.fails["status bmc"] = 2
	f.run()
	f.Expect(f.did()).To(Equal("status bmc, status bmc, on bmc, on fabric" + ends))
	f.Expect(f.record.Methods[1].Confirmed).To(BeFalse())
	f = proven()
	f.end(fencingv1.JobSucceeded)
	f.run()
	f.Expect(f.did()).To(Equal("off bmc, status bmc, status bmc, on bmc, on fabric" + ends))
	// It is not asked for a Machine that is being deleted.
	f = proven()
	f.o.TargetGone = true
	f.end(fencingv1.JobFailed)
	f.run()
	f.Expect(f.did()).To(Equal("RemoveTaint, Finish"))
	// Nor is a device that its row has no longer.
	f = proven()
	f.end(fencingv1.JobFailed)
	f.o.Plan.Methods[bmc] = fencingv1.FenceMethod{Name: bmc, Agent: "fence_other"}
	f.run()
	f.Expect(f.did()).To(BeEmpty())
	f.Expect(f.record.Reason).To(Equal(lifecycle.ReasonDeviceChanged))
	// If one of two answers ON, both are asked twice again.
	f = newFence(t, both...)
	f.next(pdu, fencingv1.ActionOff)
	f.until(lifecycle.RunJob)
	f.perform(lifecycle.RunJob)
	f.next(pdu, fencingv1.ActionStatus)
	f.did()
	f.end(fencingv1.JobSucceeded)
	f.run()
	f.Expect(f.did()).To(Equal("off pdu, status pdu, status bmc, status pdu, on pdu, on bmc" + ends))
	// Without retries, an answer ON is none the less no proof.
	f = proven()
	f.o.Spec.Retries = ptr.To[int32](0)
	f.end(fencingv1.JobSucceeded)
	f.run()
	f.Expect(f.did()).To(BeEmpty())
	f.Expect(f.record.Reason).To(Equal(lifecycle.ReasonNotProvenOff))
	f.Expect(f.record.Evidence).To(BeNil())
	// A device that switches itself on is switched off as often as another action is repeated.
	f = proven()
	f.end(fencingv1.JobSucceeded)
	f.stuck[bmc], f.off[bmc] = true, false
	f.run()
	f.Expect(f.did()).To(Equal("off bmc, status bmc, off bmc, status bmc"))
	f.Expect(f.record.Reason).To(Equal(lifecycle.ReasonNotProvenOff))
}

// A method whose row changes after it was switched off is that of another machine.
func TestStep_RowChanged_UsesMethodNoMore(t *testing.T) {
	other := fencingv1.FenceMethod{Name: bmc, Parameters: fencingv1.Parameters{"ip": "10.0.0.12"}}
	for name, c := range map[string]struct {
		to  fencingv1.Action
		did string
	}{
		"off":    {fencingv1.ActionOff, ""},
		"on":     {fencingv1.ActionOn, ""},
		"status": {fencingv1.ActionStatus, "on fabric" + ends},
	} {
		t.Run(name, func(t *testing.T) {
			f := switching(t)
			if c.to != fencingv1.ActionOff {
				f.fails["on bmc"] = 1
				f.next(bmc, c.to)
			}
			f.did()
			f.o.Plan.Methods[bmc] = other
			f.run()
			f.Expect(f.did()).To(BeEmpty())
			f.Expect(f.record.Reason).To(Equal(lifecycle.ReasonDeviceChanged))
			f.o.Deleting = true
			f.run()
			f.Expect(f.did()).To(Equal("on fabric" + ends))
			f.Expect(f.record.Methods[1].GivenUp).To(BeTrue())
		})
	}
}

// The answers of the device that a row had before are none of the device that it has now.
func TestStep_RowChangedBeforeOff_IsAskedAgain(t *testing.T) {
	other := fencingv1.FenceMethod{Name: bmc, Parameters: fencingv1.Parameters{"ip": "10.0.0.12"}}
	for name, answer := range map[string]fencingv1.JobResult{"OFF": fencingv1.JobOff, "ON": fencingv1.JobSucceeded} {
		t.Run(name, func(t *testing.T) {
			f := newFence(t, one...)
			f.next(bmc, fencingv1.ActionStatus)
			f.did()
			f.end(answer)
			f.o.Plan.Methods[bmc] = other
			f.run()
			f.Expect(f.did()).To(Equal(proven + ", on bmc" + ends))
			f.Expect(f.record.Methods[0].Device).To(Equal(profile.Device(&other)))
		})
	}
}

// A device that was never proven off, and does not switch on, does not keep a Node that another one has switched off and on.
func TestStep_FirstLevelSwitchesNothing_SecondSuffices(t *testing.T) {
	f := newFence(t, two...)
	f.fails["off bmc"], f.fails["on bmc"], f.stuck[bmc], f.staysAway = always, always, true, true
	f.waits(f.run(), lifecycle.ReasonWaitingForNode, 3*time.Second)
	f.did()
	f.o.Node.Ready = corev1.ConditionTrue
	f.waits(f.after(time.Minute), lifecycle.ReasonWaitingForNode, 3*time.Second)
	f.o.Node.Ready, f.o.Node.BootID = corev1.ConditionUnknown, "boot-1"
	f.waits(f.after(time.Minute), lifecycle.ReasonWaitingForNode, 3*time.Second)
	f.Expect(f.record.PoweredOn).To(BeNil())
	f.boot()
	f.run()
	f.Expect(f.did()).To(Equal("RemoveTaint, Finish"))
	f.Expect(f.record.Reason).To(Equal(lifecycle.ReasonRejoined))
	f.Expect(f.record.Methods).To(HaveExactElements(HaveField("GivenUp", true), HaveField("GivenUp", false)))
	// One that does not join again is an error, and one that was proven off by it has to switch it on.
	f = newFence(t, two...)
	f.o.Spec.Restarts = ptr.To[int32](0)
	f.fails["off bmc"], f.fails["on bmc"], f.stuck[bmc], f.staysAway = always, always, true, true
	f.run()
	f.waits(f.after(10*time.Minute-time.Second), lifecycle.ReasonWaitingForNode, time.Second)
	f.waits(f.after(time.Second), lifecycle.ReasonNotPoweredOn, time.Minute)
	f = newFence(t, both...)
	f.o.Spec.Restarts, f.fails["on bmc"] = ptr.To[int32](0), always
	f.waits(f.run(), lifecycle.ReasonNotPoweredOn, time.Minute)
}

// The boot that counts is the last one before the Node is switched off.
func TestStep_BootBeforeOff_IsNoRejoin(t *testing.T) {
	f := newFence(t, one...)
	f.next(bmc, fencingv1.ActionStatus)
	f.o.Node.BootID, f.staysAway = "boot-of-its-own", true
	f.run()
	f.Expect(f.record.Node.BootID).To(Equal("boot-of-its-own"))
	f.o.Node.Ready = corev1.ConditionTrue
	f.waits(f.after(10*time.Minute), lifecycle.ReasonWrongMachine, time.Minute)
}

// A Node with another provider ID than the bound one is not touched any more, but for the taint of this fence.
func TestStep_ProviderIDChanged_RemovesTaint(t *testing.T) {
	f := switching(t)
	f.record.Node.ProviderID, f.o.Node.ProviderID = "metal://1", "metal://2"
	f.run()
	f.Expect(f.did()).To(Equal("RemoveTaint, Finish"))
	f.Expect(f.record.Reason).To(Equal(lifecycle.ReasonNodeReplaced))
	f = switching(t)
	f.o.Node.UID = "another"
	f.run()
	f.Expect(f.did()).To(Equal("Finish"))
}

// A finalizer that another writer has removed is added again, until the NodeFence is deleted.
func TestStep_FinalizerRemoved_IsAddedAgain(t *testing.T) {
	f := switching(t)
	f.o.Finalizer = false
	f.run()
	f.Expect(f.did()).To(Equal("AddFinalizer, status bmc, status bmc, on bmc, on fabric" + ends))
	f = switching(t)
	f.o.Finalizer, f.o.Deleting = false, true
	f.run()
	f.Expect(f.did()).To(HavePrefix("status bmc"))
}

// An isolated Node stays isolated and locked during a pause.
func TestStep_PausedAfterIsolation_KeepsTaint(t *testing.T) {
	f := newFence(t, one...)
	f.o.Plan.Isolation = methods{fabric}
	f.next(bmc, fencingv1.ActionStatus)
	f.did()
	f.o.Paused = true
	f.waits(f.run(), lifecycle.ReasonPaused, 10*time.Second)
	f.Expect(f.did()).To(BeEmpty())
}

func TestStep_RowOfSwitchChanged_IsNotAsked(t *testing.T) {
	f := newFence(t, one...)
	f.o.Plan.Isolation, f.o.Spec.Restarts = methods{fabric}, ptr.To[int32](0)
	f.next(fabric, fencingv1.ActionOff)
	f.did()
	f.o.Plan.Methods[fabric] = fencingv1.FenceMethod{Name: fabric, Parameters: fencingv1.Parameters{"plug": "2"}}
	f.run()
	f.Expect(f.did()).To(Equal(proven + ", on bmc"))
	f.Expect(f.record.Reason).To(Equal(lifecycle.ReasonDeviceChanged))
}

// Of more fences than are allowed, the one whose UID is the largest begins again, so that they do not wait for each other for ever.
func TestStep_MoreFencesThanAllowed_OneStepsBack(t *testing.T) {
	admitted := func(before int) *fence {
		f := newFence(t, one...)
		f.next(bmc, fencingv1.ActionStatus)
		f.cluster.Fenced, f.cluster.FencedBefore = 1, before
		f.did()
		return f
	}
	f := admitted(0)
	f.waits(f.run(), lifecycle.ReasonTooManyFences, 10*time.Second)
	f.Expect(f.did()).To(BeEmpty())
	f.Expect(f.o.Node.Fence).To(Equal(ours))
	f = admitted(1)
	f.waits(f.run(), lifecycle.ReasonTooManyFences, 10*time.Second)
	f.Expect(f.did()).To(Equal("RemoveTaint"))
	f.cluster.Fenced, f.cluster.FencedBefore = 0, 0
	f.run()
	f.Expect(f.did()).To(Equal("AddTaint, off bmc, status bmc, status bmc, on bmc" + ends))
}
