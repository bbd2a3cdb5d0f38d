// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

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
)

// audit is a book of every state that anything on a stage has ever had, whoever has written it: how a story ends does not tell what it was like
// meanwhile.
type audit struct {
	s       *stage
	mu      sync.Mutex
	entries []entry
	// here are the versions of what is there.
	here map[types.UID]string
	// stop ends the watches.
	stop context.CancelFunc
}

// entry is one change. well says how the Node of that name was when it was seen.
type entry struct {
	*unstructured.Unstructured
	gone, well bool
	version    uint64
}

var (
	checkKind   = remedyv1.GroupVersion.WithKind("MachineHealthCheck")
	machineKind = clusterv1.GroupVersion.WithKind("Machine")
	bookKinds   = []schema.GroupVersionKind{checkKind, machineKind, remediator.Metal3.GroupVersionKind, remediator.FenceAgents.GroupVersionKind}
)

// audited has everything on a stage written down from now on, and goes through it when the test is over.
func (s *stage) audited() {
	s.t.Helper()
	a := s.openBook()
	s.book = a
	s.t.Cleanup(func() {
		defer a.stop()
		if !s.t.Failed() {
			s.Expect(a.wrong()).To(BeEmpty())
		}
	})
}

func (s *stage) openBook() *audit {
	s.t.Helper()
	watcher, err := client.NewWithWatch(management.Admin, client.Options{Scheme: scheme(s.t)})
	s.Expect(err).ToNot(HaveOccurred())
	a := &audit{s: s, here: map[types.UID]string{}}
	var ctx context.Context
	ctx, a.stop = context.WithCancel(s.ctx)
	for _, kind := range bookKinds {
		w, err := watcher.Watch(ctx, listOf(kind), client.InNamespace(s.namespace))
		s.Expect(err).ToNot(HaveOccurred())
		go a.follow(w)
	}
	return a
}

func listOf(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}

func (a *audit) follow(w watch.Interface) {
	for event := range w.ResultChan() {
		object, is := event.Object.(*unstructured.Unstructured)
		if !is || event.Type == watch.Bookmark {
			continue
		}
		version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
		if err != nil {
			continue
		}
		a.mu.Lock()
		a.entries = append(a.entries, entry{object, event.Type == watch.Deleted, a.s.isReady(object.GetName()), version})
		a.here[object.GetUID()] = object.GetResourceVersion()
		if event.Type == watch.Deleted {
			delete(a.here, object.GetUID())
		}
		a.mu.Unlock()
	}
}

// missing is what is there and was not written down yet, or the other way round.
func (a *audit) missing() []string {
	there := map[types.UID]string{}
	for _, kind := range bookKinds {
		list := listOf(kind)
		a.s.Expect(a.s.admin.List(a.s.ctx, list, client.InNamespace(a.s.namespace))).To(Succeed())
		for i := range list.Items {
			there[list.Items[i].GetUID()] = list.Items[i].GetResourceVersion()
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var missing []string
	for uid, version := range there {
		if a.here[uid] != version {
			missing = append(missing, string(uid)+" as it is")
		}
	}
	for uid := range a.here {
		if there[uid] == "" {
			missing = append(missing, string(uid)+" has gone")
		}
	}
	return missing
}

// page is what was there at a time.
type page struct {
	checks, machines, requests map[types.UID]entry
}

// wrong is the first thing that should never have been; empty if there is none. It ends the book.
func (a *audit) wrong() string {
	a.s.t.Helper()
	a.s.Eventually(a.missing).Should(BeEmpty(), "the book is complete")
	a.stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.SortFunc(a.entries, func(x, y entry) int { return cmp.Compare(x.version, y.version) })
	p := page{map[types.UID]entry{}, map[types.UID]entry{}, map[types.UID]entry{}}
	for _, now := range a.entries {
		all, about := p.requests, p.aboutRequest
		switch now.GroupVersionKind() {
		case checkKind:
			all, about = p.checks, p.aboutCheck
		case machineKind:
			all, about = p.machines, p.aboutMachine
		}
		if wrong := about(now); wrong != "" {
			return fmt.Sprintf("%s %s in version %d: %s", now.GetKind(), now.GetName(), now.version, wrong)
		}
		all[now.GetUID()] = now
		if now.gone {
			delete(all, now.GetUID())
		}
	}
	return ""
}

// aboutMachine: who asks an owner has signed before, and stays until it is taken back.
func (p page) aboutMachine(now entry) string {
	before, known := p.machines[now.GetUID()]
	if now.gone || !waits(now) || known && waits(before) {
		return ""
	}
	author := now.GetAnnotations()[remedyv1.MarkedByAnnotation]
	switch {
	case author == "":
		return "its owner is asked, and nobody has signed"
	case !p.finalized(author):
		return "its owner is asked by one who may go at any time"
	}
	return ""
}

func waits(m entry) bool {
	conditions, _, _ := unstructured.NestedSlice(m.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == clusterv1.MachineOwnerRemediatedCondition && condition["reason"] == clusterv1.MachineOwnerRemediatedWaitingForRemediationReason
	})
}

// finalized says whether a check is kept until it has cleaned up. It is named as on a Machine, without its namespace.
func (p page) finalized(author string) bool {
	for _, check := range p.checks {
		if "MachineHealthCheck/"+check.GetName() == author && slices.Contains(check.GetFinalizers(), remedyv1.CleanupFinalizer) {
			return true
		}
	}
	return false
}

// aboutRequest: there is one for a Machine at a time, it is made as long as there is somebody who cleans up, and it is not taken from a remediator
// that was not told to stop, but for one that has succeeded and for a Machine that is well.
func (p page) aboutRequest(now entry) string {
	before, known := p.requests[now.GetUID()]
	if !known {
		for _, other := range p.requests {
			if slices.EqualFunc(other.GetOwnerReferences(), now.GetOwnerReferences(), func(x, y metav1.OwnerReference) bool { return x.UID == y.UID }) {
				return fmt.Sprintf("it is the second one for its Machine, beside %s %s", other.GetKind(), other.GetName())
			}
		}
		// Its author stands on it with the namespace.
		author := strings.Replace(now.GetAnnotations()[remedyv1.CheckAnnotation], now.GetNamespace()+"/", "", 1)
		if author != "" && !p.finalized(author) {
			return "it is made by " + author + ", who may go at any time"
		}
		return ""
	}
	told := now.GetAnnotations()[remedyv1.TimedOutAnnotation] != ""
	if (now.gone || now.GetDeletionTimestamp() != nil) && before.GetDeletionTimestamp() == nil && !told && !now.well && remediator.Condition(now.Unstructured, "Succeeded") != "True" {
		return "it is deleted, and its remediator was not told to stop"
	}
	return ""
}

// aboutCheck: nobody goes and leaves something behind.
func (p page) aboutCheck(now entry) string {
	if !now.gone {
		return ""
	}
	for _, m := range p.machines {
		if m.GetAnnotations()[remedyv1.MarkedByAnnotation] == "MachineHealthCheck/"+now.GetName() {
			return "it has gone, and has signed " + m.GetName()
		}
	}
	for _, request := range p.requests {
		if request.GetAnnotations()[remedyv1.CheckAnnotation] == "MachineHealthCheck/"+now.GetNamespace()+"/"+now.GetName() {
			return "it has gone, and there is its request " + request.GetName()
		}
	}
	return ""
}
