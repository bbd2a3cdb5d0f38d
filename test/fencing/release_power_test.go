// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fencing

package fencing_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/jobs"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing/bmc"
)

// A person switches the machine on at each point of the release. It boots while its Pods are being removed, and none of them starts a
// second time. The device answers ON then, so the machine is switched off again, unless its kubelet was there first.
func TestFenceRelease_PowerBack_StartsNoPodTwice(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		point func(*fencingv1.NodeFence) bool
	}{
		{"proven-off", func(f *fencingv1.NodeFence) bool { return f.Status.Evidence != nil }},
		{"terminated", terminated},
		{"proven-again", func(f *fencingv1.NodeFence) bool { return f.Status.Release != nil && f.Status.Release.ProvenAt != nil }},
		{"out-of-service", func(f *fencingv1.NodeFence) bool {
			return f.Status.Release != nil && f.Status.Release.OutOfServiceTaint
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t, theWorld(t), "power-back-"+test.name)
			d.hang()
			fence := d.fence()
			d.until(fence, "a person switches the machine on", test.point)
			d.g.Expect(d.SetPower(true)).To(Succeed())
			ended := d.untilEnded(fence)
			d.g.Expect(condition(ended, remedyv1.SucceededCondition)).To(Equal(metav1.ConditionTrue))
			d.undone()
			d.untilRunsAnywhere("db-0")
			d.g.Expect(len(d.runUIDs())).To(BeNumerically("<=", 2))
			d.log("%s after %d boots", d.lastRun("db-0"), d.Boots())
		})
	}
}

// untilRunsAnywhere waits until a Pod writes and is Ready, on whichever Node.
func (d *database) untilRunsAnywhere(name string) {
	d.t.Helper()
	d.g.Eventually(func() bool {
		pod := d.pod(name)
		return pod != nil && pod.DeletionTimestamp == nil && d.writing(name, pod.Spec.NodeName) && d.lastRun(name).UID == pod.UID
	}, limit, 50*time.Millisecond).Should(BeTrue(), d.workload)
}

// statusJobs are the names of all status Jobs of a fence.
func (m *machine) statusJobs(fence *fencingv1.NodeFence) []string {
	all := &batchv1.JobList{}
	m.g.Expect(m.world.API.List(m.t.Context(), all, client.InNamespace(fencing.Namespace))).To(Succeed())
	var names []string
	for i := range all.Items {
		if metav1.IsControlledBy(&all.Items[i], fence) && all.Items[i].Labels[jobs.ActionLabel] == string(fencingv1.ActionStatus) {
			names = append(names, all.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

// stopWhenTerminated requests a fence, and kills the manager when it has recorded that every Pod is terminating. All answers that the fence
// has are older than that.
func (d *database) stopWhenTerminated() *fencingv1.NodeFence {
	d.t.Helper()
	fence := d.fence()
	killed := d.world.Tap.KillAfter(func(write string) bool { return strings.Contains(write, "/nodefences/") && terminated(d.read(fence)) })
	d.log("the manager is killed after %s", <-killed)
	d.world.Tap.KillAfter(nil)
	d.g.Expect(d.read(fence).Status.Release.ProvenAt).To(BeNil())
	d.g.Expect(d.OffRequests()).To(Equal(1))
	return fence
}

// The manager is stopped just after it has recorded that every Pod is terminating, and a person switches the machine on. Its kubelet ends
// the Pod, which runs elsewhere without a manager. The kubelet of another machine does not start: when the manager runs again it asks
// again, gets ON, and switches off again.
func TestFenceRelease_ManagerStopped_AsksAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Cleanup(w.Stop)
	starts, d := newDatabase(t, w, "stopped-starts"), newDatabase(t, w, "stopped")
	starts.Kubelet.Hang()
	d.hang()
	starts.untilReady(corev1.ConditionUnknown)
	other := starts.stopWhenTerminated()
	starts.g.Expect(starts.SetPower(true)).To(Succeed())
	starts.untilRuns("db-0", starts.spare.Name)
	starts.log("without a manager, the Pod runs elsewhere")
	d.g.Expect(w.Fencing.Start()).To(Succeed())

	fence := d.stopWhenTerminated()
	before := len(d.statusJobs(fence))
	d.Kubelet.FailToStart()
	d.g.Expect(d.SetPower(true)).To(Succeed())
	d.g.Expect(w.Fencing.Start()).To(Succeed())
	d.until(fence, "the Node is proven off again", func(f *fencingv1.NodeFence) bool { return f.Status.Release.ProvenAt != nil })
	d.g.Expect(d.OffRequests()).To(Equal(2))
	d.g.Expect(d.Power()).To(BeFalse())
	d.g.Expect(len(d.statusJobs(fence))).To(BeNumerically(">=", before+2))
	d.untilRuns("db-0", d.spare.Name)
	d.Kubelet.Recover()
	d.endsWell(fence)
	starts.endsWell(other)
}

// endsWell expects that a fence ends, that nothing of it is left, and that a Pod was replaced once.
func (d *database) endsWell(fence *fencingv1.NodeFence) {
	d.t.Helper()
	d.g.Expect(d.untilEnded(fence).Status.Reason).To(Equal("Rejoined"))
	d.undone()
	d.g.Expect(d.runUIDs()).To(HaveLen(2))
}

// The fence is deleted at each point. Before the machine is switched off everything is undone; after that the fence goes on to its end. The
// StatefulSet runs once in each case.
func TestFenceRelease_DeletedAtEachPoint_EndsSafely(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		point func(*fencingv1.NodeFence) bool
		// isolated: the profile has a method of isolation, too.
		isolated bool
		off      int
	}{
		{"isolating", func(f *fencingv1.NodeFence) bool { return f.Status.Action != nil }, true, 0},
		{"off-requested", func(f *fencingv1.NodeFence) bool {
			return len(f.Status.Methods) > 0 && f.Status.Methods[0].OffRequested != nil
		}, false, 1},
		{"proven-off", func(f *fencingv1.NodeFence) bool { return f.Status.Evidence != nil }, false, 1},
		{"release-begun", func(f *fencingv1.NodeFence) bool { return f.Status.Release != nil }, false, 1},
		{"terminated", terminated, false, 1},
		{"out-of-service", func(f *fencingv1.NodeFence) bool {
			return f.Status.Release != nil && f.Status.Release.OutOfServiceTaint
		}, false, 1},
		{"released", released, true, 1},
		{"powered-on", func(f *fencingv1.NodeFence) bool { return f.Status.PoweredOn != nil }, false, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := theWorld(t)
			var changes []any
			var port *bmc.Machine
			if test.isolated {
				port = newPort(t, w, "gone-"+test.name+"-port")
				changes = append(changes, isolatedBy(port))
			}
			d := newDatabase(t, w, "gone-"+test.name, changes...)
			d.hang()
			fence := d.fence()
			d.until(fence, "the point is reached", test.point)
			d.g.Expect(w.API.Delete(t.Context(), fence)).To(Succeed())
			d.untilGone(fence)
			d.log("the fence is deleted")
			d.undone()
			d.g.Expect(d.Power()).To(BeTrue())
			d.g.Expect(d.OffRequests()).To(Equal(test.off))
			d.g.Expect(d.OnRequests()).To(Equal(test.off))
			if port != nil {
				d.g.Expect(port.Power()).To(BeTrue())
				d.g.Expect(port.OffRequests()).To(Equal(1))
			}
			d.untilRunsAnywhere("db-0")
		})
	}
}
