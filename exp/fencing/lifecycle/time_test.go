// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/jobs"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

func lasting(d time.Duration) *remedyv1.Duration {
	return &remedyv1.Duration{Duration: metav1.Duration{Duration: d}}
}

// waits expects what a fence waits for, and for how long.
func (f *fence) waits(out lifecycle.Outcome, reason string, wake time.Duration) {
	f.Expect(out.Why.Reason).To(Equal(reason), "%+v", f.record)
	f.Expect(out.Wake.Sub(f.now)).To(Equal(wake), reason)
}

func (f *fence) expires(at time.Time) {
	f.Expect(f.record.Deadline).ToNot(BeNil())
	f.Expect(f.record.Deadline.Time).To(Equal(at))
}

func TestStep_PowerDelay_WaitsForNode(t *testing.T) {
	delayed := func(t *testing.T) *fence {
		t.Helper()
		f := newFence(t, one...)
		f.o.Spec.PowerDelay = lasting(5 * time.Minute)
		f.waits(f.run(), lifecycle.ReasonPowerDelay, 3*time.Second)
		f.Expect(f.did() + ", ").To(Equal(begins))
		f.expires(start.Add(5 * time.Minute))
		return f
	}
	for name, c := range map[string]struct {
		change      func(*fence)
		did, reason string
		result      fencingv1.Result
	}{
		"Node Ready": {
			func(f *fence) { f.o.Node.Ready = corev1.ConditionTrue },
			"RemoveTaint, Finish", "NodeReady", fencingv1.ResultSucceeded,
		},
		"deleted":     {func(f *fence) { f.o.Deleting = true }, "RemoveTaint, Finish", "Canceled", fencingv1.ResultCanceled},
		"canceled":    {func(f *fence) { f.o.Canceled = true }, "RemoveTaint, Finish", "Canceled", fencingv1.ResultCanceled},
		"target gone": {func(f *fence) { f.o.TargetGone = true }, "RemoveTaint, Finish", "TargetDeleted", fencingv1.ResultCanceled},
		"Node gone":   {func(f *fence) { f.o.Node.State = lifecycle.NodeGone }, "Finish", "NodeReplaced", fencingv1.ResultFailed},
		"another UID": {func(f *fence) { f.o.Node.UID = "another" }, "Finish", "NodeReplaced", fencingv1.ResultFailed},
		"provider ID": {func(f *fence) { f.o.Node.ProviderID = "another" }, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := delayed(t)
			c.change(f)
			f.run()
			f.Expect(f.did()).To(Equal(c.did))
			f.Expect(f.record.Reason).To(Equal(c.reason))
			f.Expect(f.record.Result).To(Equal(c.result))
		})
	}
	f := delayed(t)
	f.waits(f.after(4*time.Minute+58*time.Second), lifecycle.ReasonPowerDelay, 2*time.Second)
	f.after(2 * time.Second)
	f.Expect(f.did()).To(Equal(proven + ", on bmc" + ends))
}

// The API server keeps seconds, and a fraction of one must not matter.
func TestStep_Fractions_AreCut(t *testing.T) {
	f := newFence(t, one...)
	f.now, f.hangs = start.Add(999*time.Millisecond), true
	f.Expect(f.run().Wake).To(Equal(start.Add(3 * time.Minute)))
	f.Expect(f.record.Since.Time).To(Equal(start))
}

func TestStep_BoundProviderID_MustStay(t *testing.T) {
	f := newFence(t, one...)
	f.o.Node.ProviderID, f.o.Spec.PowerDelay = "bound", lasting(time.Minute)
	f.run()
	f.o.Node.ProviderID = "another"
	f.run()
	f.Expect(f.record.Reason).To(Equal(lifecycle.ReasonNodeReplaced))
}

