// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/pipeline"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// recordKinds adds the kinds of requests that a check can create to its annotation, which has space for them: they come first if the
// annotation is full.
func recordKinds(object client.Object, check *Check) {
	noted := notes.RequestKinds(object.GetAnnotations())
	var added []notes.RequestKind
	for _, template := range check.Templates {
		if kind := check.kindOf(template); !slices.Contains(noted, kind) && !slices.Contains(added, kind) {
			added = append(added, kind)
		}
	}
	if len(noted)+len(added) > notes.MaxRequestKinds {
		noted, added = added, noted
	}
	annotate(object, notes.OfRequestKinds(append(noted, added...)))
}

// kindOf returns the kind of the requests of a template, with their namespace if the check has none.
func (c *Check) kindOf(template requests.Reference) notes.RequestKind {
	kind := notes.RequestKind{GroupVersionKind: template.RequestKind()}
	if c.ID.Namespace == "" {
		kind.Namespace = template.Namespace
	}
	return kind
}

func annotate(object client.Object, n notes.Notes) {
	annotations, _ := n.Apply(object.GetAnnotations())
	object.SetAnnotations(annotations)
}

// RequestKinds returns the kinds of which a check may have requests. A kind that the check names is read in the version that it names.
func RequestKinds(check *Check) []schema.GroupVersionKind {
	all := namedKinds(check)
	for _, noted := range notes.RequestKinds(check.Object.GetAnnotations()) {
		gvk := noted.GroupVersionKind
		if !slices.ContainsFunc(all, func(other schema.GroupVersionKind) bool { return other.GroupKind() == gvk.GroupKind() }) {
			all = append(all, gvk)
		}
	}
	return all
}

// readOwn finds the requests of this check. A kind that is still being read is not taken for a kind without requests.
func (p *scope) readOwn(ctx context.Context, s *snapshot) error {
	named := namedKinds(s.check)
	s.kinds = RequestKinds(s.check)
	found, err := p.requests.OfCheck(ctx, s.check.ID, s.kinds...)
	var unknown *requests.NotKnownError
	if err != nil && !errors.As(err, &unknown) {
		return errors.Wrap(err, "failed to read the requests")
	}
	namespaces := s.check.Namespaces()
	s.setRequests(slices.DeleteFunc(found, func(r *requests.Request) bool { return !slices.Contains(namespaces, r.Namespace) }))
	if unknown == nil {
		unknown = &requests.NotKnownError{}
	}
	s.pending = s.pending || len(unknown.Kinds) > 0
	for _, gvk := range named {
		why, trouble := unknown.Problems[gvk]
		// A kind that is not served has no requests.
		trouble = trouble && why != requests.NotServed
		s.unknown = s.unknown || (trouble || slices.Contains(unknown.Kinds, gvk)) && !p.requests.WasListed(gvk)
	}
	// Requests of kinds that the check no longer names have to be cleaned up, too.
	for gvk, why := range unknown.Problems {
		if why != requests.NotServed || slices.Contains(named, gvk) {
			s.requeueAt(p.now.Add(remediation.RetryTime))
		}
		if why != requests.NotServed {
			s.unread = append(s.unread, gvk.GroupKind().String()+": "+why)
		}
	}
	for _, gvk := range unknown.Kinds {
		s.unread = append(s.unread, "requests of kind "+gvk.GroupKind().String()+" are not listed yet")
	}
	return nil
}

// cause returns why something could not be read; empty without an error. Messages of conditions contain it, so it is constant and contains
// no address.
func cause(err error) string {
	var read *workload.ReadError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &read):
		return read.Error()
	case apierrors.IsForbidden(err):
		return "the manager is not allowed to read the management cluster; " + applyRoles
	default:
		return "the API server of the management cluster returned an error"
	}
}

