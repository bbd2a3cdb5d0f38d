// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// writeInterval is the time between two writes of a container.
const writeInterval = 25 * time.Millisecond

// Run is a container from its first write to its last one, by a monotonic clock.
type Run struct {
	// Namespace, Name and UID are those of its Pod, and Node is where it ran.
	Namespace, Name, Node string
	UID                   types.UID
	First, Last           time.Time
	// Ended: it does not write any more, and nothing can continue it.
	Ended bool
}

// String is a run in a line.
func (r *Run) String() string {
	return fmt.Sprintf("%s/%s (%.8s) on %s from %s to %s",
		r.Namespace, r.Name, r.UID, r.Node, r.First.Format("15:04:05.000"), r.Last.Format("15:04:05.000"))
}

// Writes is the log to which all containers write that are played. It is outside of the cluster, as the storage is.
type Writes struct {
	lock sync.Mutex
	runs []*Run
}

// add adds the write that a container began at a time. The first one begins the run.
func (w *Writes) add(r *Run, at time.Time) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if r.First.IsZero() {
		r.First = at
		w.runs = append(w.runs, r)
	}
	r.Last = at
}

func (w *Writes) end(r *Run) {
	w.lock.Lock()
	defer w.lock.Unlock()
	r.Ended = true
}

// Runs returns the runs of the Pods of a namespace, the first one first. Without a name it is those of all Pods.
func (w *Writes) Runs(namespace, name string) []Run {
	w.lock.Lock()
	defer w.lock.Unlock()
	var runs []Run
	for _, r := range w.runs {
		if r.Namespace == namespace && (name == "" || r.Name == name) {
			runs = append(runs, *r)
		}
	}
	return runs
}

// Overlaps returns the pairs of Pods of a namespace that had the same name and wrote at the same time. A StatefulSet must have none: of
// each of its identities, at most one Pod acts.
func (w *Writes) Overlaps(namespace string) string {
	var found []string
	runs := w.Runs(namespace, "")
	for i := range runs {
		for j := range runs[:i] {
			a, b := &runs[j], &runs[i]
			if a.Name == b.Name && a.UID != b.UID && !a.First.After(b.Last) && !b.First.After(a.Last) {
				found = append(found, fmt.Sprintf("%s\n  and %s", a, b))
			}
		}
	}
	return strings.Join(found, "\n")
}

// Forget forgets the writes of a namespace: a scenario has expected that two Pods write.
func (w *Writes) Forget(namespace string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.runs = slices.DeleteFunc(w.runs, func(r *Run) bool { return r.Namespace == namespace })
}
