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
)

// switching returns a fence whose first "off" runs. It has a method of isolation, and no restarts.
func switching(t *testing.T) *fence {
	t.Helper()
	f := newFence(t, one...)
	f.o.Plan.Isolation, f.o.Spec.Restarts = methods{fabric}, ptr.To[int32](0)
	f.next(bmc, fencingv1.ActionOff)
	f.Expect(f.did()).To(Equal(begins + "off fabric, status fabric, status bmc, off bmc"))
	return f
}

func TestStep_AfterOff_GoesOnToItsEnd(t *testing.T) {
	const end = "status bmc, status bmc, on bmc, on fabric" + ends
	ready := func(f *fence) { f.off[bmc], f.o.Node.Ready = false, corev1.ConditionTrue }
	for name, c := range map[string]struct {
		change      func(*fence)
		did, reason string
		result      fencingv1.Result
	}{
		"unchanged":   {func(*fence) {}, end, "Rejoined", "Succeeded"},
		"deleted":     {func(f *fence) { f.o.Deleting = true }, end, "Rejoined", "Succeeded"},
		"paused":      {func(f *fence) { f.o.Paused, f.o.Observe = true, true }, end, "Rejoined", "Succeeded"},
		"above limit": {func(f *fence) { f.cluster.NotReady = 9 }, end, "Rejoined", "Succeeded"},
		"taint of another": {
			func(f *fence) { f.o.Node.Fence = others },
			"status bmc, status bmc, on bmc, on fabric, Finish", "Rejoined", "Succeeded",
		},
		"Ready again":      {ready, "status bmc, on bmc, on fabric" + ends, "NodeReady", "Succeeded"},
		"no profile":       {func(f *fence) { f.o.Plan = nil }, "", "NotProvenOff", "Failed"},
		"target deleted":   {func(f *fence) { f.o.TargetGone = true }, "status bmc" + ends, "TargetDeleted", "Failed"},
		"Node deleted":     {func(f *fence) { f.o.Node.State = lifecycle.NodeGone }, "Finish", "NodeReplaced", "Failed"},
		"device not known": {func(f *fence) { delete(f.o.Plan.Methods, bmc) }, "", "DeviceChanged", "Failed"},
		"switch not known": {func(f *fence) { delete(f.o.Plan.Methods, fabric) }, "status bmc, status bmc, on bmc", "DeviceChanged", "Failed"},
		"on fails": {
			func(f *fence) { f.fails["on bmc"] = always },
			"status bmc, status bmc, on bmc, on bmc, on bmc", "NotPoweredOn", "Failed",
		},
		"device is cut off": {func(f *fence) { f.fails["bmc"] = always }, "status bmc, status bmc, status bmc", "NotProvenOff", "Failed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := switching(t)
			c.change(f)
			f.run()
			f.Expect(f.did()).To(Equal(c.did))
			f.Expect(f.record.Reason).To(Equal(c.reason))
			f.Expect(f.record.Result).To(Equal(c.result))
		})
	}
}

// What has failed is undone once when the request is deleted. The finalizer is removed in every case.
func TestStep_DeletedInError_UndoesOnce(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*fence)
		did     string
		givenUp methods
	}{
		"all works again": {func(*fence) {}, "on bmc, on fabric" + ends, nil},
		"device dead":     {func(f *fence) { f.fails["bmc"] = always }, "on bmc, on fabric" + ends, methods{bmc}},
		"all dead": {
			func(f *fence) { f.fails["bmc"], f.fails["fabric"] = always, always },
			"on bmc, on fabric" + ends,
			methods{fabric, bmc},
		},
		"device not known": {func(f *fence) { delete(f.o.Plan.Methods, bmc) }, "on fabric" + ends, methods{bmc}},
		"no profile":       {func(f *fence) { f.o.Plan = nil }, "RemoveTaint, Finish", methods{fabric, bmc}},
		"target deleted":   {func(f *fence) { f.o.TargetGone = true }, "RemoveTaint, Finish", methods{fabric, bmc}},
	} {
		t.Run(name, func(t *testing.T) {
			f := switching(t)
			f.fails["status bmc"] = 3
			f.waits(f.run(), lifecycle.ReasonNotProvenOff, time.Minute)
			f.did()
			f.o.Deleting = true
			c.change(f)
			f.run()
			f.Expect(f.did()).To(Equal(c.did))
			f.Expect(f.record.Result).To(Equal(fencingv1.ResultFailed))
			var givenUp methods
			for i := range f.record.Methods {
				if f.record.Methods[i].GivenUp {
					givenUp = append(givenUp, f.record.Methods[i].Name)
				}
			}
			f.Expect(givenUp).To(Equal(c.givenUp))
		})
	}
}

