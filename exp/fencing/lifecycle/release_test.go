// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"strings"
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

// removed is what follows the last proof.
const removed = ", AddOutOfService, on bmc, RemoveOutOfService" + ends

func lasts(d time.Duration) *remedyv1.Duration {
	return &remedyv1.Duration{Duration: metav1.Duration{Duration: d}}
}

// withPods returns a fence of a Node with three Pods, and a VolumeAttachment.
func withPods(t *testing.T, levels ...methods) *fence {
	t.Helper()
	f := newFence(t, levels...)
	f.pods = lifecycle.Workload{Pods: 3, Staying: 3, Attachments: 1, Names: []string{"Pod default/db-0"}}
	return f
}

// untilProven decides until there is evidence. Nothing is released yet.
func (f *fence) untilProven() {
	for f.record.Evidence == nil {
		f.once()
	}
}

// once makes one decision.
func (f *fence) once() {
	f.o.Cluster, f.o.Workload = &f.cluster, &f.pods
	out, before := lifecycle.Step(&f.record, &f.o, f.now), f.record.Action
	if a := out.Record.Action; a != nil && (before == nil || a.Sequence != before.Sequence) {
		f.o.Job = jobs.Observed{}
	}
	f.record = out.Record
	f.perform(out.Effect)
}

// Pods are terminating, then the Node is proven off again, and only then they are removed.
func TestStep_Workload_IsReleasedInOrder(t *testing.T) {
	released := begins + cycle + ", AddNoExecute, status bmc" + removed
	for name, c := range map[string]struct {
		change func(*fence)
		did    string
	}{
		"at once":            {func(*fence) {}, released},
		"every Pod ends":     {func(f *fence) { f.pods.Staying = 0 }, begins + proven + removed},
		"attachment only":    {func(f *fence) { f.pods = lifecycle.Workload{Attachments: 1} }, begins + proven + removed},
		"nothing to release": {func(f *fence) { f.pods = lifecycle.Workload{} }, begins + proven + ", on bmc" + ends},
		"policy None":        {func(f *fence) { f.o.Spec.Release.Policy = fencingv1.ReleaseNone }, begins + proven + ", on bmc" + ends},
		"taint of another":   {func(f *fence) { f.o.Node.OutOfService, f.o.Node.ReleaseTaint = true, true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := withPods(t, methods{bmc})
			c.change(f)
			f.run()
			if name == "taint of another" {
				f.Expect(f.did()).To(HaveSuffix("AddNoExecute, status bmc"))
				f.Expect(f.record.Release.OutOfServiceTaint).To(BeFalse())
				f.endPods()
				f.after(time.Second)
				f.Expect(f.did()).To(Equal("on bmc" + ends))
				f.Expect(f.o.Node.OutOfService).To(BeTrue())
				return
			}
			f.Expect(f.did()).To(Equal(c.did))
			f.Expect(f.record.Result).To(Equal(fencingv1.ResultSucceeded))
			if c.did == released {
				f.Expect(f.record.Release).To(And(HaveField("Pods", BeEquivalentTo(3)), HaveField("EndedAt", Not(BeNil()))))
			}
		})
	}
}

func TestStep_PodsPerSecond_LimitsTermination(t *testing.T) {
	f := withPods(t, methods{bmc})
	f.o.Spec.Release.PodsPerSecond = 1
	out := f.until(lifecycle.TerminatePods)
	f.Expect(out.Effect).To(Equal(lifecycle.TerminatePods))
	f.Expect(out.Wake).To(Equal(f.now.Add(time.Second)), "one in each second")
	f.run()
	f.Expect(f.did()).To(HaveSuffix(strings.Repeat("TerminatePods, ", 3) + "status bmc" + removed))
}

// A Pod that is bound to the Node after the proof begins it again.
func TestStep_PodAfterProof_IsProvenAgain(t *testing.T) {
	f := withPods(t, methods{bmc})
	f.until(lifecycle.AddNoExecute)
	f.perform(lifecycle.AddNoExecute)
	for f.record.Release.ProvenAt == nil {
		f.perform(f.until(lifecycle.RunJob).Effect)
		if f.o.Job.Finished && f.record.Action.Sequence == 4 {
			f.pods.Pods, f.pods.Staying = 4, 1
			break
		}
	}
	f.did()
	f.run()
	f.Expect(f.did()).To(Equal(""), "the taint evicts it")
	f.pods.Staying = 0
	f.after(time.Second)
	f.Expect(f.did()).To(Equal("status bmc" + removed))
}