// writeError adds to the error of a write which object could not be written, and why. Other causes than a conflict and a missing permission
// are those of a read.
func writeError(object, permission string, err error, cause func(error) string) error {
	why := ""
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		why = "it has changed since it was read"
	case apierrors.IsForbidden(err) && permission != "":
		why = "the manager is not allowed to write it; " + permission
	default:
		why = cause(err)
	}
	return &pipeline.WriteError{Cause: object + ": " + why, Err: err}
}

// applyRoles is what to do if the manager lacks a permission in the management cluster.
const applyRoles = "apply the roles of its release"

// causeOfKind is the same for requests: the remediation provider brings the permissions for them.
func causeOfKind(err error) string {
	if apierrors.IsForbidden(err) {
		return "the manager is not allowed to read them; apply the roles of the remediation provider"
	}
	return cause(err)
}

// requestsOf returns the requests of the cluster in which a check has its own.
func (e *Environment) requestsOf(ctx context.Context, check *Check) (*requests.Requests, error) {
	if check.Place != requests.InWorkload {
		return e.Requests, nil
	}
	api, err := e.Clusters.Get(check.Cluster).Client(ctx)
	if err != nil {
		return nil, err
	}
	e.workloadMu.Lock()
	defer e.workloadMu.Unlock()
	known, found := e.workloadRequests[check.Cluster]
	if found && known.client == api {
		return known.Requests, nil
	}
	created, err := requests.New(ctx, requests.Options{Client: api, Cluster: check.Cluster, ReadOnly: e.ReadOnly})
	if err != nil {
		return nil, err
	}
	if e.workloadRequests == nil {
		e.workloadRequests = map[client.ObjectKey]workloadRequests{}
	}
	// Those of deleted Clusters are dropped.
	maps.DeleteFunc(e.workloadRequests, func(cluster client.ObjectKey, _ workloadRequests) bool {
		_, err := e.Clusters.Get(cluster).Client(ctx)
		return err != nil
	})
	e.workloadRequests[check.Cluster] = workloadRequests{created, api}
	return created, nil
}

// workloadRequests are the requests of a workload cluster, as long as it has the same connection.
type workloadRequests struct {
	*requests.Requests
	client client.Client
}

// liveKind are the requests of one kind that were read live.
type liveKind struct {
	found []*requests.Request
	// all: they are all of the namespaces. Otherwise they are those with the names of some targets.
	all bool
	// failed are the errors of reads, by the names of targets.
	failed map[string]error
}

// readRequestsAgain reads the requests of some targets live; those of all targets where their number counts. Where requests of a kind
// cannot be read, those of the cache are used.
func (p *scope) readRequestsAgain(ctx context.Context, fresh *snapshot, targets []int, all bool) {
	kinds := namedKinds(fresh.check)
	read := make(map[schema.GroupVersionKind]*liveKind, len(kinds))
	var live, own []*requests.Request
	for _, gvk := range kinds {
		read[gvk] = p.readKind(ctx, gvk, targets, all)
		live = append(live, read[gvk].found...)
	}
	for _, r := range live {
		if fresh.check.created(r) {
			own = append(own, r)
		}
	}
	for _, r := range p.snapshot.requests {
		known := slices.ContainsFunc(own, func(f *requests.Request) bool { return f.UID == r.UID })
		asked := slices.ContainsFunc(targets, func(i int) bool { return p.snapshot.targets[i].name() == r.Name })
		if k := read[r.Kind]; !known && (k == nil || !k.all && (!asked || k.failed[r.Name] != nil)) {
			own = append(own, r)
		}
	}
	fresh.setRequests(own)
	fresh.findNameConflicts(targets, append(slices.Clone(live), fresh.requests...))
	for _, gvk := range kinds {
		p.missed(fresh, gvk, read[gvk], targets)
	}
}

