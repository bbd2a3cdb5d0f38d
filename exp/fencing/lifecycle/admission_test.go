// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

// blocks are what keeps a fence from beginning, and from switching the Node off after it has begun.
var blocks = map[string]struct {
	change func(*fence)
	why    lifecycle.Why
}{
	"paused":  {func(f *fence) { f.o.Paused = true }, lifecycle.Why{Reason: "Paused"}},
	"observe": {func(f *fence) { f.o.Observe = true }, lifecycle.Why{Reason: "ObserveMode"}},
	"no profile": {
		func(f *fence) { f.o.Plan, f.o.Problem = nil, &profile.Problem{Reason: "R", Message: "m"} },
		lifecycle.Why{Reason: "R", Detail: "m"},
	},
	"no plan": {func(f *fence) { f.o.Plan, f.o.Unreadable = nil, "u" }, lifecycle.Why{Reason: "TargetUnreadable", Detail: "u"}},
	"unreadable": {
		(*fence).unread, lifecycle.Why{Reason: "TargetUnreadable", Detail: "u"},
	},
	"cluster unreadable": {
		func(f *fence) { f.unreadable, f.o.Unreadable = true, "u" }, lifecycle.Why{Reason: "TargetUnreadable", Detail: "u"},
	},
	"other fence":        {func(f *fence) { f.o.Node.Fence = others }, lifecycle.Why{Reason: "Queued", Detail: others}},
	"deleted by another": {func(f *fence) { f.o.Node.Disruption = "taint" }, lifecycle.Why{Reason: "NodeDisrupted", Detail: "taint"}},
	"condition": {func(f *fence) {
		f.o.Spec.Limits.BlockingConditions = []fencingv1.NodeCondition{{Type: "A", Status: "True"}, {Type: "B", Status: "False"}}
		f.o.Node.Conditions = map[string]corev1.ConditionStatus{"A": corev1.ConditionFalse, "B": corev1.ConditionFalse}
	}, lifecycle.Why{Reason: "BlockingCondition", Detail: "B=False"}},
	"too many not Ready": {
		func(f *fence) { f.cluster.NotReady = 5 },
		lifecycle.Why{Reason: "TooManyNotReady", Count: 5, Total: 10, Allowed: 4},
	},
	"all not Ready": {
		func(f *fence) { f.cluster = lifecycle.Cluster{Nodes: 1, NotReady: 1} },
		lifecycle.Why{Reason: "TooManyNotReady", Count: 1, Total: 1, Allowed: 1},
	},
	"too many fences": {func(f *fence) { f.cluster.Fenced = 1 }, lifecycle.Why{Reason: "TooManyFences", Count: 1, Total: 10, Allowed: 1}},
	"maxParallel": {
		func(f *fence) { f.cluster.Fenced, f.o.Spec.Limits.MaxParallel = 4, ptr.To[int32](3) },
		lifecycle.Why{Reason: "TooManyFences", Count: 4, Total: 10, Allowed: 3},
	},
	"only control plane": {func(f *fence) { f.o.Node.ControlPlane = true }, lifecycle.Why{Reason: "ControlPlaneNotHealthy"}},
	"other control plane": {
		func(f *fence) {
			f.o.Node.ControlPlane, f.cluster.OtherControlPlane, f.cluster.UnavailableControlPlane = true, 2, 1
		},
		lifecycle.Why{Reason: "ControlPlaneNotHealthy", Count: 1, Total: 2},
	},
}

func TestStep_Blocked_BeginsNothing(t *testing.T) {
	for name, c := range blocks {
		t.Run(name, func(t *testing.T) {
			f := newFence(t, one...)
			c.change(f)
			out := f.run()
			f.Expect(out.Why).To(Equal(c.why))
			f.Expect(out.Wake.Sub(f.now)).To(Equal(10 * time.Second))
			f.Expect(f.did()).To(BeEmpty())
			f.Expect(f.record.Node).To(BeNil())
		})
		t.Run(name+" before off", func(t *testing.T) {
			f := newFence(t, one...)
			f.hangs = true
			f.run()
			c.change(f)
			f.end(fencingv1.JobSucceeded)
			out := f.run()
			f.Expect(out.Why).To(Equal(c.why))
			f.Expect(out.Wake.Sub(f.now)).To(Equal(10 * time.Second))
			did := begins + "status bmc"
			if name == "paused" {
				// clusterctl pauses a Cluster, and then waits for block-move.
				did += ", RemoveTaint, Unblock"
			}
			f.Expect(f.did()).To(Equal(did))
		})
	}
}