// Another fence has begun because the taint of this one was removed, and both have added a taint since.
func TestStep_TwoFences_RemoveTheirOwnTaint(t *testing.T) {
	f := withPods(t, methods{bmc})
	f.until(lifecycle.RemoveOutOfService)
	f.o.Node.Fence, f.o.Node.Marked = others, true
	f.perform(lifecycle.RemoveOutOfService)
	f.Expect(f.until(lifecycle.RemoveTaint).Effect).To(Equal(lifecycle.RemoveTaint))
}

// A Node that reports after the proof keeps its workload.
func TestStep_ReportsAfterProof_IsNotReleased(t *testing.T) {
	f := withPods(t, methods{bmc})
	f.until(lifecycle.AddOutOfService)
	f.did()
	f.o.Node.Ready = corev1.ConditionFalse
	f.Expect(f.run().Why.Reason).To(Equal("NodeStillReports"))
	f.Expect(f.did()).To(BeEmpty())
	f.o.Node.Ready = corev1.ConditionUnknown
	f.after(time.Second)
	f.Expect(f.did()).To(Equal("AddOutOfService, on bmc, RemoveOutOfService" + ends))
}

func TestStep_Release_WaitsAndTimesOut(t *testing.T) {
	for name, c := range map[string]struct {
		change         func(*fence)
		waits, timeout string
		left           []string
	}{
		"Node is Ready":         {func(f *fence) { f.o.Node.Ready = corev1.ConditionTrue }, "NodeStillReports", "WrongMachine", nil},
		"Node is not Ready":     {func(f *fence) { f.o.Node.Ready = corev1.ConditionFalse }, "NodeStillReports", "WrongMachine", nil},
		"Pods are not read":     {func(f *fence) { f.unreadable = true }, "TargetUnreadable", "NotReleased", nil},
		"Pods do not terminate": {func(f *fence) { f.o.Node.Evicts, f.keepsPods = true, true }, "WaitingForPods", "NotReleased", nil},
		"Pods are not removed": {
			func(f *fence) { f.keepsPods, f.pods.Attachments = true, 0 }, "Releasing", "WaitingForNode", []string{"Pod default/db-0"},
		},
		"Pods are no longer read": {
			func(f *fence) { f.keepsPods = true }, "Releasing", "WaitingForNode", []string{"the Pods of the Node, which cannot be read"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := withPods(t, methods{bmc})
			f.o.Spec.Restarts, f.o.Spec.Release.Timeout, f.staysAway = ptr.To[int32](0), lasts(5*time.Minute), true
			f.untilProven()
			c.change(f)
			f.Expect(f.run().Why.Reason).To(Equal(c.waits))
			if c.waits == "NodeStillReports" {
				f.Expect(f.o.Node.Evicts).To(BeFalse(), "its Pods run")
			}
			f.Expect(f.after(5*time.Minute - time.Second).Why.Reason).To(Equal(c.waits))
			f.unreadable = f.unreadable || name == "Pods are no longer read"
			f.Expect(f.after(time.Second).Why.Reason).To(Equal(c.timeout))
			if c.left == nil {
				f.Expect(f.off[bmc]).To(BeTrue(), "it is switched on when the request is withdrawn")
				f.Expect(f.o.Node.OutOfService).To(BeFalse())
				f.o.Canceled = true
				f.run()
				f.Expect(f.did()).To(HaveSuffix("on bmc" + ends))
				return
			}
			f.Expect(f.record.Release.Left).To(Equal(c.left))
			f.Expect(f.off[bmc]).To(BeFalse(), "a Pod that is terminating does not keep the machine off")
		})
	}
}

