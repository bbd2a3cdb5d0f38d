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

func TestStep_Drain_PrecedesFence(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*fence)
		then     time.Duration
		did, why string
		result   fencingv1.Result
	}{
		"Pods end": {change: func(*fence) {}, did: begins + "EvictPods, " + proven + ", on bmc" + ends, result: fencingv1.ResultSucceeded},
		"Pods stay": {
			change: func(f *fence) { f.keepsPods, f.pods.Staying = true, 0 }, then: time.Hour - time.Second,
			did: begins + "EvictPods, EvictPods", why: "Draining",
		},
		"time is over": {
			change: func(f *fence) { f.keepsPods = true }, then: time.Hour, did: begins + "EvictPods" + ends, result: fencingv1.ResultFailed,
		},
		"time is over, continues": {
			change: func(f *fence) { f.keepsPods, f.o.Spec.Drain.AfterTimeout = true, fencingv1.ContinueFence }, then: time.Hour,
			did: begins + "EvictPods, " + cycle, why: "NodeStillReports",
		},
		"unreadable": {
			change: func(f *fence) { f.keepsPods = true }, then: time.Hour, did: begins + "EvictPods" + ends, result: fencingv1.ResultFailed,
		},
		"fails after a while": {
			change: func(f *fence) { f.keepsPods = true }, then: time.Minute,
			did: begins + "EvictPods, " + cycle + ", AddNoExecute, status bmc, AddOutOfService", why: "Releasing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := withPods(t, methods{bmc})
			f.o.Node.Ready, f.o.Spec.Drain = corev1.ConditionTrue, &fencingv1.Drain{Timeout: *lasts(time.Hour)}
			c.change(f)
			out := f.run()
			f.unreadable = name == "unreadable"
			if name == "fails after a while" {
				f.o.Node.Ready = corev1.ConditionUnknown
			}
			if c.then > 0 {
				out = f.after(c.then)
			}
			f.Expect(f.did()).To(Equal(c.did))
			f.Expect(f.record.Result).To(Equal(c.result))
			f.Expect(out.Why.Reason).To(Equal(c.why))
			if c.result == fencingv1.ResultFailed {
				f.Expect(f.record.Reason).To(Equal("DrainTimedOut"))
				f.Expect(len(f.record.PodsLeft)).To(Equal(map[bool]int{true: 0, false: 1}[f.unreadable]))
			}
		})
	}
}

// A Node that becomes Ready again before it is switched off is drained, and not forgotten.
func TestStep_ReadyAgain_IsDrained(t *testing.T) {
	f := withPods(t, methods{bmc})
	f.o.Spec.Drain, f.o.Spec.PowerDelay = &fencingv1.Drain{Timeout: *lasts(time.Hour)}, lasts(time.Hour)
	f.run()
	f.o.Node.Ready = corev1.ConditionTrue
	f.after(time.Minute)
	f.Expect(f.did()).To(Equal(begins + "EvictPods"))
	f.after(time.Hour)
	f.Expect(f.did()).To(Equal(proven + ", on bmc" + ends))
}

func TestStep_PowerOn_IsAsRequested(t *testing.T) {
	for name, c := range map[string]struct {
		powerOn   fencingv1.PowerOnPolicy
		offBefore bool
		did       string
		reason    string
	}{
		"default":    {did: begins + proven + ", on bmc" + ends, reason: "Rejoined"},
		"off before": {offBefore: true, did: begins + "status bmc, status bmc", reason: "PoweredOffBefore"},
		"always":     {powerOn: fencingv1.PowerOnAlways, did: begins + proven + ", on bmc" + ends, reason: "Rejoined"},
		"always, off": {
			powerOn: fencingv1.PowerOnAlways, offBefore: true, did: begins + "status bmc, status bmc, on bmc" + ends, reason: "Rejoined",
		},
		"never":            {powerOn: fencingv1.PowerOnNever, did: begins + proven, reason: "KeptOff"},
		"never, withdrawn": {powerOn: fencingv1.PowerOnNever, did: begins + proven + ends, reason: "KeptOff"},
		"always, canceled": {powerOn: fencingv1.PowerOnAlways, offBefore: true, did: begins + "status bmc" + ends, reason: "Canceled"},
		"always, Machine deleted": {
			powerOn: fencingv1.PowerOnAlways, offBefore: true, did: begins + "status bmc" + ends, reason: "TargetDeleted",
		},
		"never, by person": {powerOn: fencingv1.PowerOnNever, did: begins + proven + ends, reason: "KeptOff"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFence(t, methods{bmc})
			f.o.Spec.PowerOn, f.off[bmc] = c.powerOn, c.offBefore
			if name == "always, canceled" {
				f.untilProven()
				f.o.Canceled = true
			}
			if name == "always, Machine deleted" {
				f.untilProven()
				f.once()
				f.o.TargetGone = true
			}
			f.run()
			f.Expect(f.record.Result).ToNot(Equal(fencingv1.ResultFailed))
			if name == "never, by person" {
				f.boot()
			}
			f.o.Deleting = name == "never, withdrawn"
			f.after(time.Minute)
			f.Expect(f.did()).To(Equal(c.did))
			f.Expect(f.record.Reason).To(Equal(c.reason))
		})
	}
}