// A Node that is not switched off can be Ready, and a check needs neither limits nor a taint.
func TestStep_NodeReady_BlocksPowerOff(t *testing.T) {
	f := newFence(t, one...)
	f.o.Node.Ready = corev1.ConditionTrue
	f.Expect(f.run().Why).To(Equal(lifecycle.Why{Reason: "NodeReady"}))
	f.o.Node.State = lifecycle.NodeGone
	f.Expect(f.run().Why).To(Equal(lifecycle.Why{Reason: "NodeNotFound"}))
	f = newFence(t)
	f.o.Plan.Isolation, f.o.Node.Ready = methods{fabric}, corev1.ConditionTrue
	f.Expect(f.run().Why).To(Equal(lifecycle.Why{}))
	f = newFence(t, one...)
	f.o.Spec.Mode, f.o.Node.Fence, f.cluster.NotReady = fencingv1.CheckDevices, others, 9
	f.run()
	f.Expect(f.did()).To(Equal("status bmc, Finish"))
}

func TestStep_Limits_AreInclusive(t *testing.T) {
	number, percent := intstr.FromInt32, intstr.FromString
	for name, c := range map[string]struct {
		limit   *intstr.IntOrString
		nodes   int
		allowed int
	}{
		"default":          {nil, 10, 4},
		"rounded up":       {nil, 11, 5},
		"of two":           {nil, 2, 1},
		"none":             {ptr.To(percent("0%")), 100, 1},
		"percentage":       {ptr.To(percent("10%")), 100, 10},
		"all":              {ptr.To(percent("100%")), 10, 10},
		"above all":        {ptr.To(percent("101%")), 10, 1},
		"below none":       {ptr.To(percent("-40%")), 10, 1},
		"no percentage":    {ptr.To(percent("many")), 10, 1},
		"number":           {ptr.To(number(3)), 10, 3},
		"number of a few":  {ptr.To(number(0)), 10, 1},
		"number above all": {ptr.To(number(20)), 10, 20},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFence(t, one...)
			f.o.Spec.Limits.MaxNotReady = c.limit
			f.cluster = lifecycle.Cluster{Nodes: c.nodes, NotReady: c.allowed + 1}
			why := f.run().Why
			f.Expect(why).To(Equal(lifecycle.Why{Reason: "TooManyNotReady", Count: c.allowed + 1, Total: c.nodes, Allowed: c.allowed}))
			if c.allowed < c.nodes {
				f.cluster.NotReady = c.allowed
				f.run()
				f.Expect(f.record.Reason).To(Equal("Rejoined"))
			}
		})
	}
	f := newFence(t, one...)
	f.o.Spec.Limits.MaxParallel, f.cluster.Fenced = ptr.To[int32](2), 1
	f.o.Node.ControlPlane, f.cluster.OtherControlPlane = true, 1
	f.run()
	f.Expect(f.record.Reason).To(Equal("Rejoined"))
}

func TestStep_Admission_BindsNode(t *testing.T) {
	f := newFence(t, one...)
	f.o.Node.ProviderID, f.o.Node.ClusterName, f.hangs = "provider", "cluster", true
	f.run()
	f.Expect(f.record.Node).To(Equal(&fencingv1.FencedNode{
		Name: "worker-1", UID: "node-uid", ProviderID: "provider", BootID: "boot-0", ClusterName: "cluster", ProfileName: "rack",
	}))
	// What was recorded before the taint is recorded again if it has changed.
	f = newFence(t, one...)
	f.until(lifecycle.AddTaint)
	f.o.Node.BootID, f.hangs = "boot-1", true
	f.run()
	f.Expect(f.record.Node.BootID).To(Equal("boot-1"))
	for _, effect := range []lifecycle.Effect{lifecycle.NoEffect, lifecycle.AddTaint} {
		f = newFence(t, one...)
		f.until(lifecycle.AddTaint)
		f.perform(effect)
		f.o.Node.UID = "another"
		f.run()
		f.Expect(f.record.Node.UID).To(BeEquivalentTo("another"))
		f.Expect(f.record.Reason).To(Equal(lifecycle.ReasonRejoined))
	}
}