// An answer ON, or none, takes the proof back before anything is removed.
func TestStep_SecondAnswer_DecidesRelease(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fence)
		did    string
	}{
		"on":        {func(f *fence) { f.off[bmc] = false }, "status bmc, off bmc, status bmc, status bmc" + removed},
		"no answer": {func(f *fence) { f.fails["status bmc"] = always }, "status bmc, status bmc, status bmc"},
		"one failure": {
			func(f *fence) { f.fails["status bmc"] = 1 }, "status bmc, status bmc" + removed,
		},
		"machine boots": {func(f *fence) { f.boot() }, "on bmc" + ends},
		"row changed":   {func(f *fence) { f.o.Plan.Methods[bmc] = fencingv1.FenceMethod{Agent: "fence_other"} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := withPods(t, methods{bmc})
			f.o.Spec.Restarts = ptr.To[int32](0)
			f.until(lifecycle.AddNoExecute)
			f.perform(lifecycle.AddNoExecute)
			f.did()
			c.change(f)
			f.run()
			f.Expect(f.did()).To(Equal(c.did))
			if name == "no answer" {
				f.Expect(f.record.Reason).To(Equal("NotProvenOff"))
				f.Expect(f.record.Release.ProvenAt).To(BeNil())
			}
		})
	}
}

// With restarts, a release is continued where it has failed.
func TestStep_ReleaseFails_IsContinued(t *testing.T) {
	f := withPods(t, methods{bmc})
	f.until(lifecycle.AddNoExecute)
	f.perform(lifecycle.AddNoExecute)
	f.did()
	f.fails["status bmc"] = 3
	f.run()
	f.Expect(f.did()).To(Equal(strings.Repeat("status bmc, ", 4)+"status bmc"+removed), "without an answer it is no longer proven")
	f.Expect(f.record.Restarts).To(BeEquivalentTo(1))
}

func withStorage(t *testing.T) *fence {
	t.Helper()
	f := withPods(t)
	f.pods.Attachments = 0
	f.o.Plan.Isolation = methods{san}
	f.o.Plan.Methods[san] = fencingv1.FenceMethod{StorageClasses: []fencingv1.StorageClassName{"fc"}}
	return f
}

// Only Pods are removed, and the isolation ends after a new boot.
func TestStep_Storage_IsReleasedAndGivenBack(t *testing.T) {
	removed := begins + "off san, status san, " + strings.Repeat("TerminatePods, ", 3) + "status san, RemovePods"
	for name, c := range map[string]struct {
		then func(*fence)
		did  string
		left bool
	}{
		"boots":      {func(f *fence) { f.boot() }, "on san" + ends, false},
		"same boot":  {func(f *fence) { f.o.Node.Ready = corev1.ConditionTrue }, "", false},
		"confirmed":  {func(f *fence) { f.o.ConfirmedOff, f.o.Node.Ready = f.o.Node.UID, corev1.ConditionTrue }, "on san" + ends, false},
		"withdrawn":  {func(f *fence) { f.o.Deleting = true }, "RemoveTaint, Finish", true},
		"unreadable": {func(f *fence) { f.o.Deleting = true; f.unread() }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := withStorage(t)
			f.run()
			f.Expect(f.did()).To(Equal(removed))
			f.Expect(f.record.Evidence.Class).To(Equal(fencingv1.EvidenceStorageIsolation))
			f.Expect(f.record.Result).To(Equal(fencingv1.ResultSucceeded))
			c.then(f)
			f.after(time.Minute)
			f.Expect(f.did()).To(Equal(c.did))
			f.Expect(f.record.Methods[0].GivenUp).To(Equal(c.left))
		})
	}
	t.Run("withdrawn before", func(t *testing.T) {
		f := withStorage(t)
		f.until(lifecycle.TerminatePods)
		f.o.Deleting = true
		f.run()
		f.Expect(f.did()).To(Equal(begins + "off san, status san, on san" + ends))
		f.Expect(f.record.Result).To(Equal(fencingv1.ResultCanceled))
	})
	t.Run("answers ON", func(t *testing.T) {
		f := withStorage(t)
		f.o.Spec.Restarts = ptr.To[int32](0)
		f.until(lifecycle.TerminatePods)
		f.pods.Staying, f.off[san] = 0, false
		f.run()
		f.Expect(f.record.Reason).To(Equal("NotIsolated"))
		f.Expect(f.did()).ToNot(ContainSubstring("RemovePods"))
	})
}

