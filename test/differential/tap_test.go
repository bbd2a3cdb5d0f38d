// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// tap is a proxy in front of the API server. It records every write in its order, with its writer, and every live read of one
// object. One write is let through after the other: that is what an API server does anyway, and so the
// order is known.
type tap struct {
	// order is held while a write is under way.
	order sync.Mutex

	mu      sync.Mutex
	notes   []note
	objects map[string]*unstructured.Unstructured
	news    chan struct{}

	// meddle is called just before a write is sent; nil for none.
	meddle func(at place, status bool)
}

// note is a write that was done, or a read.
type note struct {
	who  string
	read bool
	place
	// before is what was there, and after what is there now; nil if nothing. Of a read, only after is known.
	before, after *unstructured.Unstructured
}

// place is an object.
type place struct{ resource, name string }

func newTap() *tap {
	return &tap{objects: map[string]*unstructured.Unstructured{}, news: make(chan struct{}, 1)}
}

// of is the config of a user of the API server through it.
func (t *tap) of(who string, config *rest.Config) *rest.Config {
	own := rest.CopyConfig(config)
	own.QPS, own.Burst = 1000, 1000
	own.Wrap(func(next http.RoundTripper) http.RoundTripper { return &tapped{t, who, next} })
	return own
}

// all is what was noted so far.
func (t *tap) all() []note {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.notes)
}

// count is how many writes there were of others than people.
func (t *tap) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for i := range t.notes {
		if !t.notes[i].read && t.notes[i].who != people {
			n++
		}
	}
	return n
}

type tapped struct {
	*tap
	who  string
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *tapped) RoundTrip(r *http.Request) (*http.Response, error) {
	at, matters := tappedPlace(r)
	switch {
	case !matters:
		return t.next.RoundTrip(r)
	case r.Method == http.MethodGet && (at.name == "" || t.who == people):
		return t.next.RoundTrip(r)
	case r.Method == http.MethodGet:
		response, object, err := t.ask(r)
		if err == nil && (object != nil || response.StatusCode == http.StatusNotFound) {
			t.put(&note{who: t.who, read: true, place: at, after: object})
		}
		return response, err
	}
	if t.meddle != nil {
		t.meddle(at, strings.HasSuffix(r.URL.Path, "/status"))
	}
	t.order.Lock()
	defer t.order.Unlock()
	// A process that has crashed by now, or does not wait any more, has not sent it. What is sent comes to its end, and is written down.
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	response, object, err := t.ask(r.WithContext(context.WithoutCancel(r.Context())))
	if err != nil || response.StatusCode/100 != 2 {
		return response, err
	}
	if at.name == "" && object != nil {
		at.name = object.GetName()
	}
	t.wrote(at, object)
	return response, nil
}

// wrote notes what has become of an object, if anything has.
func (t *tapped) wrote(at place, object *unstructured.Unstructured) {
	key := at.resource + "/" + at.name
	if object != nil && object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 {
		object = nil
	}
	t.mu.Lock()
	before := t.objects[key]
	if before != nil && object != nil && before.GetResourceVersion() == object.GetResourceVersion() {
		t.mu.Unlock()
		return
	}
	if t.objects[key] = object; object == nil {
		delete(t.objects, key)
	}
	t.mu.Unlock()
	t.put(&note{who: t.who, place: at, before: before, after: object})
}

func (t *tap) put(n *note) {
	t.mu.Lock()
	t.notes = append(t.notes, *n)
	t.mu.Unlock()
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// ask hands on a request and looks at the answer. A Status is no object.
func (t *tapped) ask(r *http.Request) (*http.Response, *unstructured.Unstructured, error) {
	response, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // clients look at what kind of error it is
	}
	content, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, nil, errors.WithStack(err)
	}
	response.Body = io.NopCloser(bytes.NewReader(content))
	if response.StatusCode/100 != 2 {
		return response, nil, nil
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(content, &object.Object); err != nil {
		return nil, nil, errors.WithStack(err)
	}
	if object.GetKind() == "Status" {
		return response, nil, nil
	}
	return response, object, nil
}

// tappedPlace is what a request is about, if it is one of the objects that matter here.
func tappedPlace(r *http.Request) (at place, matters bool) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) < 6 || parts[0] != "apis" || parts[3] != "namespaces" || !strings.HasSuffix(parts[1], "cluster.x-k8s.io") {
		return place{}, false
	}
	at.resource = parts[5]
	if parts[1] == "remedy.cluster.x-k8s.io" {
		at.resource = "remedy " + at.resource
	}
	if len(parts) > 6 {
		at.name = parts[6]
	}
	return at, true
}
