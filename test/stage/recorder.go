// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// Recorder records every state of the objects of a stage: the final state does not show what happened before.
type Recorder struct {
	s       *Stage
	mu      sync.Mutex
	entries []entry
	// existing are the resource versions of the existing objects.
	existing map[types.UID]string
	// Stop ends the watches.
	Stop context.CancelFunc
}

// entry is one change. healthy is whether the Node of that name was ready when it was observed.
type entry struct {
	*unstructured.Unstructured
	deleted, healthy bool
	version          uint64
}

var (
	checkKind     = remedyv1.GroupVersion.WithKind("MachineHealthCheck")
	nodeCheckKind = remedyv1.GroupVersion.WithKind("NodeHealthCheck")
	machineKind   = clusterv1.GroupVersion.WithKind("Machine")
	recordedKinds = []schema.GroupVersionKind{
		checkKind,
		nodeCheckKind,
		machineKind,
		remediator.Metal3.GroupVersionKind,
		remediator.FenceAgents.GroupVersionKind,
		remediator.Example.GroupVersionKind,
	}
)

// Record records everything from now on, and verifies it at the end of the test.
func (s *Stage) Record() {
	s.T.Helper()
	a := s.StartRecorder()
	s.T.Cleanup(func() {
		defer a.Stop()
		if !s.T.Failed() {
			s.Expect(a.Violation()).To(BeEmpty())
		}
	})
}

// StartRecorder records everything until its Stop is called.
func (s *Stage) StartRecorder() *Recorder {
	s.T.Helper()
	watcher, err := client.NewWithWatch(Management.Admin, client.Options{Scheme: testenv.Scheme})
	s.Expect(err).ToNot(HaveOccurred())
	a := &Recorder{s: s, existing: map[types.UID]string{}}
	var ctx context.Context
	ctx, a.Stop = context.WithCancel(s.Ctx)
	for _, kind := range recordedKinds {
		w, err := watcher.Watch(ctx, listOf(kind), client.InNamespace(s.Namespace))
		s.Expect(err).ToNot(HaveOccurred())
		go a.follow(w)
	}
	s.recorder = a
	return a
}

func listOf(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}

func (a *Recorder) follow(w watch.Interface) {
	for event := range w.ResultChan() {
		object, is := event.Object.(*unstructured.Unstructured)
		if !is || event.Type == watch.Bookmark || !a.concerns(object) {
			continue
		}
		version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
		if err != nil {
			continue
		}
		a.mu.Lock()
		a.entries = append(
			a.entries,
			entry{object, event.Type == watch.Deleted, a.s.isReady(strings.TrimPrefix(object.GetName(), a.s.NodeName(""))), version},
		)
		a.existing[object.GetUID()] = object.GetResourceVersion()
		if event.Type == watch.Deleted {
			delete(a.existing, object.GetUID())
		}
		a.mu.Unlock()
	}
}

// concerns reports whether an object belongs to the stage. NodeHealthChecks are in no namespace.
func (a *Recorder) concerns(object *unstructured.Unstructured) bool {
	return object.GetNamespace() != "" || strings.HasPrefix(object.GetName(), a.s.NodeName(""))
}

