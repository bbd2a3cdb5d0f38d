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

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// item is what is kept of an object: what is read of it, and nothing else.
type item interface {
	*Found | *foundTemplate
	Key() client.ObjectKey
	id() types.UID
	// indexes are under what it is looked for, beside its name.
	indexes() []any
}

// shelf keeps what there is of one kind. A reflector fills it.
type shelf[T item] struct {
	read func(*unstructured.Unstructured) T
	// tell is told of every change once the kind was read; full is called when that is so. Neither is called with a lock.
	tell func(before, after T)
	full func()

	mu     sync.RWMutex
	synced bool
	byKey  map[client.ObjectKey]T
	index  map[any]map[client.ObjectKey]T
	// awaited is how many of ours are being made; gone are those that went meanwhile, and renewed counts how often everything was read.
	awaited, renewed int
	gone             map[types.UID]bool
}

func newShelf[T item](read func(*unstructured.Unstructured) T, tell func(before, after T), full func()) *shelf[T] {
	return &shelf[T]{read: read, tell: tell, full: full, byKey: map[client.ObjectKey]T{}, index: map[any]map[client.ObjectKey]T{}, gone: map[types.UID]bool{}}
}

// Add puts an object on the shelf.
func (s *shelf[T]) Add(object any) error { return s.Update(object) }

// Update puts an object on the shelf in place of the one that was there.
func (s *shelf[T]) Update(object any) error {
	u, is := object.(*unstructured.Unstructured)
	if !is {
		return errors.Errorf("a %T is no object of a remediator", object)
	}
	after := s.read(u)
	s.mu.Lock()
	before := s.put(after)
	s.mu.Unlock()
	s.tell(before, after)
	return nil
}

// Delete takes an object away.
func (s *shelf[T]) Delete(object any) error {
	u, is := object.(*unstructured.Unstructured)
	if !is {
		return errors.Errorf("a %T is no object of a remediator", object)
	}
	s.mu.Lock()
	if s.awaited > 0 {
		s.gone[u.GetUID()] = true
	}
	before := s.take(client.ObjectKeyFromObject(u))
	s.mu.Unlock()
	if before != nil {
		s.tell(before, nil)
	}
	return nil
}

// Replace is called when everything was read.
func (s *shelf[T]) Replace(objects []any, _ string) error {
	type change struct{ before, after T }
	changes := make([]change, 0, len(objects))
	s.mu.Lock()
	first, there := !s.synced, make(map[client.ObjectKey]bool, len(objects))
	s.synced = true
	s.renewed++
	for _, object := range objects {
		if u, is := object.(*unstructured.Unstructured); is {
			after := s.read(u)
			there[after.Key()] = true
			changes = append(changes, change{s.put(after), after})
		}
	}
	for _, key := range slices.Collect(maps.Keys(s.byKey)) {
		if !there[key] {
			changes = append(changes, change{s.take(key), nil})
		}
	}
	s.mu.Unlock()
	if first {
		s.full()
		return nil
	}
	for _, c := range changes {
		s.tell(c.before, c.after)
	}
	return nil
}

// Resync does nothing: nothing is done from time to time.
func (s *shelf[T]) Resync() error { return nil }

func (s *shelf[T]) put(after T) T {
	before := s.take(after.Key())
	s.byKey[after.Key()] = after
	for _, i := range after.indexes() {
		if s.index[i] == nil {
			s.index[i] = map[client.ObjectKey]T{}
		}
		s.index[i][after.Key()] = after
	}
	return before
}

func (s *shelf[T]) take(key client.ObjectKey) T {
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

// get is what bears this name; false if that is not known.
func (s *shelf[T]) get(key client.ObjectKey) (T, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byKey[key], s.synced
}

// under adds what is found under an index.
func (s *shelf[T]) under(i any, all []T) []T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, found := range s.index[i] {
		all = append(all, found)
	}
	return all
}

// ready says whether everything was read once.
func (s *shelf[T]) ready() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.synced
}

// known says whether everything was read once, also if it cannot be followed any more.
func (s *shelf[T]) known() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.renewed > 0
}

// await is called before one of ours is made. What it returns is called with what was made, or nil, and puts it on the shelf if it is not there
// yet and has not gone meanwhile: so that whoever made it sees it at once.
func (s *shelf[T]) await() func(T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaited++
	renewed := s.renewed
	return func(made T) {
		if s.settle(made, renewed) {
			s.tell(nil, made)
		}
	}
}

// settle says whether it has put what was made on the shelf.
func (s *shelf[T]) settle(made T, renewed int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	missing := made != nil && s.renewed > 0 && s.renewed == renewed && !s.gone[made.id()] && s.byKey[made.Key()] == nil
	if missing {
		s.put(made)
	}
	if s.awaited--; s.awaited == 0 {
		clear(s.gone)
	}
	return missing
}

// doubt is called when the kind cannot be followed any more: what is on the shelf may be old, and there may be more.
func (s *shelf[T]) doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = false
}

// checks are the checks of which there are requests.
func (s *shelf[T]) checks() []Check {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []Check
	for i := range s.index {
		if c, is := i.(Check); is {
			all = append(all, c)
		}
	}
	return all
}

func (f *Found) id() types.UID { return f.UID }

func (f *Found) indexes() []any {
	all := make([]any, 0, 3)
	if f.Check != (Check{}) {
		all = append(all, f.Check)
	}
	for _, machine := range f.Machines {
		all = append(all, machine)
	}
	if f.Node.UID != "" {
		all = append(all, f.Node.UID)
	}
	return all
}

// foundTemplate is what is kept of a template. What it says is read when a request is made from it.
type foundTemplate struct {
	key client.ObjectKey
	uid types.UID
	// problem is why no request can be made from it; empty if one can.
	problem string
	// multiple: several of its kind can be used for one Node.
	multiple bool
}

func readTemplate(template *unstructured.Unstructured) *foundTemplate {
	_, problem := innerOf(template)
	_, multiple := template.GetAnnotations()[remedyv1.MultipleTemplatesAnnotation]
	return &foundTemplate{key: client.ObjectKeyFromObject(template), uid: template.GetUID(), problem: problem, multiple: multiple}
}

// Key is its namespace and name.
func (t *foundTemplate) Key() client.ObjectKey { return t.key }
func (t *foundTemplate) id() types.UID         { return t.uid }
func (t *foundTemplate) indexes() []any        { return nil }
