// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options say in which cluster requests and templates are, and how it is reached.
type Options struct {
	// Client writes, and asks for rights; its scheme knows authorization.k8s.io/v1. Reader reads past every cache; Client does where it is nil.
	Client client.Client
	Reader client.Reader
	// Config is for following kinds. Without it nothing is followed: everything is read when it is asked for, as in a workload cluster.
	Config *rest.Config
	Clock  clock.Clock
	// Namespace is the only one that is looked at; empty for all.
	Namespace string
	// Cluster is the Cluster whose Nodes are beside the requests, where nothing is followed: they are found by their label then.
	Cluster client.ObjectKey
}

// Requests are the remediation requests and templates of one cluster.
type Requests struct {
	ctx       context.Context
	client    client.Client
	reader    client.Reader
	discovery rest.Interface
	dynamic   dynamic.Interface
	clock     clock.Clock
	namespace string
	cluster   client.ObjectKey

	// patience is how long the API server may take to say what is served and what is allowed. mapping has one place, for whoever asks the mapper.
	patience time.Duration
	mapping  chan struct{}

	rights   rights
	audience audience
	running  sync.WaitGroup

	mu        sync.Mutex
	kinds     map[use]*kind
	interests map[Check]*interest
}

// interest is what a check has asked about: it is woken when any of that changes.
type interest struct {
	templates []Reference
	kinds     map[schema.GroupVersionKind]bool
}

// New looks after the requests of a cluster, until the context ends.
func New(ctx context.Context, o Options) (*Requests, error) {
	r := &Requests{
		ctx: ctx, client: o.Client, reader: o.Reader, clock: o.Clock, namespace: o.Namespace, cluster: o.Cluster,
		kinds: map[use]*kind{}, interests: map[Check]*interest{}, patience: patience, mapping: make(chan struct{}, 1),
	}
	if r.reader == nil {
		r.reader = o.Client
	}
	if r.clock == nil {
		r.clock = clock.RealClock{}
	}
	r.rights = rights{client: r.client, clock: r.clock, patience: r.patience, known: map[right]answer{}}
	if o.Config == nil {
		return r, nil
	}
	http, err := rest.HTTPClientFor(o.Config)
	if err != nil {
		return nil, errors.Wrap(err, "failed to make a client for the kinds of remediators")
	}
	if r.dynamic, err = dynamic.NewForConfigAndClient(o.Config, http); err != nil {
		return nil, errors.Wrap(err, "failed to make a client for the kinds of remediators")
	}
	asks, err := discovery.NewDiscoveryClientForConfigAndClient(o.Config, http)
	if err != nil {
		return nil, errors.Wrap(err, "failed to make a client for the kinds of remediators")
	}
	r.discovery = asks.RESTClient()
	return r, nil
}

// follows says whether kinds are followed. Otherwise everything is read when it is asked for.
func (r *Requests) follows() bool { return r.dynamic != nil }

// Forget is called when a check is gone. Kinds that nobody asks about any more are not followed any longer.
func (r *Requests) Forget(c Check) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.interests, c)
	r.release()
}

// asksForTemplates notes which templates a check names. It does not name any others.
func (r *Requests) asksForTemplates(c Check, references []Reference) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.interestOf(c)
	if slices.Equal(i.templates, references) {
		return
	}
	i.templates = slices.Clone(references)
	r.release()
}

// asksForRequests notes of which kinds a check wants to know its requests. It may have some of other kinds, from before.
func (r *Requests) asksForRequests(c Check, kinds []schema.GroupVersionKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.interestOf(c)
	if len(i.kinds) == len(kinds) && !slices.ContainsFunc(kinds, func(k schema.GroupVersionKind) bool { return !i.kinds[k] }) {
		return
	}
	i.kinds = make(map[schema.GroupVersionKind]bool, len(kinds))
	for _, k := range kinds {
		i.kinds[k] = true
	}
	r.release()
}

func (r *Requests) interestOf(c Check) *interest {
	i := r.interests[c]
	if i == nil {
		i = &interest{}
		r.interests[c] = i
	}
	return i
}

// release stops following what nobody asks about any more. A kind of which there still are requests of a check that is there is kept.
func (r *Requests) release() {
	wanted := map[use]bool{}
	for _, i := range r.interests {
		for gvk := range i.kinds {
			wanted[use{gvk, false}] = true
		}
		for _, t := range i.templates {
			wanted[use{t.TemplateKind(), true}], wanted[use{t.RequestKind(), false}] = true, true
		}
	}
	for u, k := range r.kinds {
		if wanted[u] || k.holds(func(c Check) bool { return r.interests[c] != nil }) {
			continue
		}
		k.stop()
		delete(r.kinds, u)
	}
}

// askers are the checks that have asked about a kind, as far as they are such.
func (r *Requests) askers(u use, which func(Check, *interest) bool) []Check {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Check
	for c, i := range r.interests {
		asked := !u.template && i.kinds[u.GroupVersionKind] || slices.ContainsFunc(i.templates, func(t Reference) bool {
			return u.template && t.TemplateKind() == u.GroupVersionKind || !u.template && t.RequestKind() == u.GroupVersionKind
		})
		if asked && (which == nil || which(c, i)) {
			all = append(all, c)
		}
	}
	return all
}

// How long answers are believed. A right that is there can be taken away: then the API server says so when it is needed. A right or a kind that is
// missing is expected to come. That there is no answer is believed for as long as it takes to tell everybody who asks at the same time.
const (
	grantedFor = 10 * time.Minute
	missingFor = 15 * time.Second
	failedFor  = 5 * time.Second
)

// patience is how long the API server may take for an answer.
const patience = 10 * time.Second