// missing returns the objects whose current state was not observed yet.
func (a *Recorder) missing() []string {
	live := map[types.UID]string{}
	for _, kind := range recordedKinds {
		list := listOf(kind)
		a.s.Expect(a.s.Admin.List(a.s.Ctx, list, client.InNamespace(a.s.Namespace))).To(Succeed())
		for i := range list.Items {
			if !a.concerns(&list.Items[i]) {
				continue
			}
			live[list.Items[i].GetUID()] = list.Items[i].GetResourceVersion()
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var missing []string
	for uid, version := range live {
		if a.existing[uid] != version {
			missing = append(missing, string(uid)+" in its current version")
		}
	}
	for uid := range a.existing {
		if live[uid] == "" {
			missing = append(missing, string(uid)+" as deleted")
		}
	}
	return missing
}

// state is all objects at one time.
type state struct {
	checks, machines, requests map[types.UID]entry
}

// Violation returns the first state that must not happen; empty if there is none. It stops the recorder.
func (a *Recorder) Violation() string {
	a.s.T.Helper()
	a.s.Eventually(a.missing).Should(BeEmpty(), "these states are not recorded")
	a.Stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.SortFunc(a.entries, func(x, y entry) int { return cmp.Compare(x.version, y.version) })
	p := state{map[types.UID]entry{}, map[types.UID]entry{}, map[types.UID]entry{}}
	for _, now := range a.entries {
		all, about := p.requests, p.ofRequest
		switch now.GroupVersionKind() {
		case checkKind, nodeCheckKind:
			all, about = p.checks, p.ofCheck
		case machineKind:
			all, about = p.machines, p.ofMachine
		}
		if wrong := about(now); wrong != "" {
			return fmt.Sprintf("%s %s in version %d: %s", now.GetKind(), now.GetName(), now.version, wrong)
		}
		all[now.GetUID()] = now
		if now.deleted {
			delete(all, now.GetUID())
		}
	}
	return ""
}

// ofMachine: a check that requests owner remediation was annotated before, and exists until it cancels that.
func (p state) ofMachine(now entry) string {
	before, known := p.machines[now.GetUID()]
	if now.deleted || !waitsForOwner(now) || known && waitsForOwner(before) {
		return ""
	}
	author := now.GetAnnotations()[remedyv1.MarkedByAnnotation]
	switch {
	case author == "":
		return "owner remediation is requested without a responsible check"
	case !p.hasFinalizer(author):
		return "owner remediation is requested by a check without finalizer"
	}
	return ""
}

func waitsForOwner(m entry) bool {
	conditions, _, _ := unstructured.NestedSlice(m.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == clusterv1.MachineOwnerRemediatedCondition &&
			condition["reason"] == clusterv1.MachineOwnerRemediatedWaitingForRemediationReason
	})
}

// hasFinalizer reports whether a check has the finalizer. It is named as on a Machine, without its namespace, or as on the request for a
// Node.
func (p state) hasFinalizer(author string) bool {
	for _, check := range p.checks {
		named := author == check.GetKind()+"/"+check.GetName() || author == check.GetKind()+"//"+check.GetName()
		if named && slices.Contains(check.GetFinalizers(), remedyv1.CleanupFinalizer) {
			return true
		}
	}
	return false
}

// ofRequest: a Machine has one request at a time, whose check has the finalizer. A request is deleted only after its remediator got
// the timed-out annotation, or has succeeded, or the Machine is healthy.
func (p state) ofRequest(now entry) string {
	before, known := p.requests[now.GetUID()]
	if !known {
		for _, other := range p.requests {
			if slices.EqualFunc(
				other.GetOwnerReferences(),
				now.GetOwnerReferences(),
				func(x, y metav1.OwnerReference) bool { return x.UID == y.UID },
			) {
				return fmt.Sprintf("its Machine already has the request %s %s", other.GetKind(), other.GetName())
			}
		}
		// The annotation of a request has the namespace, too.
		author := strings.Replace(now.GetAnnotations()[remedyv1.CheckAnnotation], now.GetNamespace()+"/", "", 1)
		if author != "" && !p.hasFinalizer(author) {
			return "it is created by " + author + ", which has no finalizer"
		}
		return ""
	}
	begins := (now.deleted || now.GetDeletionTimestamp() != nil) && before.GetDeletionTimestamp() == nil
	stopped := now.GetAnnotations()[remedyv1.TimedOutAnnotation] != ""
	if begins && !stopped && !now.healthy && remediator.Condition(now.Unstructured, "Succeeded") != "True" {
		return "it is deleted, and its remediator did not get the timed-out annotation"
	}
	return ""
}

// ofCheck: a check leaves nothing behind.
func (p state) ofCheck(now entry) string {
	if !now.deleted {
		return ""
	}
	for _, m := range p.machines {
		if m.GetAnnotations()[remedyv1.MarkedByAnnotation] == "MachineHealthCheck/"+now.GetName() {
			return "it is deleted, and is still the responsible check of " + m.GetName()
		}
	}
	for _, request := range p.requests {
		if request.GetAnnotations()[remedyv1.CheckAnnotation] == now.GetKind()+"/"+now.GetNamespace()+"/"+now.GetName() {
			return "it is deleted, and its request exists: " + request.GetName()
		}
	}
	return ""
}
