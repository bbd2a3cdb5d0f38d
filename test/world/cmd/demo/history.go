// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// history is when each Machine was first seen with OwnerRemediated=False, when it was first seen being deleted, and when it no longer
// existed.
type history struct {
	lock                       sync.Mutex
	marked, deleting, vanished map[string]time.Time
	broken                     bool
}

// newHistory watches all Machines until the context ends.
func newHistory(ctx context.Context, c client.WithWatch) (*history, error) {
	watching, err := c.Watch(ctx, &clusterv1.MachineList{}, client.InNamespace(namespace))
	if err != nil {
		return nil, errors.Wrap(err, "failed to watch Machines")
	}
	h := &history{marked: map[string]time.Time{}, deleting: map[string]time.Time{}, vanished: map[string]time.Time{}}
	go func() {
		for event := range watching.ResultChan() {
			h.add(event, time.Now())
		}
		h.add(watch.Event{}, time.Now())
	}()
	return h, nil
}

func (h *history) add(event watch.Event, now time.Time) {
	h.lock.Lock()
	defer h.lock.Unlock()
	m, is := event.Object.(*clusterv1.Machine)
	if !is {
		h.broken = true
		return
	}
	set := func(times map[string]time.Time, happened bool) {
		if _, known := times[m.Name]; happened && !known {
			times[m.Name] = now
		}
	}
	set(h.marked, conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition))
	set(h.deleting, !m.DeletionTimestamp.IsZero())
	set(h.vanished, event.Type == watch.Deleted)
}

// when returns when something happened to a Machine; the zero time if it has not happened yet.
func (h *history) when(times map[string]time.Time, machine string) (time.Time, error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	if h.broken {
		return time.Time{}, errors.New("the watch of Machines has ended")
	}
	return times[machine], nil
}

// remediated returns the Machines for which OwnerRemediated=False was set, or which were deleted.
func (h *history) remediated() []string {
	h.lock.Lock()
	defer h.lock.Unlock()
	all := maps.Clone(h.marked)
	maps.Copy(all, h.deleting)
	return slices.Sorted(maps.Keys(all))
}