func TestStep_RejoinTimeout_EndsInError(t *testing.T) {
	for name, c := range map[string]struct {
		spec    *remedyv1.Duration
		timeout time.Duration
		end     func(*fence)
		// again: the fence is restarted.
		again  bool
		reason string
	}{
		"not Ready":         {nil, 10 * time.Minute, func(*fence) {}, true, "NotRejoined"},
		"by spec":           {lasting(time.Minute), time.Minute, func(*fence) {}, true, "NotRejoined"},
		"same boot":         {nil, 10 * time.Minute, func(f *fence) { f.o.Node.Ready = corev1.ConditionTrue }, false, "WrongMachine"},
		"unreadable":        {nil, 10 * time.Minute, (*fence).unread, true, "NotRejoined"},
		"booted, not Ready": {nil, 10 * time.Minute, func(f *fence) { f.o.Node.BootID = "boot-1" }, true, "NotRejoined"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFence(t, one...)
			f.staysAway, f.o.Spec.RejoinTimeout = true, c.spec
			f.waits(f.run(), lifecycle.ReasonWaitingForNode, 3*time.Second)
			f.Expect(f.did()).To(Equal(begins + proven + ", on bmc"))
			f.expires(start.Add(c.timeout))
			c.end(f)
			f.waits(f.after(c.timeout-time.Second), lifecycle.ReasonWaitingForNode, time.Second)
			out := f.after(time.Second)
			if c.again {
				f.waits(out, lifecycle.ReasonWaitingForNode, 3*time.Second)
				f.Expect(f.did()).To(Equal("on bmc"), "it is tried again, and not switched off again")
				f.Expect(f.record.Restarts).To(Equal(int32(1)))
				out = f.after(c.timeout)
			}
			f.waits(out, c.reason, time.Minute)
			f.Expect(f.did()).To(BeEmpty())
			f.Expect(f.record.Result).To(Equal(fencingv1.ResultFailed))
		})
	}
}

// Without a bound boot ID, a new one cannot be distinguished from the old one.
func TestStep_NoBootID_ReadySuffices(t *testing.T) {
	f := newFence(t, one...)
	f.o.Node.BootID, f.staysAway = "", true
	f.run()
	f.o.Node.Ready = corev1.ConditionTrue
	f.run()
	f.Expect(f.record.Reason).To(Equal(lifecycle.ReasonRejoined))
	f.Expect(f.record.Rejoined).ToNot(BeNil())
}

func TestStep_JobRuns_WaitsForItsEnd(t *testing.T) {
	f := newFence(t, one...)
	f.hangs, f.stays = true, true
	f.waits(f.run(), lifecycle.ReasonWaitingForJob, 3*time.Minute)
	f.expires(start.Add(3 * time.Minute))
	f.o.Plan.Methods[bmc] = fencingv1.FenceMethod{Timeout: lasting(20 * time.Minute)}
	f.waits(f.run(), lifecycle.ReasonWaitingForJob, 21*time.Minute)
	plan := f.o.Plan
	f.o.Plan = nil
	f.waits(f.run(), lifecycle.ReasonWaitingForJob, 61*time.Minute)
	f.o.Plan = plan
	f.waits(f.after(21*time.Minute-time.Second), lifecycle.ReasonWaitingForJob, time.Second)
	f.Expect(f.record.Restarts).To(BeZero())
	// A second one is not started while it runs, also not by a restart.
	f.waits(f.after(time.Second), lifecycle.ReasonWaitingForJob, time.Minute)
	f.waits(f.after(time.Minute), lifecycle.ReasonJobNotEnding, time.Minute)
	f.Expect(f.did()).To(Equal(begins + "status bmc, DeleteJob"))
	f.Expect(f.record.Restarts).To(Equal(int32(1)))
	// With the request it is left.
	f.o.Deleting = true
	f.run()
	f.Expect(f.did()).To(Equal("RemoveTaint, Finish"))
	f.Expect(f.record.Result).To(Equal(fencingv1.ResultFailed))
}

func TestStep_JobDeleted_IsCreatedAgainOrUnknown(t *testing.T) {
	f := newFence(t, one...)
	f.hangs = true
	f.run()
	f.o.Job = jobs.Observed{}
	f.now = start.Add(3*time.Minute - time.Second)
	f.waits(f.run(), lifecycle.ReasonWaitingForJob, time.Second)
	f.Expect(f.did()).To(Equal(begins + "status bmc, status bmc"))
	f.Expect(f.record.Action.Sequence).To(Equal(int32(1)))
	f.o.Job = jobs.Observed{}
	f.after(time.Second)
	f.Expect(f.did()).To(Equal("status bmc"))
	f.Expect(f.record.Action.Sequence).To(Equal(int32(2)))
	f.Expect(f.record.Jobs[0].Result).To(Equal(fencingv1.JobUnknown))
	f.Expect(f.record.Retries).To(Equal(int32(1)))
}

