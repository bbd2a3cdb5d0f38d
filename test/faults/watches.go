// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Watches are the watches of a process, on all API servers. What is held back here has left the API server and has not reached the process:
// its cache is as old as a cache can be, and everything else is what it is. Reads and lists are not held back.
//
// Resources are named like machines.cluster.x-k8s.io or nodes; none means all of them.
type Watches struct {
	lock sync.Mutex
	// changed wakes all waiters for an event that may be delivered.
	changed *sync.Cond
	// rules select what is delayed of a resource; that of "" is for all others.
	rules   map[string]rule
	open    map[*stream]bool
	expired map[string]int
	// dropped counts events by resource.
	dropped map[string]int
	ended   bool
}

// rule is how much of a watch is held back: everything, or so many of the latest events. What is dropped never comes.
type rule struct {
	held, drop bool
	lag        int
}

// watch is what a watch is about.
type watch struct {
	resource string
	// key distinguishes watches of different objects of a resource.
	key   string
	query url.Values
}

func newWatches() *Watches {
	w := &Watches{rules: map[string]rule{}, open: map[*stream]bool{}, expired: map[string]int{}, dropped: map[string]int{}}
	w.changed = sync.NewCond(&w.lock)
	return w
}

// Hold keeps back every event from now on, also of watches that begin later: a cache that begins now never gets ready. Everything that was
// delivered before stays.
func (w *Watches) Hold(resources ...string) { w.rule(rule{held: true}, resources) }

// Lag keeps back the latest n events of each watch. It is meant for caches that are ready: another one waits for the rest of its first
// events.
func (w *Watches) Lag(n int, resources ...string) { w.rule(rule{lag: n}, resources) }

// Drop loses every event from now on. Watches stay open, and bookmarks come, so no cache asks for what was lost.
func (w *Watches) Drop(resources ...string) { w.rule(rule{drop: true}, resources) }

// Dropped is how many events of a resource were lost.
func (w *Watches) Dropped(resource string) int {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.dropped[resource]
}

// Release delivers what was held back, and holds nothing back any more.
func (w *Watches) Release(resources ...string) { w.rule(rule{}, resources) }

func (w *Watches) rule(r rule, resources []string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if len(resources) == 0 {
		clear(w.rules)
		resources = []string{""}
	}
	for _, resource := range resources {
		w.rules[resource] = r
	}
	w.changed.Broadcast()
}

// Cut ends all watches that are open, as an API server does that stops, and returns how many these were. What was held back is lost with
// them. A cache continues from its last event.
func (w *Watches) Cut(resources ...string) int {
	w.lock.Lock()
	defer w.lock.Unlock()
	return len(w.cut(resources))
}

// Expire ends watches, and rejects their continuation as too old (410). So everything is listed again.
func (w *Watches) Expire(resources ...string) int {
	w.lock.Lock()
	defer w.lock.Unlock()
	cut := w.cut(resources)
	for _, s := range cut {
		w.expired[s.about.key]++
	}
	return len(cut)
}

func (w *Watches) cut(resources []string) []*stream {
	var cut []*stream
	for s := range w.open {
		if len(resources) == 0 || slices.Contains(resources, s.about.resource) {
			s.cut = true
			cut = append(cut, s)
		}
	}
	w.changed.Broadcast()
	for _, s := range cut {
		delete(w.open, s)
	}
	return cut
}

// Open is how many there are.
func (w *Watches) Open(resources ...string) int {
	w.lock.Lock()
	defer w.lock.Unlock()
	n := 0
	for s := range w.open {
		if len(resources) == 0 || slices.Contains(resources, s.about.resource) {
			n++
		}
	}
	return n
}

// BlockedBack is how many events have come from the API server and were not delivered yet. Bookmarks do not count.
func (w *Watches) BlockedBack(resources ...string) int {
	w.lock.Lock()
	defer w.lock.Unlock()
	n := 0
	for s := range w.open {
		if len(resources) == 0 || slices.Contains(resources, s.about.resource) {
			n += s.events()
		}
	}
	return n
}

// end breaks everything off.
func (w *Watches) end() {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.ended = true
	w.changed.Broadcast()
}

// ruleFor is the one of a resource. The lock is held.
func (w *Watches) ruleFor(resource string) rule {
	if r, found := w.rules[resource]; found {
		return r
	}
	return w.rules[""]
}

// refuses reports whether a watch continues where it expired. It is rejected once.
func (w *Watches) refuses(about *watch) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	from := about.query.Get("resourceVersion")
	if w.expired[about.key] == 0 || from == "" || from == "0" || about.query.Get("sendInitialEvents") == "true" {
		return false
	}
	w.expired[about.key]--
	return true
}

// asWatch distinguishes watches from other reads.
func asWatch(cluster string, r *http.Request) (*watch, bool) {
	query := r.URL.Query()
	asked := query.Get("watch")
	if r.Method != http.MethodGet || asked != "1" && !strings.EqualFold(asked, "true") {
		return nil, false
	}
	at, ok := place(r.URL.Path)
	if !ok {
		return nil, false
	}
	resource := schema.GroupResource{Group: at.Group, Resource: at.Resource}.String()
	key := strings.Join([]string{cluster, r.URL.Path, query.Get("fieldSelector"), query.Get("labelSelector")}, "\n")
	return &watch{resource: resource, key: key, query: query}, true
}

// watch opens a watch.
func (t *transport) watch(r *http.Request, about *watch) (*http.Response, error) {
	watches := t.process.watches
	if watches.refuses(about) {
		return status(r, apierrors.NewResourceExpired("too old resource version, by the test").Status()), nil
	}
	response, err := t.pass(r)
	if err == nil && response.StatusCode == http.StatusOK {
		response.Body = watches.follow(about, response)
	}
	return response, err
}