func TestStep_Admission_NeedsFinalizerAndBlockMove(t *testing.T) {
	for _, has := range []func(*fence){func(*fence) {}, func(f *fence) { f.o.Finalizer = true }, func(f *fence) { f.o.BlockMove = true }} {
		f := newFence(t, one...)
		has(f)
		f.until(lifecycle.AddTaint)
		f.Expect(f.did()).To(Equal("AddFinalizer"))
	}
}

func TestStep_BlockedAfterBinding_ForgetsNode(t *testing.T) {
	f := newFence(t, one...)
	f.until(lifecycle.AddTaint)
	node := f.o.Node
	f.unread()
	f.run()
	f.Expect(f.record.Node).ToNot(BeNil(), "it may have the taint")
	f.o.Deleting = true
	f.Expect(f.run().Why.Reason).To(Equal(lifecycle.ReasonTargetUnreadable))
	f.Expect(f.record.Phase).To(Equal(fencingv1.PhaseNew))
	f.o.Deleting, f.o.Node, f.o.Paused = false, node, true
	f.run()
	f.Expect(f.record.Node).To(BeNil())
	f.o.Deleting = true
	f.run()
	f.Expect(f.record.Result).To(Equal(fencingv1.ResultCanceled))
	f.Expect(f.did()).To(Equal("AddFinalizer, Unblock, Finish"))
	// Without a recorded Node there is no taint.
	f = newFence(t, one...)
	f.unread()
	f.o.Deleting = true
	f.run()
	f.Expect(f.record.Result).To(Equal(fencingv1.ResultCanceled))
}

func TestStep_DeletedWithTaint_IsUndone(t *testing.T) {
	f := newFence(t, one...)
	f.until(lifecycle.AddTaint)
	f.perform(lifecycle.AddTaint)
	f.o.Deleting = true
	f.run()
	f.Expect(f.did()).To(Equal(begins + "RemoveTaint, Finish"))
}

func TestStep_Finished_IsNotFencedAgain(t *testing.T) {
	results := map[string]fencingv1.Result{"Succeeded": "Succeeded", "Failed": "Failed", "Canceled": "Canceled", "other": "Failed"}
	for value, result := range results {
		f := newFence(t, one...)
		f.o.Finished = value
		f.run()
		f.Expect(f.record.Result).To(Equal(result))
		f.Expect(f.record.Reason).To(Equal(lifecycle.ReasonMoved))
		f.Expect(f.record.Node).To(BeNil())
	}
}

// Each of them is removed or set, also if a person has changed one.
func TestStep_Final_IsFinishedOnce(t *testing.T) {
	for name, change := range map[string]func(*fence){
		"finalizer": func(f *fence) { f.o.Finalizer = true }, "block-move": func(f *fence) { f.o.BlockMove = true },
		"finished": func(f *fence) { f.o.Finished = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFence(t, one...)
			f.run()
			f.did()
			f.run()
			f.Expect(f.did()).To(BeEmpty())
			change(f)
			f.run()
			f.Expect(f.did()).To(Equal("Finish"))
		})
	}
}

func TestNeedsCluster_BeforePowerOff_IsTrue(t *testing.T) {
	at := ptr.To(metav1.NewTime(start))
	isolated := []fencingv1.MethodRecord{{Name: fabric, Step: fencingv1.StepIsolation, OffRequested: at}}
	off := []fencingv1.MethodRecord{{Name: bmc, Step: fencingv1.StepPowerManagement, OffRequested: at}}
	g := NewWithT(t)
	for _, c := range []struct {
		phase   fencingv1.Phase
		step    fencingv1.FenceStep
		methods []fencingv1.MethodRecord
		needs   bool
	}{
		{"New", "Isolation", nil, true},
		{"Running", "Isolation", nil, false},
		{"New", "PowerManagement", isolated, false},
		{"Running", "PowerManagement", isolated, true},
		{"Running", "PowerManagement", off, false},
		{"Error", "PowerManagement", isolated, false},
		{"Running", "Recovery", isolated, false},
	} {
		record := &fencingv1.NodeFenceStatus{Phase: c.phase, Step: c.step, Methods: c.methods}
		g.Expect(lifecycle.NeedsCluster(record, &fencingv1.NodeFenceSpec{})).To(Equal(c.needs), "%+v", c)
		g.Expect(lifecycle.NeedsCluster(record, &fencingv1.NodeFenceSpec{Mode: fencingv1.CheckDevices})).To(BeFalse())
	}
}
