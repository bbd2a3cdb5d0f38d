// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing"
)

// observed is what can be seen of a StatefulSet and its server at a moment.
type observed struct {
	node *corev1.Node
	// pod is nil while none exists.
	pod *corev1.Pod
	// fence is nil before it is requested, and after it is deleted.
	fence *fencingv1.NodeFence
	// attached are the Nodes that the volume is attached to.
	attached []string
	// writes is the Node on which the Pod writes.
	writes string
}

// timeline is when something was first observed, from when the server failed.
type timeline struct {
	database string
	server   *fencing.Machine
	pod      types.UID
	boot     string
	began    time.Time

	lock sync.Mutex
	at   map[string]time.Duration
	end  context.CancelFunc
	done chan struct{}
}

// milestone is something that is observed at most once.
type milestone struct {
	text string
	is   func(*timeline, *observed) bool
}

// milestones are what is observed, in the order in which the fence reaches them.
var milestones = []milestone{
	{"Node is Unknown", func(_ *timeline, o *observed) bool { return fencing.Ready(o.node) == corev1.ConditionUnknown }},
	{"fenced: the BMC has answered OFF", func(_ *timeline, o *observed) bool { return o.fence != nil && o.fence.Status.Evidence != nil }},
	{"Pod is terminating", func(t *timeline, o *observed) bool {
		return o.pod != nil && o.pod.UID == t.pod && o.pod.DeletionTimestamp != nil
	}},
	{"proven off again, after that", func(_ *timeline, o *observed) bool {
		return o.fence != nil && o.fence.Status.Release != nil && o.fence.Status.Release.ProvenAt != nil
	}},
	{"Node has the taint out-of-service", func(_ *timeline, o *observed) bool { return hasTaint(o.node, corev1.TaintNodeOutOfService) }},
	{"Pod is removed", func(t *timeline, o *observed) bool { return o.pod == nil || o.pod.UID != t.pod }},
	{"volume is detached", func(t *timeline, o *observed) bool { return !slices.Contains(o.attached, t.server.Name) }},
	{"replacement runs", func(t *timeline, o *observed) bool {
		return o.writes != "" && o.writes != t.server.Name && o.pod != nil && o.pod.UID != t.pod
	}},
	{"Node is Ready with a new boot", func(t *timeline, o *observed) bool {
		return fencing.Ready(o.node) == corev1.ConditionTrue && o.node.Status.NodeInfo.BootID != t.boot
	}},
	{"Node has no taint of the fence", func(t *timeline, o *observed) bool {
		return t.has(rejoined) && !hasTaint(o.node, fencingv1.FencingTaint) && !hasTaint(o.node, corev1.TaintNodeOutOfService)
	}},
}

// rejoined is the milestone after which the taints are removed.
const rejoined = "Node is Ready with a new boot"

func hasTaint(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
}

func (t *timeline) has(text string) bool {
	t.lock.Lock()
	defer t.lock.Unlock()
	_, has := t.at[text]
	return has
}

// watch begins a timeline: the server fails now. It ends with a context, or when everything was observed.
func (d *demonstration) watch(ctx context.Context, database string, server *fencing.Machine) (*timeline, error) {
	node, err := d.node(ctx, server.Name)
	if err != nil {
		return nil, err
	}
	pod, err := d.pod(ctx, database)
	if err != nil {
		return nil, err
	}
	t := &timeline{
		database: database, server: server, pod: pod.UID, boot: node.Status.NodeInfo.BootID, began: time.Now(),
		at: map[string]time.Duration{}, done: make(chan struct{}),
	}
	ctx, t.end = context.WithCancel(ctx)
	d.timelines = append(d.timelines, t)
	go func() {
		defer close(t.done)
		for ctx.Err() == nil && len(t.at) < len(milestones) {
			if o, err := d.observe(ctx, t); err == nil {
				t.add(o)
			}
			select {
			case <-ctx.Done():
			case <-time.After(interval):
			}
		}
	}()
	return t, nil
}

// add adds what is observed for the first time.
func (t *timeline) add(o *observed) {
	for _, m := range milestones {
		if !t.has(m.text) && m.is(t, o) {
			t.lock.Lock()
			t.at[m.text] = time.Since(t.began)
			t.lock.Unlock()
		}
	}
}

// observe reads everything.
func (d *demonstration) observe(ctx context.Context, t *timeline) (*observed, error) {
	o := &observed{}
	var err error
	if o.node, err = d.node(ctx, t.server.Name); err != nil {
		return nil, err
	}
	if o.pod, err = d.pod(ctx, t.database); apierrors.IsNotFound(err) {
		o.pod = nil
	} else if err != nil {
		return nil, err
	}
	fences := &fencingv1.NodeFenceList{}
	if err := d.world.API.List(ctx, fences); err != nil {
		return nil, errors.WithStack(err)
	}
	for i := range fences.Items {
		if f := &fences.Items[i]; f.Status.Node != nil && f.Status.Node.Name == t.server.Name {
			o.fence = f
		}
	}
	claim, attachments := &corev1.PersistentVolumeClaim{}, &storagev1.VolumeAttachmentList{}
	if err := d.world.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "data-" + t.database + "-0"}, claim); err != nil {
		return nil, errors.WithStack(err)
	}
	if err := d.world.API.List(ctx, attachments); err != nil {
		return nil, errors.WithStack(err)
	}
	for i := range attachments.Items {
		if a := &attachments.Items[i]; *a.Spec.Source.PersistentVolumeName == claim.Spec.VolumeName {
			o.attached = append(o.attached, a.Spec.NodeName)
		}
	}
	if runs := d.world.Kubelets.Writes.Runs(namespace, t.database+"-0"); len(runs) > 0 && !runs[len(runs)-1].Ended {
		o.writes = runs[len(runs)-1].Node
	}
	return o, nil
}

func (d *demonstration) pod(ctx context.Context, database string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, d.world.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: database + "-0"}, pod)
}

// compare prints two timelines in one table.
func (d *demonstration) compare(fenced, not *timeline) {
	lines := make([]string, 0, 1+len(milestones))
	lines = append(lines, fmt.Sprintf("%-36s %16s %16s", "", fenced.database+" (fenced)", not.database+" (no fence)"))
	column := func(t *timeline, text string) string {
		t.lock.Lock()
		defer t.lock.Unlock()
		if at, has := t.at[text]; has {
			return fmt.Sprintf("%.1f", at.Seconds())
		}
		return "-"
	}
	for _, m := range milestones {
		lines = append(lines, fmt.Sprintf("%-36s %16s %16s", m.text, column(fenced, m.text), column(not, m.text)))
	}
	d.Lines(strings.Join(lines, "\n"))
}
