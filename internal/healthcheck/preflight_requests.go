// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// liveKind are the requests of one kind that were read live.
type liveKind struct {
	found []*requests.Found
	// all: they are all of the namespace. Otherwise they are those with the names of some targets.
	all bool
	// failed are the errors of reads, by the names of targets.
	failed map[string]error
}

// readRequestsAgain reads the requests of some targets live; those of all targets where their number counts. Where requests of a kind
// cannot be read, those of the cache are used.
func (p *pass) readRequestsAgain(ctx context.Context, fresh *snapshot, targets []int, all bool) {
	kinds := namedKinds(fresh.check)
	read := make(map[schema.GroupVersionKind]*liveKind, len(kinds))
	var live, own []*requests.Found
	for _, gvk := range kinds {
		read[gvk] = p.readKind(ctx, gvk, targets, all)
		live = append(live, read[gvk].found...)
	}
	for _, r := range live {
		if r.Of(fresh.check.ID) {
			own = append(own, r)
		}
	}
	for _, r := range p.snapshot.requests {
		known := slices.ContainsFunc(own, func(f *requests.Found) bool { return f.UID == r.UID })
		asked := slices.ContainsFunc(targets, func(i int) bool { return p.snapshot.targets[i].name() == r.Name })
		if k := read[r.Kind]; !known && (k == nil || !k.all && (!asked || k.failed[r.Name] != nil)) {
			own = append(own, r)
		}
	}
	fresh.setRequests(own)
	fresh.takeNames(targets, live)
	for _, gvk := range kinds {
		p.missed(fresh, gvk, read[gvk], targets)
	}
}

// missed marks the targets for which it matters that requests of a kind could not be read. A target with such a request waits. For a target
// that would get one, no remediation starts; nor for any other target, if requests of the kind were never read. If they were read once, the
// cache has all that this process has created since.
func (p *pass) missed(fresh *snapshot, gvk schema.GroupVersionKind, k *liveKind, targets []int) {
	next := fresh.nextKinds()
	for _, i := range targets {
		t := fresh.targets[i]
		err := k.failed[t.name()]
		if err == nil || fresh.unreadable[i] != "" {
			continue
		}
		why := gvk.GroupKind().String() + ": " + causeOfKind(err)
		switch has := fresh.requestFor(t); {
		case has != nil && has.Kind.GroupKind() == gvk.GroupKind():
			fresh.unreadable[i] = why
		case next(t).GroupKind() == gvk.GroupKind() || !p.r.Requests.Known(gvk):
			fresh.unsure[i] = why
		}
	}
}

// kindTime is how long it may take to read requests of one kind live. An API server that cannot list them lets its clients wait.
const kindTime = 5 * time.Second

// readKind reads the requests of a kind that have the names of some targets, of any check; or all of the namespace. If they cannot be
// listed, which a single request can cause, they are read one by one for the rest of this reconcile.
func (p *pass) readKind(ctx context.Context, gvk schema.GroupVersionKind, targets []int, everything bool) *liveKind {
	if everything && !p.unlisted[gvk] {
		if k := p.listKind(ctx, gvk); k != nil {
			return k
		}
		p.unlisted[gvk] = true
	}
	ctx, done := context.WithTimeout(ctx, kindTime)
	defer done()
	k := &liveKind{failed: map[string]error{}}
	for _, i := range targets {
		object := p.snapshot.targets[i].Object
		found, err := p.r.Requests.Live(ctx, gvk, client.ObjectKeyFromObject(object))
		switch {
		case err != nil:
			ctrl.LoggerFrom(ctx).V(4).Info("A request could not be read live", "reason", err.Error())
			k.failed[object.GetName()] = err
		case found != nil:
			k.found = append(k.found, found)
		}
	}
	return k
}

// listKind returns nil if the requests cannot be listed.
func (p *pass) listKind(ctx context.Context, gvk schema.GroupVersionKind) *liveKind {
	ctx, done := context.WithTimeout(ctx, kindTime)
	defer done()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	err := p.r.Live.List(ctx, list, client.InNamespace(p.snapshot.check.Object.GetNamespace()))
	if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		ctrl.LoggerFrom(ctx).V(4).Info("Requests could not be listed live", "kind", gvk.Kind, "reason", err.Error())
		return nil
	}
	k := &liveKind{all: true}
	for i := range list.Items {
		k.found = append(k.found, requests.Read(&list.Items[i]))
	}
	return k
}

// takeNames records which names of requests that targets could get next belong to other objects.
func (s *snapshot) takeNames(targets []int, live []*requests.Found) {
	s.taken = map[string]string{}
	next := s.nextKinds()
	byName := make(map[string][]*requests.Found, len(live))
	for _, r := range live {
		byName[r.Name] = append(byName[r.Name], r)
	}
	for _, i := range targets {
		t := s.targets[i]
		for _, r := range byName[t.name()] {
			if r.Kind.GroupKind() == next(t).GroupKind() && !s.owns(r, t) {
				s.taken[t.name()] = r.String()
			}
		}
	}
}
