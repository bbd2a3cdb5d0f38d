// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"strings"

	"github.com/pkg/errors"
)

// Fault is how a write fails.
type Fault string

// The ways to fail.
const (
	// Refuse: the write does not happen, and the manager gets an error (500).
	Refuse Fault = "Refuse"
	// LoseAnswer: the write happens, and the manager never learns it: the connection breaks.
	LoseAnswer Fault = "LoseAnswer"
	// CrashBefore: the manager is killed just before the write would have happened.
	CrashBefore Fault = "CrashBefore"
	// CrashAfter: the manager is killed just after the write has happened.
	CrashAfter Fault = "CrashAfter"
)

// Write is a request of a manager that changes something. Subresources are part of the path; the body is what was sent, mostly JSON.
type Write struct {
	Verb, Path, Body string
}

// Matter reports whether a write is about what the product does. Leases of the election and events come when they come.
func (w Write) Matter() bool {
	return !strings.Contains(w.Path, "/leases") && !strings.Contains(w.Path, "/events")
}

type fault struct {
	mode     Fault
	left     int
	counts   func(Write) bool
	happened chan Write
}

// FailAtWrite lets the n-th write of Remedy from now fail, once. It counts the writes that the function selects, or without a function those
// that matter. The channel gets the write when it has happened. With a crash, Restart starts the manager again.
func (w *World) FailAtWrite(n int, mode Fault, counts func(Write) bool) (<-chan Write, error) {
	return w.FailAtWriteOf(Remedy, n, mode, counts)
}

// FailAtWriteOf is FailAtWrite for any manager that is tapped.
func (w *World) FailAtWriteOf(process string, n int, mode Fault, counts func(Write) bool) (<-chan Write, error) {
	t := w.taps[process]
	if t == nil {
		return nil, errors.Errorf("the writes of %s are not recorded in this world: name it in Options.Tapped (Remedy is always tapped)", process)
	}
	if n < 1 || !slices.Contains([]Fault{Refuse, LoseAnswer, CrashBefore, CrashAfter}, mode) {
		return nil, errors.Errorf("no write number %d can fail by %q", n, mode)
	}
	if counts == nil {
		counts = Write.Matter
	}
	f := &fault{mode: mode, left: n, counts: counts, happened: make(chan Write, 1)}
	t.lock.Lock()
	defer t.lock.Unlock()
	t.faults = append(t.faults, f)
	return f.happened, nil
}

// Writes are all the write requests of Remedy, also those that failed.
func (w *World) Writes() []Write { return w.WritesOf(Remedy) }

// WritesOf are all the writes that a tapped manager has asked for, also those that failed.
func (w *World) WritesOf(process string) []Write {
	t := w.taps[process]
	if t == nil {
		return nil
	}
	t.lock.Lock()
	defer t.lock.Unlock()
	return slices.Clone(t.writes)
}
