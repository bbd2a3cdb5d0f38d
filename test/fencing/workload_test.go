// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fencing

package fencing_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing/kubelet"
)

// database is a StatefulSet that runs on a machine, and a Node to which it can move. Its namespace has the name of the machine.
type database struct {
	*machine
	spare *kubelet.Node
	set   *appsv1.StatefulSet
}

// newDatabase starts a machine with a StatefulSet. A change can be of the profile or of the StatefulSet.
func newDatabase(t *testing.T, w *fencing.World, name string, changes ...any) *database {
	t.Helper()
	var profile []func(*fencingv1.FenceProfile)
	set := fencing.NewStatefulSet(name, "db", name)
	for _, change := range changes {
		switch change := change.(type) {
		case func(*fencingv1.FenceProfile):
			profile = append(profile, change)
		case func(*appsv1.StatefulSet):
			change(set)
		default:
			t.Fatalf("%T changes neither", change)
		}
	}
	d := &database{machine: newMachine(t, w, name, profile...), set: set}
	d.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	t.Cleanup(func() {
		d.atMostOne()
		if t.Failed() {
			d.explainWorkload()
		}
		if d.spare != nil {
			d.spare.Leave()
		}
	})
	d.create(set)
	for i := range int(*set.Spec.Replicas) {
		d.untilRuns(fmt.Sprintf("db-%d", i), d.Name)
	}
	var err error
	d.spare, err = w.AddNode(t.Context(), name+"-spare", map[string]string{fencing.SiteLabel: name})
	d.g.Expect(err).ToNot(HaveOccurred())
	d.log("the Pods of the StatefulSet run")
	return d
}

// evictAfter lets the Pods of a StatefulSet stay on a Node that is Unknown for a shorter time than is usual.
func evictAfter(after time.Duration) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { fencing.EvictAfter(&set.Spec.Template.Spec, after) }
}

// withoutVolume takes the volume from a StatefulSet.
func withoutVolume(set *appsv1.StatefulSet) {
	set.Spec.VolumeClaimTemplates, set.Spec.Template.Spec.Containers[0].VolumeMounts = nil, nil
}

func replicas(count int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		set.Spec.Replicas, set.Spec.PodManagementPolicy = &count, appsv1.ParallelPodManagement
	}
}

func (m *machine) create(object client.Object) {
	m.t.Helper()
	m.g.Expect(m.world.API.Create(m.t.Context(), object)).To(Succeed())
}

// atMostOne expects that no two Pods of the same identity have written at the same time.
func (d *database) atMostOne() {
	d.t.Helper()
	if overlaps := d.world.Kubelets.Writes.Overlaps(d.set.Namespace); overlaps != "" {
		d.t.Errorf("two Pods of the same identity have written at the same time:\n%s", overlaps)
	}
}

// pod returns a Pod; nil if it does not exist.
func (d *database) pod(name string) *corev1.Pod {
	pod := &corev1.Pod{}
	err := d.world.API.Get(context.Background(), client.ObjectKey{Namespace: d.set.Namespace, Name: name}, pod)
	d.g.Expect(client.IgnoreNotFound(err)).To(Succeed())
	if err != nil {
		return nil
	}
	return pod
}

// lastRun returns the last run of a Pod; nil without one.
func (d *database) lastRun(name string) *kubelet.Run {
	runs := d.world.Kubelets.Writes.Runs(d.set.Namespace, name)
	if len(runs) == 0 {
		return nil
	}
	return &runs[len(runs)-1]
}

// writing reports whether the last run of a Pod is on a Node and has not ended.
func (d *database) writing(name, node string) bool {
	run := d.lastRun(name)
	return run != nil && run.Node == node && !run.Ended
}

// untilRuns waits until a Pod is Ready on a Node, and writes. It returns its UID.
func (d *database) untilRuns(name, node string) types.UID {
	d.t.Helper()
	var uid types.UID
	d.g.Eventually(func() bool {
		pod := d.pod(name)
		if pod == nil || pod.Spec.NodeName != node || !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) || !d.writing(name, node) {
			return false
		}
		uid = pod.UID
		return true
	}, limit, 50*time.Millisecond).Should(BeTrue(), func() string {
		return fmt.Sprintf("%s does not run on %s\n%s", name, node, d.workload())
	})
	return uid
}

// runUIDs are the UIDs of the Pods db-0 that have written, each once.
func (d *database) runUIDs() []types.UID {
	var uids []types.UID
	for _, run := range d.world.Kubelets.Writes.Runs(d.set.Namespace, "db-0") {
		if !slices.Contains(uids, run.UID) {
			uids = append(uids, run.UID)
		}
	}
	return uids
}

// attachments are the Nodes that volumes of the StatefulSet are attached to.
func (d *database) attachments() []string {
	volumes, list := &corev1.PersistentVolumeList{}, &storagev1.VolumeAttachmentList{}
	d.g.Expect(d.world.API.List(context.Background(), volumes)).To(Succeed())
	d.g.Expect(d.world.API.List(context.Background(), list)).To(Succeed())
	var nodes []string
	for i := range list.Items {
		for j := range volumes.Items {
			if v := &volumes.Items[j]; *list.Items[i].Spec.Source.PersistentVolumeName == v.Name && v.Spec.ClaimRef.Namespace == d.set.Namespace {
				nodes = append(nodes, list.Items[i].Spec.NodeName)
			}
		}
	}
	return nodes
}

// workload is the Pods, the runs and the attached volumes of a scenario, in lines.
func (d *database) workload() string {
	text := &strings.Builder{}
	pods := &corev1.PodList{}
	_ = d.world.API.List(context.Background(), pods, client.InNamespace(d.set.Namespace))
	for i := range pods.Items {
		pod := &pods.Items[i]
		fmt.Fprintf(text, "Pod %s (%.8s) on %q: %s, deleted %v\n", pod.Name, pod.UID, pod.Spec.NodeName, pod.Status.Phase, pod.DeletionTimestamp)
	}
	for _, run := range d.world.Kubelets.Writes.Runs(d.set.Namespace, "") {
		fmt.Fprintf(text, "run %s ended=%v\n", run.String(), run.Ended)
	}
	fmt.Fprintf(text, "volumes are attached to %v\n", d.attachments())
	return text.String()
}

func (d *database) explainWorkload() {
	d.t.Logf("%s\n%s: taints %v, volumes in use %v", d.workload(), d.Name, d.node().Spec.Taints, d.node().Status.VolumesInUse)
	d.t.Logf("the log of kube-controller-manager ends with:\n%s", d.world.ControllerManager.Log().End(20))
}