// What has failed as often as it is repeated is tried again.
func TestStep_DeletedAfterOnFailed_TriesAgain(t *testing.T) {
	f := switching(t)
	f.fails["on bmc"] = 3
	f.run()
	f.o.Deleting = true
	f.did()
	f.run()
	f.Expect(f.did()).To(Equal("on bmc, on fabric" + ends))
}

// An "on" that does not end is left when the request is deleted, and is not waited for again.
func TestStep_DeletedWhileOnHangs_GivesUp(t *testing.T) {
	f := switching(t)
	f.fails["status bmc"] = 3
	f.run()
	f.o.Deleting, f.hangs, f.stays = true, true, true
	f.waits(f.run(), lifecycle.ReasonWaitingForJob, 3*time.Minute)
	f.did()
	f.after(3 * time.Minute)
	f.after(time.Minute)
	f.Expect(f.did()).To(Equal("DeleteJob, RemoveTaint, Finish"))
	f.Expect(f.record.Methods).To(HaveEach(HaveField("GivenUp", true)))
	f.Expect(f.record.Action.Ended).To(BeTrue())
	// What is on again, and what was never off, is not given up.
	f = switching(t)
	f.o.Plan.Levels = append(f.o.Plan.Levels, methods{pdu})
	f.fails["status bmc"], f.fails["status pdu"] = 3, 3
	f.run()
	f.o.Deleting = true
	f.next(fabric, fencingv1.ActionOn)
	f.o.Job, f.stays = jobs.Observed{Exists: true}, true
	f.after(3 * time.Minute)
	f.after(time.Minute)
	f.Expect(f.record.Methods).To(HaveExactElements(HaveField("GivenUp", true), HaveField("GivenUp", false), HaveField("GivenUp", false)))
}

// While an "off" runs, no other Job begins, the person who has withdrawn the request.
func TestStep_DeletedWhileOffHangs_BeginsNothing(t *testing.T) {
	f := switching(t)
	f.o.Deleting, f.o.Job, f.stays = true, jobs.Observed{Exists: true}, true
	f.after(3 * time.Minute)
	f.after(time.Minute)
	f.Expect(f.did()).To(Equal("DeleteJob, RemoveTaint, Finish"))
	f.Expect(f.record.Result).To(Equal(fencingv1.ResultFailed))
}

func TestStep_BeforeOff_Stops(t *testing.T) {
	ready := func(f *fence) { f.o.Node.Ready = corev1.ConditionTrue }
	for name, c := range map[string]struct {
		during fencingv1.MethodName
		change func(*fence)
		did    string
	}{
		"paused":             {fabric, func(f *fence) { f.o.Paused = true }, ""},
		"observe":            {fabric, func(f *fence) { f.o.Observe = true }, ""},
		"deleted":            {fabric, func(f *fence) { f.o.Deleting = true }, "on fabric" + ends},
		"Ready":              {fabric, ready, "on fabric" + ends},
		"Ready before off":   {bmc, ready, "on san, on fabric" + ends},
		"paused before off":  {bmc, func(f *fence) { f.o.Paused = true }, ""},
		"deleted before off": {bmc, func(f *fence) { f.o.Canceled = true }, "on san, on fabric" + ends},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFence(t, one...)
			f.o.Plan.Isolation = methods{fabric, san}
			f.next(c.during, fencingv1.ActionStatus)
			f.did()
			c.change(f)
			f.run()
			f.Expect(f.did()).To(Equal(c.did))
		})
	}
}

