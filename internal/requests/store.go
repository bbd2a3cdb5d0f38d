// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"maps"
	"slices"
	"sync"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// item is the relevant part of an object.
type item interface {
	*Request | *cachedTemplate
	Key() client.ObjectKey
	// indexes are the keys of the index besides the name.
	indexes() []any
}

// store keeps the objects of one kind. A reflector updates it.
type store[T item] struct {
	read func(*unstructured.Unstructured) T
	// changed is called for every change after the first list, and filled after that list. No lock is held.
	changed func(before, after T)
	filled  func()

	mu     sync.RWMutex
	synced bool
	byKey  map[client.ObjectKey]T
	index  map[any]map[client.ObjectKey]T
	// creating is how many creations are under way, deleted are the objects that were deleted meanwhile, and lists is the number of lists.
	creating, lists int
	deleted         map[types.UID]bool
}

func newStore[T item](read func(*unstructured.Unstructured) T, changed func(before, after T), filled func()) *store[T] {
	return &store[T]{
		read: read, changed: changed, filled: filled,
		byKey: map[client.ObjectKey]T{}, index: map[any]map[client.ObjectKey]T{}, deleted: map[types.UID]bool{},
	}
}

// Add implements toolscache.ReflectorStore.
func (s *store[T]) Add(object any) error { return s.Update(object) }

// Update adds or replaces an object.
func (s *store[T]) Update(object any) error {
	u, is := object.(*unstructured.Unstructured)
	if !is {
		return errors.Errorf("unexpected type %T of an object", object)
	}
	after := s.read(u)
	s.mu.Lock()
	before := s.put(after)
	s.mu.Unlock()
	s.changed(before, after)
	return nil
}

// Delete removes an object.
func (s *store[T]) Delete(object any) error {
	u, is := object.(*unstructured.Unstructured)
	if !is {
		return errors.Errorf("unexpected type %T of an object", object)
	}
	s.mu.Lock()
	if s.creating > 0 {
		s.deleted[u.GetUID()] = true
	}
	before := s.remove(client.ObjectKeyFromObject(u))
	s.mu.Unlock()
	if before != nil {
		s.changed(before, nil)
	}
	return nil
}

// Replace replaces all objects after a list.
func (s *store[T]) Replace(objects []any, _ string) error {
	type change struct{ before, after T }
	changes := make([]change, 0, len(objects))
	s.mu.Lock()
	first, listed := !s.synced, make(map[client.ObjectKey]bool, len(objects))
	s.synced = true
	s.lists++
	for _, object := range objects {
		if u, is := object.(*unstructured.Unstructured); is {
			after := s.read(u)
			listed[after.Key()] = true
			changes = append(changes, change{s.put(after), after})
		}
	}
	for _, key := range slices.Collect(maps.Keys(s.byKey)) {
		if !listed[key] {
			changes = append(changes, change{s.remove(key), nil})
		}
	}
	s.mu.Unlock()
	if first {
		s.filled()
		return nil
	}
	for _, c := range changes {
		s.changed(c.before, c.after)
	}
	return nil
}

// Resync implements toolscache.ReflectorStore.
func (s *store[T]) Resync() error { return nil }

func (s *store[T]) put(after T) T {
	before := s.remove(after.Key())
	s.byKey[after.Key()] = after
	for _, i := range after.indexes() {
		if s.index[i] == nil {
			s.index[i] = map[client.ObjectKey]T{}
		}
		s.index[i][after.Key()] = after
	}
	return before
}

func (s *store[T]) remove(key client.ObjectKey) T {
	before := s.byKey[key]
	if before == nil {
		return nil
	}
	delete(s.byKey, key)
	for _, i := range before.indexes() {
		if delete(s.index[i], key); len(s.index[i]) == 0 {
			delete(s.index, i)
		}
	}
	return before
}

// get is the object of this name; false if that is not known.
func (s *store[T]) get(key client.ObjectKey) (T, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byKey[key], s.synced
}

// indexed appends the objects of an index.
func (s *store[T]) indexed(i any, all []T) []T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, found := range s.index[i] {
		all = append(all, found)
	}
	return all
}

// ready reports whether the kind was listed and is watched.
func (s *store[T]) ready() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.synced
}

// listed reports whether the kind was ever listed.
func (s *store[T]) listed() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lists > 0
}

// create is called before an object is created, and the returned function after that, with nil if the creation has failed. It adds the
// object if it is missing and was not deleted meanwhile, so that the creator finds it at once.
func (s *store[T]) create() func(created T, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.creating++
	lists := s.lists
	return func(created T, uid types.UID) {
		if s.add(created, uid, lists) {
			s.changed(nil, created)
		}
	}
}

// add reports whether it has added the created object.
func (s *store[T]) add(created T, uid types.UID, lists int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	missing := created != nil && s.lists > 0 && s.lists == lists && !s.deleted[uid] && s.byKey[created.Key()] == nil
	if missing {
		s.put(created)
	}
	if s.creating--; s.creating == 0 {
		clear(s.deleted)
	}
	return missing
}

// stop is called when the kind can no longer be watched: its objects may be out of date.
func (s *store[T]) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = false
}

func (f *Request) indexes() []any {
	all := make([]any, 0, 3)
	if f.Check != (Check{}) {
		all = append(all, f.Check)
	}
	for _, subject := range f.Subjects() {
		all = append(all, subject)
	}
	return all
}

// cachedTemplate is the relevant part of a template. The rest is read when a request is created.
type cachedTemplate struct {
	key client.ObjectKey
	// problem is why no request can be created from it; empty if one can.
	problem string
}

func readTemplate(template *unstructured.Unstructured) *cachedTemplate {
	_, problem := innerOf(template)
	return &cachedTemplate{key: client.ObjectKeyFromObject(template), problem: problem}
}

// Key is its namespace and name.
func (t *cachedTemplate) Key() client.ObjectKey { return t.key }
func (t *cachedTemplate) indexes() []any        { return nil }