func TestStep_DeviceBusy_BeginsNothing(t *testing.T) {
	f := newFence(t, one...)
	f.o.Busy = map[fencingv1.MethodName]bool{bmc: true}
	out := f.run()
	f.waits(out, lifecycle.ReasonDeviceBusy, 3*time.Second)
	f.Expect(out.Why.Detail).To(Equal("bmc"))
	f.Expect(f.record.Action).To(BeNil())
	f.o.Busy = map[fencingv1.MethodName]bool{pdu: true}
	f.run()
	f.Expect(f.did()).To(Equal(begins + proven + ", on bmc" + ends))
	// No Job takes longer than an hour.
	f = newFence(t, both...)
	f.o.Busy = map[fencingv1.MethodName]bool{pdu: true}
	f.run()
	f.waits(f.after(time.Hour+3*time.Minute-time.Second), lifecycle.ReasonDeviceBusy, 3*time.Second)
	f.Expect(f.did()).To(Equal(begins + cycle))
	f.after(time.Second)
	f.Expect(f.did()).To(Equal("status pdu"))
}

func TestStep_Records_NameWhatWasDone(t *testing.T) {
	f := newFence(t, one...)
	f.o.Spec.Retries, f.o.Spec.Restarts = ptr.To[int32](10), ptr.To[int32](0)
	f.fails["bmc"] = always
	f.now = start.Add(time.Second)
	f.run()
	f.Expect(f.record.Jobs).To(HaveLen(10), "the last ten Jobs are kept")
	f.Expect(f.record.Action.Sequence).To(Equal(int32(11)))
	f.Expect(f.record.Jobs[9]).To(Equal(fencingv1.JobRecord{
		Name: jobs.Name(ours, 11), Method: bmc, Action: fencingv1.ActionStatus, Result: fencingv1.JobFailed, ExitCode: ptr.To[int32](7),
		EndedAt: ptr.To(metav1.NewTime(f.now)),
	}))
	f.Expect(f.record.Jobs[0].Name).To(Equal(jobs.Name(ours, 2)))
	f.Expect(f.record.Retries).To(Equal(int32(11)))
	f.Expect(f.record.Methods).To(Equal([]fencingv1.MethodRecord{{
		Name: bmc, Step: fencingv1.StepPowerManagement, Power: fencingv1.PowerUnknown, Failures: 11,
		Device: profile.Device(&fencingv1.FenceMethod{}),
	}}))

	f = newFence(t, one...)
	f.fails["status bmc"], f.fails["on bmc"] = 1, always
	f.run()
	f.Expect(f.record.Methods[0].PowerBefore).To(Equal(fencingv1.PowerOn), "no answer is not the first answer")
	f.Expect(f.record.Retries).To(Equal(int32(3)), "an error keeps the number of retries")
	f = switching(t)
	f.off[bmc] = false
	f.after(time.Second)
	f.Expect(f.record.Methods[1].OffRequested.Time).To(Equal(start), "of the first off")

	f = newFence(t, one...)
	f.run()
	at := ptr.To(metav1.NewTime(start))
	f.Expect(f.record.Methods).To(Equal([]fencingv1.MethodRecord{{
		Name: bmc, Step: fencingv1.StepPowerManagement, PowerBefore: fencingv1.PowerOn, OffRequested: at, OnSucceeded: at,
		Confirmed: true, Device: profile.Device(&fencingv1.FenceMethod{}),
	}}))
	f.Expect(f.record.Evidence).To(Equal(&fencingv1.Evidence{Class: fencingv1.EvidencePowerOff, RecordedAt: *at}))
	f.Expect(f.record.PoweredOn).To(Equal(at))
	f.Expect(f.record.Rejoined).To(Equal(at))
	f.Expect(f.record.Retries).To(BeZero())
}