// A person switches off what no device can.
func TestStep_Confirmation_IsEvidence(t *testing.T) {
	f := withPods(t, methods{bmc})
	f.o.Spec.Restarts, f.fails["bmc"] = ptr.To[int32](0), always
	f.run()
	f.Expect(f.record.Reason).To(Equal("NotProvenOff"))
	f.did()
	f.o.ConfirmedOff = "another-uid"
	f.after(time.Minute)
	f.Expect(f.did()).To(BeEmpty(), "it is for another Node")
	f.o.ConfirmedOff = f.o.Node.UID
	f.until(lifecycle.AddNoExecute)
	f.Expect(f.record.Evidence.Class).To(Equal(fencingv1.EvidenceAcknowledged))
	f.perform(lifecycle.AddNoExecute)

	f.o.ConfirmedOff = ""
	f.run()
	f.Expect(f.did()).To(Equal("AddNoExecute"), "the confirmation was removed")
	f.Expect(f.record.Evidence).To(BeNil())

	f.o.ConfirmedOff = f.o.Node.UID
	f.after(time.Minute)
	f.Expect(f.did()).To(Equal("AddOutOfService"))
	f.Expect(f.record.Reason).To(Equal("PoweredOffBefore"))
	f.boot()
	f.after(time.Minute)
	f.Expect(f.did()).To(Equal("RemoveOutOfService" + ends))
}

// A device that has switched nothing off and answers no more does not keep the fence from its end.
func TestStep_ConfirmedAfterOff_PersonSwitchesOn(t *testing.T) {
	f := withPods(t, methods{bmc})
	f.o.Spec.Restarts, f.stuck[bmc] = ptr.To[int32](0), true
	f.next(bmc, fencingv1.ActionOff)
	f.fails["bmc"], f.o.ConfirmedOff = always, f.o.Node.UID
	f.run()
	f.Expect(f.did()).To(HaveSuffix("off bmc, AddNoExecute, AddOutOfService, on bmc, on bmc, on bmc"))
	f.Expect(f.record.Methods[0].GivenUp).To(BeTrue())
	f.after(100 * time.Hour)
	f.Expect(f.did()).To(BeEmpty(), "a person has all the time")
	f.boot()
	f.after(time.Minute)
	f.Expect(f.did()).To(Equal("RemoveOutOfService" + ends))
	f.Expect(f.record.Reason).To(Equal("PoweredOffBefore"))
}

func withDump(t *testing.T, crashed bool) *fence {
	t.Helper()
	f := withPods(t, methods{bmc}, methods{pdu})
	f.o.Plan.Methods[bmc] = fencingv1.FenceMethod{Agent: profile.KernelDumpAgent}
	// It switches nothing.
	if f.stuck[bmc] = true; !crashed {
		f.fails["bmc"] = always
	}
	return f
}

func TestStep_KernelDump_ProvesWhileItLasts(t *testing.T) {
	f := withDump(t, true)
	f.run()
	f.Expect(f.did()).To(Equal(begins + "off bmc, AddNoExecute, off bmc, AddOutOfService"))
	f.Expect(f.record.Evidence.Class).To(Equal(fencingv1.EvidenceKernelDump))
	f.boot()
	f.after(time.Minute)
	f.Expect(f.did()).To(Equal("RemoveOutOfService"+ends), "the power is left alone")

	f = withDump(t, false)
	f.run()
	f.Expect(f.did()).To(Equal(begins+"off bmc, status pdu, off pdu, status pdu, AddNoExecute, status pdu, AddOutOfService, "+
		"on pdu, RemoveOutOfService"+ends), "no message, and no second try")

	f = withDump(t, true)
	f.until(lifecycle.AddNoExecute)
	f.perform(lifecycle.AddNoExecute)
	f.did()
	f.fails["bmc"] = always
	f.run()
	f.Expect(f.did()).To(Equal("off bmc, status pdu, off pdu, status pdu, status pdu, AddOutOfService, on pdu, RemoveOutOfService"+ends),
		"the dump has ended before the Pods are removed")

	f = withDump(t, true)
	f.run()
	f.did()
	f.Expect(f.after(10 * time.Minute).Why.Reason).To(BeEmpty())
	f.Expect(f.did()).To(Equal("status pdu, off pdu, status pdu, on pdu, RemoveOutOfService"+ends),
		"it does not reboot, so it is restarted by the next level")
}