func TestStep_Recovery_RunsBeforeWorkload(t *testing.T) {
	for name, c := range map[string]struct {
		fails  int
		cancel bool
		did    string
	}{
		"runs":      {0, false, begins + proven + ", on bmc, run repair" + ends},
		"fails":     {always, false, begins + proven + ", on bmc, run repair, run repair"},
		"withdrawn": {always, true, begins + proven + ", on bmc, run repair, run repair" + ends},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFence(t, methods{bmc})
			f.o.Spec.Recovery, f.fails["run repair"] = methods{repair}, c.fails
			f.o.Spec.Retries, f.o.Spec.Restarts = ptr.To[int32](0), ptr.To[int32](1)
			f.run()
			if f.o.Canceled = c.cancel; c.cancel {
				f.after(time.Minute)
			}
			f.Expect(f.did()).To(Equal(c.did))
			if c.fails > 0 {
				f.Expect(f.record.Reason).To(Equal("NotRecovered"))
				f.Expect(f.record.Result).To(Equal(fencingv1.ResultFailed))
			}
		})
	}
	t.Run("Ready before", func(t *testing.T) {
		f := newFence(t, methods{bmc})
		f.o.Spec.Recovery, f.o.Spec.PowerDelay = methods{repair}, lasts(time.Hour)
		f.run()
		f.o.Node.Ready = corev1.ConditionTrue
		f.after(time.Minute)
		f.Expect(f.did()).To(Equal(begins+"RemoveTaint, Finish"), "nothing was done to it")
	})
	t.Run("withdrawn before off", func(t *testing.T) {
		f := newFence(t, methods{bmc})
		f.o.Plan.Isolation = methods{san}
		f.o.Spec.Recovery, f.o.Spec.PowerDelay = methods{repair}, lasts(time.Hour)
		f.run()
		f.o.Canceled = true
		f.after(time.Minute)
		f.Expect(f.did()).To(Equal(begins+"off san, status san, on san"+ends), "it has not joined again")
	})
}

// Without its taint, a Node that was drained gets Pods again.
func TestStep_DrainedAndUntainted_IsDrainedAgain(t *testing.T) {
	f := withPods(t, methods{bmc})
	f.o.Spec.Drain, f.o.Spec.PowerDelay, f.o.Node.Ready = &fencingv1.Drain{Timeout: *lasts(time.Hour)}, lasts(time.Hour), corev1.ConditionTrue
	f.run()
	f.o.Paused = true
	f.after(time.Minute)
	f.Expect(f.did()).To(Equal(begins + "EvictPods, RemoveTaint, Unblock"))
	f.o.Paused, f.pods = false, lifecycle.Workload{Pods: 1, Staying: 1}
	f.after(time.Minute)
	f.Expect(f.did()).To(Equal(begins + "EvictPods"))
}

// Both supplies of a drained Node are switched off, although its kubelet reports that it is Ready for some time.
func TestStep_DrainedNode_IsSwitchedOffWhileReady(t *testing.T) {
	f := newFence(t, methods{bmc, pdu})
	f.o.Node.Ready, f.o.Spec.Drain = corev1.ConditionTrue, &fencingv1.Drain{Timeout: *lasts(time.Hour)}
	f.until(lifecycle.RunJob)
	f.perform(lifecycle.RunJob)
	// The Job of an "off" is lost, and is created again.
	f.next(bmc, fencingv1.ActionOff)
	f.o.Job = jobs.Observed{}
	f.run()
	f.Expect(f.did()).To(Equal(begins + "status bmc, off bmc, off bmc, status bmc, status pdu, off pdu, status pdu, status bmc, status pdu, " +
		"on pdu, on bmc" + ends))
}

func TestNeedsWorkload_NamesPods(t *testing.T) {
	f := withStorage(t)
	f.until(lifecycle.TerminatePods)
	f.Expect(lifecycle.NeedsWorkload(&f.record, f.o.Spec)).To(Equal(lifecycle.StorageScope))
	f = withPods(t, methods{bmc})
	f.until(lifecycle.AddNoExecute)
	f.Expect(lifecycle.NeedsWorkload(&f.record, f.o.Spec)).To(Equal(lifecycle.NodeScope))
	f.run()
	f.Expect(lifecycle.NeedsWorkload(&f.record, f.o.Spec)).To(Equal(lifecycle.NoWorkload))

	f = withStorage(t)
	f.o.Spec.Release.Policy = fencingv1.ReleaseNone
	f.run()
	f.Expect(f.record.Evidence).To(BeNil(), "nothing depends on it")

	f = withPods(t, methods{bmc})
	f.o.Node.Ready, f.o.Spec.Drain = corev1.ConditionTrue, &fencingv1.Drain{Timeout: *lasts(time.Hour)}
	f.until(lifecycle.EvictPods)
	f.Expect(lifecycle.NeedsWorkload(&f.record, f.o.Spec)).To(Equal(lifecycle.DrainScope))
	f.record.Drained = f.record.Since
	f.Expect(lifecycle.NeedsWorkload(&f.record, f.o.Spec)).To(Equal(lifecycle.NoWorkload))
}
