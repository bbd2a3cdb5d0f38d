// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/jobs"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

const (
	san, repair = fencingv1.MethodName("san"), fencingv1.MethodName("repair")
	always      = 1000
)

// fence drives Step. Devices act at once, and time passes only in after.
type fence struct {
	*WithT
	o       lifecycle.Observation
	cluster lifecycle.Cluster
	record  fencingv1.NodeFenceStatus
	now     time.Time
	// off are the devices without power, and stuck those that ignore off. fails is how often an action, or all of a device, fails.
	off, stuck broken
	fails      map[string]int
	// hangs: Jobs do not end. staysAway: the Node does not join again when it has power.
	hangs, staysAway bool
	// stays: a Job that is deleted does not end.
	stays bool
	// unreadable: the Nodes of the cluster, and the Pods of the Node, are not read.
	unreadable bool
	// pods is what runs on the Node. keepsPods: no Pod ends.
	pods      lifecycle.Workload
	keepsPods bool
	done      []string
}

func newFence(t *testing.T, levels ...methods) *fence {
	t.Helper()
	f := &fence{WithT: NewWithT(t), now: start, off: broken{}, stuck: broken{}, fails: map[string]int{}}
	f.o = lifecycle.Observation{Spec: &fencingv1.NodeFenceSpec{}, UID: ours, Plan: &profile.Plan{ProfileName: "rack", Levels: levels}}
	f.o.Plan.Methods = map[fencingv1.MethodName]fencingv1.FenceMethod{bmc: {}, pdu: {}, fabric: {}, san: {}, repair: {}}
	f.o.Node = lifecycle.Node{
		State: lifecycle.NodePresent, Name: "worker-1", UID: "node-uid", BootID: "boot-0", Ready: corev1.ConditionUnknown,
	}
	f.cluster = lifecycle.Cluster{Nodes: 10, NotReady: 1}
	return f
}

// run decides until the fence waits or has ended.
func (f *fence) run() lifecycle.Outcome { return f.until("none") }

// until decides until the fence waits, has ended, or an effect follows, which is not performed.
func (f *fence) until(effect lifecycle.Effect) lifecycle.Outcome {
	for range 300 {
		f.o.Cluster = nil
		if lifecycle.NeedsCluster(&f.record, f.o.Spec) && !f.unreadable {
			f.o.Cluster = &f.cluster
		}
		f.o.Workload = nil
		if lifecycle.NeedsWorkload(&f.record, f.o.Spec) != lifecycle.NoWorkload && !f.unreadable {
			f.o.Workload = &f.pods
		}
		out, before := lifecycle.Step(&f.record, &f.o, f.now), f.record
		if a := out.Record.Action; a != nil && (before.Action == nil || a.Sequence != before.Action.Sequence) {
			f.o.Job = jobs.Observed{}
		}
		f.record = out.Record
		if out.Effect == lifecycle.NoEffect && (!out.Wake.IsZero() || apiequality.Semantic.DeepEqual(before, f.record)) {
			return out
		}
		if out.Effect == effect {
			return out
		}
		f.perform(out.Effect)
		if f.keepsPods && (out.Effect == lifecycle.EvictPods || out.Effect == lifecycle.TerminatePods || out.Effect == lifecycle.RemovePods) {
			return out
		}
	}
	f.Expect(f.done).To(BeEmpty(), "the fence does not end")
	return lifecycle.Outcome{}
}

// after lets time pass, and runs.
func (f *fence) after(passed time.Duration) lifecycle.Outcome {
	f.now = f.now.Add(passed)
	return f.run()
}