// missed marks the targets for which it matters that requests of a kind could not be read. A target with such a request waits. For a target
// that would get one, no remediation starts; nor for any other target, if requests of the kind were never read. If they were read once, the
// cache has all that this process has created since.
func (p *scope) missed(fresh *snapshot, gvk schema.GroupVersionKind, k *liveKind, targets []int) {
	next := fresh.nextTemplates()
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
		case slices.ContainsFunc(next(t), hasRequestKind(gvk)) || !p.requests.WasListed(gvk):
			fresh.unsure[i] = why
		}
	}
}

// hasRequestKind returns a function that reports whether requests of a kind are created from a template.
func hasRequestKind(gvk schema.GroupVersionKind) func(template requests.Reference) bool {
	return func(template requests.Reference) bool { return template.RequestKind().GroupKind() == gvk.GroupKind() }
}

// kindTime is how long it may take to read requests of one kind live. An API server that cannot list them lets its clients wait.
const kindTime = 5 * time.Second

// readKind reads the requests of a kind that have the names of some targets, of any check; or all of the namespaces. If they cannot be
// listed, which a single request can cause, they are read one by one for the rest of this reconcile.
func (p *scope) readKind(ctx context.Context, gvk schema.GroupVersionKind, targets []int, everything bool) *liveKind {
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
		name := p.snapshot.targets[i].name()
		for _, namespace := range p.snapshot.check.Namespaces() {
			found, err := p.requests.GetLive(ctx, gvk, client.ObjectKey{Namespace: namespace, Name: name})
			switch {
			case err != nil:
				ctrl.LoggerFrom(ctx).V(4).Info("A request could not be read live", "reason", err.Error())
				k.failed[name] = err
			case found != nil:
				k.found = append(k.found, found)
			}
		}
	}
	return k
}

// listKind returns nil if the requests cannot be listed.
func (p *scope) listKind(ctx context.Context, gvk schema.GroupVersionKind) *liveKind {
	ctx, done := context.WithTimeout(ctx, kindTime)
	defer done()
	found, err := p.requests.ListKind(ctx, gvk, p.snapshot.check.ID.Namespace)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(4).Info("Requests could not be listed live", "kind", gvk.Kind, "reason", err.Error())
		return nil
	}
	namespaces := p.snapshot.check.Namespaces()
	return &liveKind{all: true, found: slices.DeleteFunc(found, func(r *requests.Request) bool {
		return !slices.Contains(namespaces, r.Namespace)
	})}
}

// findNameConflicts records which names of requests that targets could get next belong to other objects.
func (s *snapshot) findNameConflicts(targets []int, live []*requests.Request) {
	s.nameConflicts = map[string]string{}
	next := s.nextTemplates()
	byName := make(map[string][]*requests.Request, len(live))
	for _, r := range live {
		byName[r.Name] = append(byName[r.Name], r)
	}
	for _, i := range targets {
		t := s.targets[i]
		for _, r := range byName[t.name()] {
			if s.conflicts(r, t, next(t)) {
				s.nameConflicts[t.name()] = s.nameOf(r)
			}
		}
	}
}

// earlierRequest returns the request of this check, of any kind, for an earlier Node of the name of a target; nil without one.
func (s *snapshot) earlierRequest(t *Target) *requests.Request {
	at := slices.IndexFunc(s.requests, func(r *requests.Request) bool { return t.Subject.OfNode && r.Name == t.name() && !s.owns(r, t) })
	if at < 0 {
		return nil
	}
	return s.requests[at]
}

// conflicts reports whether a request with the name of a target keeps the check from creating one from one of these templates. Two Nodes of
// one name are the same server, so a request of the check for the earlier Node conflicts whatever its kind is.
func (s *snapshot) conflicts(r *requests.Request, t *Target, next []requests.Reference) bool {
	if s.owns(r, t) {
		return false
	}
	same := slices.ContainsFunc(next, func(template requests.Reference) bool {
		return hasRequestKind(r.Kind)(template) && r.Namespace == template.Namespace
	})
	return same || t.Subject.OfNode && s.check.created(r)
}