// What was switched on, and then off again, is switched on again.
func TestStep_OffAfterOn_IsSwitchedOnAgain(t *testing.T) {
	f := newFence(t, one...)
	f.o.Plan.Isolation = methods{fabric, san}
	f.next(bmc, fencingv1.ActionStatus)
	f.o.Canceled, f.fails["on fabric"] = true, 3
	f.did()
	for range 3 {
		f.next(fabric, fencingv1.ActionOn)
	}
	f.o.Canceled = false
	f.run()
	did := f.did()
	f.Expect(did).To(HavePrefix("on san, on fabric, on fabric, on fabric, " +
		"status fabric, status san, off san, status san, status bmc, off bmc"))
	f.Expect(did).To(HaveSuffix("on bmc, on san, on fabric" + ends))
}

// Without a profile, nothing is known of the devices. A fence that has failed does not begin again by itself.
func TestStep_Restart_NeedsProfile(t *testing.T) {
	f := switching(t)
	f.o.Spec.Restarts = ptr.To[int32](1)
	plan := f.o.Plan
	f.o.Plan = nil
	f.waits(f.run(), lifecycle.ReasonNotProvenOff, time.Minute)
	f.Expect(f.record.Result).To(Equal(fencingv1.ResultFailed))
	f.o.Plan = plan
	f.waits(f.run(), lifecycle.ReasonNotProvenOff, time.Minute)
	f.Expect(f.record.Restarts).To(BeZero())
}

// A restart waits for no power delay, and counts no retries of the last attempt.
func TestStep_Restart_CountsAgain(t *testing.T) {
	f := newFence(t, one...)
	f.o.Spec.PowerDelay, f.fails["bmc"] = lasting(time.Minute), 3
	f.run()
	f.now = f.now.Add(time.Minute)
	for range 3 {
		f.next(bmc, fencingv1.ActionStatus)
	}
	f.o.Busy = map[fencingv1.MethodName]bool{bmc: true}
	f.waits(f.run(), lifecycle.ReasonDeviceBusy, 3*time.Second)
	f.Expect(f.record.Restarts).To(Equal(int32(1)))
	f.Expect(f.record.Retries).To(BeZero())
}

// Once it has joined again, a fence waits for no other boot: the isolation is undone also if the Node is not Ready any more.
func TestStep_RestartAfterRejoin_OnlyUndoes(t *testing.T) {
	f := switching(t)
	f.o.Spec.Restarts, f.fails["on fabric"] = ptr.To[int32](1), 3
	f.next(fabric, fencingv1.ActionOn)
	f.o.Node.Ready = corev1.ConditionUnknown
	f.run()
	f.Expect(f.did()).To(Equal("status bmc, status bmc, on bmc, on fabric, on fabric, on fabric, on fabric" + ends))
	f.Expect(f.record.Result).To(Equal(fencingv1.ResultSucceeded))
}

// The Job of a method that is no longer known is not created.
func TestStep_JobOfUnknownMethod_IsNotCreated(t *testing.T) {
	f := switching(t)
	f.o.Job = jobs.Observed{}
	delete(f.o.Plan.Methods, bmc)
	f.run()
	f.Expect(f.did()).To(BeEmpty())
	f.Expect(f.record.Reason).To(Equal(lifecycle.ReasonDeviceChanged))
	f.Expect(f.record.Jobs[3].Result).To(Equal(fencingv1.JobUnknown))
}