func (f *fence) perform(effect lifecycle.Effect) {
	switch effect {
	case lifecycle.AddFinalizer:
		f.o.Finalizer, f.o.BlockMove = true, true
	case lifecycle.AddTaint:
		f.o.Node.Fence = ours
	case lifecycle.RemoveTaint:
		f.o.Node.Fence, f.o.Node.Evicts = "", false
	case lifecycle.AddNoExecute:
		f.o.Node.Evicts = true
		f.pods.Staying = 0
	case lifecycle.TerminatePods:
		if !f.keepsPods {
			f.pods.Staying = max(0, f.pods.Staying-1)
		}
	case lifecycle.AddOutOfService:
		f.o.Node.OutOfService, f.o.Node.ReleaseTaint = true, true
		f.endPods()
	case lifecycle.RemoveOutOfService:
		f.o.Node.OutOfService, f.o.Node.ReleaseTaint = false, false
	case lifecycle.RemovePods, lifecycle.EvictPods:
		f.endPods()
	case lifecycle.Finish:
		f.o.Finished, f.o.Finalizer, f.o.BlockMove = string(f.record.Result), false, false
	case lifecycle.DeleteJob:
		f.o.Job.Deleting = true
		if !f.stays {
			f.o.Job = jobs.Observed{}
		}
	case lifecycle.Unblock:
		f.o.Finalizer, f.o.BlockMove = false, false
	case lifecycle.RunJob:
		f.done = append(f.done, string(f.record.Action.Action)+" "+string(f.record.Action.Method))
		f.o.Job = jobs.Observed{Exists: true}
		if !f.hangs {
			f.end(f.act(f.record.Action.Method, f.record.Action.Action))
		}
		return
	case lifecycle.NoEffect:
		return
	}
	f.done = append(f.done, string(effect))
}

func (f *fence) endPods() {
	if !f.keepsPods {
		f.pods = lifecycle.Workload{}
	}
}

func (f *fence) end(result fencingv1.JobResult) {
	f.o.Job = jobs.Observed{Exists: true, Finished: true, Result: result, ExitCode: ptr.To[int32](7)}
}

// act is what a device does.
func (f *fence) act(device fencingv1.MethodName, action fencingv1.Action) fencingv1.JobResult {
	for _, failing := range []string{string(device), string(action) + " " + string(device)} {
		if f.fails[failing]--; f.fails[failing] >= 0 {
			return fencingv1.JobFailed
		}
	}
	switch action {
	case fencingv1.ActionStatus:
		if f.off[device] {
			return fencingv1.JobOff
		}
	case fencingv1.ActionOff:
		f.off[device] = f.off[device] || !f.stuck[device]
	case fencingv1.ActionOn:
		wasOff := f.off[device]
		f.off[device] = false
		if wasOff && (device == bmc || device == pdu) && !f.off[bmc] && !f.off[pdu] && !f.staysAway {
			f.boot()
		}
	case fencingv1.ActionRun:
	}
	return fencingv1.JobSucceeded
}

// boot lets the Node join again after a boot.
func (f *fence) boot() { f.o.Node.BootID, f.o.Node.Ready = "boot-1", corev1.ConditionTrue }

// unread lets the Node be not readable.
func (f *fence) unread() { f.o.Node, f.o.Unreadable = lifecycle.Node{}, "u" }

// next runs until the next action of this kind begins.
func (f *fence) next(device fencingv1.MethodName, action fencingv1.Action) {
	for range 30 {
		f.until(lifecycle.RunJob)
		f.perform(lifecycle.RunJob)
		if f.record.Action.Method == device && f.record.Action.Action == action {
			return
		}
	}
	f.Expect(f.done).To(BeEmpty(), "it does not begin")
}

// did returns what was done since the last call.
func (f *fence) did() string {
	done := strings.Join(f.done, ", ")
	f.done = nil
	return done
}

const (
	begins, ends = "AddFinalizer, AddTaint, ", ", RemoveTaint, Finish"
	cycle        = "status bmc, off bmc, status bmc"
	proven       = cycle + ", status bmc"
)

