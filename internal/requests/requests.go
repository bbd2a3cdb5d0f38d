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

// Options are the cluster of the requests and templates.
type Options struct {
	// Client writes requests and access reviews. Reader reads live; it is Client by default.
	Client client.Client
	Reader client.Reader
	// Config is for watches. Without it nothing is watched, and everything is read live, as in a workload cluster.
	Config *rest.Config
	Clock  clock.Clock
	// Namespace is the only namespace with checks; empty for all.
	Namespace string
	// Cluster is for requests in a workload cluster, which are found by their label.
	Cluster client.ObjectKey
	// ReadOnly: nothing is written. A template or a kind of requests that the user is not allowed to read counts as valid and without
	// requests: the caller reports which permissions are missing.
	ReadOnly bool
}

// Requests are the remediation requests and templates of one cluster.
type Requests struct {
	// ended is closed when nothing is watched any more.
	ended     <-chan struct{}
	client    client.Client
	reader    client.Reader
	discovery rest.Interface
	dynamic   dynamic.Interface
	clock     clock.Clock
	namespace string
	cluster   client.ObjectKey
	readOnly  bool

	// timeout is that of questions about kinds and permissions. mapping has one place, for the goroutine that asks the mapper.
	timeout time.Duration
	mapping chan struct{}

	permissions permissions
	listeners   listeners
	running     sync.WaitGroup

	mu        sync.Mutex
	kinds     map[kindKey]*kind
	interests map[Check]*interest
}

// interest is the templates and kinds of requests of a check. It is reconciled when one of them changes.
type interest struct {
	templates []Reference
	kinds     []schema.GroupVersionKind
}

// names reports whether a template of the check is for requests of this kind.
func (i *interest) names(gvk schema.GroupVersionKind) bool {
	return slices.ContainsFunc(i.templates, func(t Reference) bool { return t.RequestKind() == gvk })
}

// New watches the requests of a cluster until the context ends.
func New(ctx context.Context, o Options) (*Requests, error) {
	r := &Requests{
		ended: ctx.Done(), client: o.Client, reader: o.Reader, clock: o.Clock, namespace: o.Namespace, cluster: o.Cluster, readOnly: o.ReadOnly,
		kinds: map[kindKey]*kind{}, interests: map[Check]*interest{}, timeout: defaultTimeout, mapping: make(chan struct{}, 1),
	}
	if r.reader == nil {
		r.reader = o.Client
	}
	if r.clock == nil {
		r.clock = clock.RealClock{}
	}
	r.permissions = permissions{client: r.client, clock: r.clock, timeout: r.timeout, known: map[permission]answer{}}
	if o.Config == nil {
		return r, nil
	}
	http, err := rest.HTTPClientFor(o.Config)
	if err != nil {
		return nil, errors.Wrap(err, "failed to create an HTTP client")
	}
	if r.dynamic, err = dynamic.NewForConfigAndClient(o.Config, http); err != nil {
		return nil, errors.Wrap(err, "failed to create a dynamic client")
	}
	asks, err := discovery.NewDiscoveryClientForConfigAndClient(o.Config, http)
	if err != nil {
		return nil, errors.Wrap(err, "failed to create a discovery client")
	}
	r.discovery = asks.RESTClient()
	return r, nil
}

// watches reports whether kinds are watched. Otherwise everything is read live.
func (r *Requests) watches() bool { return r.dynamic != nil }

// Forget is called when a check no longer exists. Kinds that no check needs are no longer watched.
func (r *Requests) Forget(c Check) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.interests[c] == nil {
		return
	}
	delete(r.interests, c)
	r.release()
}

// setTemplates records the templates of a check.
func (r *Requests) setTemplates(c Check, references []Reference) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.interestOf(c)
	if slices.Equal(i.templates, references) {
		return
	}
	i.templates = slices.Clone(references)
	r.release()
}

// setKinds records the kinds of requests of a check. It may have requests of other kinds from an earlier spec.
func (r *Requests) setKinds(c Check, kinds []schema.GroupVersionKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.interestOf(c)
	if slices.Equal(i.kinds, kinds) {
		return
	}
	i.kinds = slices.Clone(kinds)
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

// release stops the watches of kinds that no check needs. A kind with requests of an existing check is kept.
func (r *Requests) release() {
	wanted := map[kindKey]bool{}
	for _, i := range r.interests {
		for _, gvk := range i.kinds {
			wanted[kindKey{gvk, false}] = true
		}
		for _, t := range i.templates {
			wanted[kindKey{t.TemplateKind(), true}], wanted[kindKey{t.RequestKind(), false}] = true, true
		}
	}
	for u, k := range r.kinds {
		if wanted[u] || k.hasRequestOf(r.interests) {
			continue
		}
		k.stop()
		delete(r.kinds, u)
	}
}

// interested are the checks that need a kind, filtered by which if that is set.
func (r *Requests) interested(u kindKey, which func(Check, *interest) bool) []Check {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Check
	for c, i := range r.interests {
		asked := !u.template && slices.Contains(i.kinds, u.GroupVersionKind) || slices.ContainsFunc(i.templates, func(t Reference) bool {
			return u.template && t.TemplateKind() == u.GroupVersionKind || !u.template && t.RequestKind() == u.GroupVersionKind
		})
		if asked && (which == nil || which(c, i)) {
			all = append(all, c)
		}
	}
	return all
}

// How long answers are valid. If a permission is removed, the API server rejects the next use of it. A permission or a kind that is missing
// is expected to be added. A missing answer is valid just long enough for all checks that ask at the same time.
const (
	grantedFor = 10 * time.Minute
	missingFor = 15 * time.Second
	failedFor  = 5 * time.Second
)

const defaultTimeout = 10 * time.Second
