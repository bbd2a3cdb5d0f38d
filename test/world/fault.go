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
	armed    bool
	selects  func(Write) bool
	happened chan Write
}

// FailAtWrite lets the next write of a tapped manager that the function selects fail, once. The channel gets the write when it has
// happened. With a crash, Restart starts the manager again.
func (w *World) FailAtWrite(process string, mode Fault, selects func(Write) bool) (<-chan Write, error) {
	t := w.taps[process]
	if t == nil {
		return nil, errors.Errorf("the writes of %s are not recorded in this world: name it in Options.Tapped (Remedy is always tapped)", process)
	}
	if !slices.Contains([]Fault{Refuse, LoseAnswer, CrashBefore, CrashAfter}, mode) {
		return nil, errors.Errorf("no write can fail by %q", mode)
	}
	f := &fault{mode: mode, armed: true, selects: selects, happened: make(chan Write, 1)}
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