func TestStep_Devices_ActionsAreExact(t *testing.T) {
	none := &fencingv1.NodeFenceSpec{Retries: ptr.To[int32](0), Restarts: ptr.To[int32](0)}
	once := &fencingv1.NodeFenceSpec{Restarts: ptr.To[int32](0)}
	check := &fencingv1.NodeFenceSpec{Mode: fencingv1.CheckDevices}
	for name, c := range map[string]struct {
		levels         []methods
		isolation, run methods
		spec           *fencingv1.NodeFenceSpec
		off, stuck     broken
		fails          map[string]int
		ready          bool
		did, reason    string
	}{
		"one level": {levels: one, did: begins + proven + ", on bmc" + ends, reason: "Rejoined"},
		"two supplies": {
			levels: both,
			did:    begins + cycle + ", status pdu, off pdu, status pdu, status bmc, status pdu, on pdu, on bmc" + ends, reason: "Rejoined",
		},
		"supply fails": {
			levels: both, spec: once, fails: map[string]int{"pdu": always},
			did: begins + cycle + ", status pdu, status pdu, status pdu", reason: "NotProvenOff",
		},
		"off before": {levels: one, off: broken{bmc: true}, did: begins + "status bmc, status bmc", reason: "PoweredOffBefore"},
		"one off before": {
			levels: both, off: broken{pdu: true},
			did: begins + cycle + ", status pdu, status bmc, status pdu, on bmc", reason: "",
		},
		"dead": {
			levels: one, fails: map[string]int{"bmc": always},
			did: begins + strings.Repeat("status bmc, ", 5) + "status bmc", reason: "NotProvenOff",
		},
		"dead, tried once": {
			levels: one, spec: none, fails: map[string]int{"bmc": always},
			did: begins + "status bmc", reason: "NotProvenOff",
		},
		"ignores off": {
			levels: one, spec: once, stuck: broken{bmc: true},
			did: begins + cycle + ", off bmc, status bmc, off bmc, status bmc", reason: "NotProvenOff",
		},
		"off once": {levels: one, spec: none, stuck: broken{bmc: true}, did: begins + cycle, reason: "NotProvenOff"},
		"off fails": {
			levels: one, fails: map[string]int{"off bmc": 1},
			did: begins + cycle + ", off bmc, status bmc, status bmc, on bmc" + ends, reason: "Rejoined",
		},
		"first level dead": {
			levels: two, fails: map[string]int{"bmc": always},
			did: begins + "status bmc, status bmc, status bmc, status pdu, off pdu, status pdu, status pdu, on pdu" + ends, reason: "Rejoined",
		},
		"first level ignores off": {
			levels: two, spec: none, stuck: broken{bmc: true},
			did: begins + cycle + ", status pdu, off pdu, status pdu, status pdu, on pdu, on bmc" + ends, reason: "Rejoined",
		},
		"all steps": {
			levels: one, isolation: methods{fabric, san}, run: methods{repair}, reason: "Rejoined",
			did: begins + "off fabric, status fabric, off san, status san, run repair, " + proven + ", on bmc, on san, on fabric" + ends,
		},
		"switch ignores off": {
			levels: one, spec: none, isolation: methods{fabric}, stuck: broken{fabric: true},
			did: begins + "off fabric, status fabric, " + proven + ", on bmc, on fabric" + ends, reason: "Rejoined",
		},
		"switch dead": {
			levels: one, spec: once, isolation: methods{fabric}, fails: map[string]int{"fabric": always}, reason: "NotUnisolated",
			did: begins + "off fabric, status fabric, status fabric, status fabric, " + proven + ", on bmc, on fabric, on fabric, on fabric",
		},
		"switch is asked again": {
			levels: one, isolation: methods{fabric}, fails: map[string]int{"status fabric": 1},
			did: begins + "off fabric, status fabric, status fabric, " + proven + ", on bmc, on fabric" + ends, reason: "Rejoined",
		},
		"switch is switched again": {
			levels: one, isolation: methods{fabric}, stuck: broken{fabric: true},
			did: begins + strings.Repeat("off fabric, status fabric, ", 3) + proven + ", on bmc, on fabric" + ends, reason: "Rejoined",
		},
		"switch dead, no power": {
			spec: none, isolation: methods{fabric}, run: methods{repair}, fails: map[string]int{"fabric": always},
			did: begins + "off fabric, status fabric", reason: "NotIsolated",
		},
		"isolation only": {isolation: methods{fabric}, did: begins + "off fabric, status fabric", reason: "NotSwitchedOff"},
		"isolation only, Ready": {
			isolation: methods{fabric}, ready: true,
			did: begins + "off fabric, status fabric, on fabric" + ends, reason: "NotSwitchedOff",
		},
		"run fails": {
			run: methods{repair}, spec: once, fails: map[string]int{"repair": always},
			did: begins + "run repair, run repair, run repair", reason: "NotIsolated",
		},
		"run fails, power": {
			levels: one, spec: none, run: methods{repair}, fails: map[string]int{"repair": always},
			did: begins + "run repair, " + proven + ", on bmc" + ends, reason: "Rejoined",
		},
		"check": {
			levels: two, spec: check, isolation: methods{fabric}, ready: true,
			did: "status fabric, status bmc, status pdu, Finish", reason: "DevicesAnswered",
		},
		"check, level off": {
			levels: both, spec: check, off: broken{bmc: true}, ready: true,
			did: "status bmc, status pdu, Finish", reason: "DevicesAnswered",
		},
		"check fails": {
			levels: two, spec: check, fails: map[string]int{"bmc": always},
			did: "status bmc, status bmc, status bmc, status pdu, Finish", reason: "DeviceFailed",
		},
		"check finds another machine": {
			levels: both, spec: check, off: broken{bmc: true, pdu: true}, ready: true,
			did: "status bmc, status pdu, Finish", reason: "WrongMachine",
		},
		"check of a Node that is off": {levels: one, spec: check, off: broken{bmc: true}, did: "status bmc, Finish", reason: "DevicesAnswered"},

		// A restart goes on with the first fact that is missing.
		"restart after dead": {
			levels: one, fails: map[string]int{"bmc": 3},
			did: begins + "status bmc, status bmc, status bmc, " + proven + ", on bmc" + ends, reason: "Rejoined",
		},
		"restart from level one": {
			levels: two, fails: map[string]int{"bmc": 3, "pdu": 3}, reason: "Rejoined",
			did: begins + "status bmc, status bmc, status bmc, status pdu, status pdu, status pdu, " + proven + ", on bmc" + ends,
		},
		"restart asks all again": {
			levels: both, fails: map[string]int{"pdu": always}, reason: "NotProvenOff",
			did: begins + cycle + strings.Repeat(", status pdu", 3) + ", status bmc" + strings.Repeat(", status pdu", 3),
		},
		"restart after off keeps a dead switch": {
			levels: one, isolation: methods{fabric}, spec: &fencingv1.NodeFenceSpec{Retries: ptr.To[int32](1)}, stuck: broken{bmc: true},
			fails: map[string]int{"fabric": always}, reason: "NotProvenOff",
			did: begins + "off fabric, status fabric, status fabric, " + cycle + ", off bmc, status bmc, " + cycle + ", off bmc, status bmc",
		},
		"restart keeps evidence": {
			levels: one, fails: map[string]int{"on bmc": 3},
			did: begins + proven + ", on bmc, on bmc, on bmc, on bmc" + ends, reason: "Rejoined",
		},
		"never on again": {
			levels: one, fails: map[string]int{"on bmc": always},
			did: begins + proven + strings.Repeat(", on bmc", 6), reason: "NotPoweredOn",
		},
		"restart keeps the new boot": {
			levels: one, isolation: methods{fabric}, fails: map[string]int{"on fabric": 3}, reason: "Rejoined",
			did: begins + "off fabric, status fabric, " + proven + ", on bmc, on fabric, on fabric, on fabric, on fabric" + ends,
		},
		"restart of isolation": {
			isolation: methods{fabric}, fails: map[string]int{"status fabric": 3}, reason: "NotSwitchedOff",
			did: begins + "off fabric, status fabric, status fabric, status fabric, status fabric",
		},
		"restart of run keeps isolation": {
			isolation: methods{fabric}, run: methods{san, repair}, fails: map[string]int{"repair": 3}, reason: "NotSwitchedOff",
			did: begins + "off fabric, status fabric, run san, run repair, run repair, run repair, run repair",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFence(t, c.levels...)
			f.o.Plan.Isolation, f.o.Plan.Run = c.isolation, c.run
			if c.spec != nil {
				f.o.Spec = c.spec
			}
			if c.ready {
				f.o.Node.Ready = corev1.ConditionTrue
			}
			maps.Copy(f.off, c.off)
			maps.Copy(f.stuck, c.stuck)
			maps.Copy(f.fails, c.fails)
			f.run()
			f.Expect(f.did()).To(Equal(c.did))
			f.Expect(f.record.Reason).To(Equal(c.reason))
		})
	}
}