func TestStep_SecondOff_NeedsReadableNode(t *testing.T) {
	f := switching(t)
	f.off[bmc] = false
	f.unread()
	f.waits(f.run(), lifecycle.ReasonTargetUnreadable, 3*time.Second)
	f.Expect(f.did()).To(Equal("status bmc"))
	f.waits(f.after(3*time.Minute-time.Second), lifecycle.ReasonTargetUnreadable, time.Second)
	f.waits(f.after(time.Second), lifecycle.ReasonNotProvenOff, time.Minute)
	f.Expect(f.did()).To(BeEmpty())
	f = switching(t)
	f.off[bmc] = false
	f.run()
	f.Expect(f.did()).To(Equal("status bmc, off bmc, status bmc, status bmc, on bmc, on fabric" + ends))
}

// Its taint is the lock of the Node, so it is added again before the Node is switched off.
func TestStep_TaintRemovedBeforeOff_IsAddedAgain(t *testing.T) {
	f := newFence(t, one...)
	f.hangs = true
	f.run()
	f.o.Node.Fence, f.hangs = "", false
	f.end(fencingv1.JobSucceeded)
	f.run()
	f.Expect(f.did()).To(Equal(begins + "status bmc, AddTaint, off bmc, status bmc, status bmc, on bmc" + ends))
	// The isolation is undone also if the request is deleted before that.
	f = newFence(t, one...)
	f.o.Plan.Isolation = methods{fabric}
	f.next(bmc, fencingv1.ActionStatus)
	f.o.Node.Fence = ""
	f.until(lifecycle.AddTaint)
	f.did()
	f.o.Deleting = true
	f.run()
	f.Expect(f.did()).To(Equal("on fabric, Finish"))
}

// A Node that was off before is not switched on: a person may be working on it.
func TestStep_OffBefore_StaysOff(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fence)
		did    string
	}{
		"waits":    {func(*fence) {}, ""},
		"new boot": {(*fence).boot, "RemoveTaint, Finish"},
		"no boot ID": {
			func(f *fence) { f.o.Node.Ready, f.record.Node.BootID, f.o.Node.BootID = corev1.ConditionTrue, "", "" },
			"RemoveTaint, Finish",
		},
		"canceled":    {func(f *fence) { f.o.Canceled = true }, "RemoveTaint, Finish"},
		"target gone": {func(f *fence) { f.o.TargetGone = true }, "RemoveTaint, Finish"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFence(t, one...)
			f.off[bmc] = true
			f.waits(f.run(), lifecycle.ReasonWaitingForNode, 10*time.Second)
			f.did()
			c.change(f)
			f.run()
			f.Expect(f.did()).To(Equal(c.did))
			f.Expect(f.record.Reason).To(Equal(lifecycle.ReasonPoweredOffBefore))
			f.Expect(f.record.Result).To(Equal(fencingv1.ResultSucceeded))
		})
	}
}

func TestStep_CheckOfDevices_EndsEarly(t *testing.T) {
	check := func(t *testing.T) *fence {
		t.Helper()
		f := newFence(t, two...)
		f.o.Spec.Mode, f.hangs = fencingv1.CheckDevices, true
		f.run()
		f.hangs = false
		f.end(fencingv1.JobSucceeded)
		return f
	}
	f := check(t)
	f.o.Canceled = true
	f.run()
	f.Expect(f.did()).To(Equal("status bmc, Finish"))
	f.Expect(f.record.Reason).To(Equal(lifecycle.ReasonCanceled))
	f = check(t)
	f.o.Plan = nil
	f.run()
	f.Expect(f.did()).To(Equal("status bmc, Finish"))
	f.Expect(f.record.Reason).To(Equal(lifecycle.ReasonProfileNotResolved))
}

func TestStep_Undo_WaitsForReadableNode(t *testing.T) {
	f := newFence(t, one...)
	f.o.Spec.PowerDelay = lasting(time.Minute)
	f.run()
	f.o.Deleting = true
	node := f.o.Node
	f.unread()
	f.waits(f.run(), lifecycle.ReasonTargetUnreadable, 10*time.Second)
	f.o.Node = node
	f.run()
	f.Expect(f.did()).To(Equal(begins + "RemoveTaint, Finish"))
}
