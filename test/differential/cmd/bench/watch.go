// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// observer records when a watch of its own delivers what a system has written.
type observer struct {
	mu sync.Mutex
	// unhealthy, marked, requested and deleted are when HealthCheckSucceeded=False, OwnerRemediated=False, a request, and its deletion arrived
	// first, by the name of the Machine.
	unhealthy, marked, requested, deleted map[string]time.Time
	watches                               []watch.Interface
}

// observe watches the Machines and the requests of a fleet until stop.
func (f *fleet) observe(ctx context.Context) (*observer, error) {
	o := &observer{
		unhealthy: map[string]time.Time{}, marked: map[string]time.Time{}, requested: map[string]time.Time{}, deleted: map[string]time.Time{},
	}
	for _, list := range []client.ObjectList{&clusterv1.MachineList{}, requestList()} {
		events, err := f.api.Watch(ctx, list, client.InNamespace(f.namespace))
		if err != nil {
			o.stop()
			return nil, err
		}
		o.watches = append(o.watches, events)
		go o.record(events)
	}
	return o, nil
}

func requestList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(remediator.Metal3.GroupVersion().WithKind(remediator.Metal3.Kind + "List"))
	return list
}

func (o *observer) record(events watch.Interface) {
	for event := range events.ResultChan() {
		now := time.Now()
		o.mu.Lock()
		switch object := event.Object.(type) {
		case *clusterv1.Machine:
			if conditions.IsFalse(object, clusterv1.MachineHealthCheckSucceededCondition) {
				first(o.unhealthy, object.Name, now)
			}
			if conditions.IsFalse(object, clusterv1.MachineOwnerRemediatedCondition) {
				first(o.marked, object.Name, now)
			}
		case *unstructured.Unstructured:
			if event.Type == watch.Deleted {
				first(o.deleted, object.GetName(), now)
			} else {
				first(o.requested, object.GetName(), now)
			}
		}
		o.mu.Unlock()
	}
}

func first(times map[string]time.Time, name string, now time.Time) {
	if times[name].IsZero() {
		times[name] = now
	}
}

// verify returns an error if something was recorded for a Machine that is not one of these, before this time, or for more Machines than the
// limit: then a system has decided wrongly, and its times are worth nothing.
func (o *observer) verify(recorded map[string]time.Time, of []member, since time.Time, limit int) error {
	names := make(map[string]bool, len(of))
	for _, m := range of {
		names[m.machine] = true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, at := range recorded {
		if !names[name] {
			return fmt.Errorf("a decision about Machine %s, whose Node was not lost", name)
		}
		if at.Before(since) {
			return fmt.Errorf("a decision about Machine %s was %s early", name, since.Sub(at))
		}
	}
	if len(recorded) > limit {
		return fmt.Errorf("%d Machines are remediated, and not %d", len(recorded), limit)
	}
	return nil
}

func (o *observer) stop() {
	for _, events := range o.watches {
		events.Stop()
	}
}

// until waits until so many entries were recorded in a map of the observer, and returns what it has then, also with an error.
func (o *observer) until(
	ctx context.Context, recorded map[string]time.Time, count int, timeout time.Duration,
) (map[string]time.Time, error) {
	deadline := time.Now().Add(timeout)
	for {
		late := time.Now().After(deadline)
		o.mu.Lock()
		have := len(recorded)
		var seen map[string]time.Time
		if late || have >= count {
			seen = maps.Clone(recorded)
		}
		o.mu.Unlock()
		if have >= count {
			return seen, nil
		}
		if late {
			return seen, fmt.Errorf("only %d of %d after %s", have, count, timeout)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}
