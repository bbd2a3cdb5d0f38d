// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// watchRetry is how long it takes until a watch that could not begin is tried again.
const watchRetry = time.Second

// change is a change of a check, or why those of a kind are not read.
type change struct {
	watch.Event
	unread string
}

// Watch calls changed for each change of a check, until the context ends. It calls unread if the checks of a kind cannot be watched.
func (c *Cluster) Watch(ctx context.Context, namespace string, unread func(string), changed func(*CheckStatus) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	changes := make(chan change)
	for _, kind := range []struct {
		list     client.ObjectList
		what     string
		optional bool
	}{
		{&remedyv1.MachineHealthCheckList{}, "the changes of MachineHealthChecks", false},
		{&clusterv1.MachineHealthCheckList{}, "the changes of " + inTreeKind, true},
		{&remedyv1.NodeHealthCheckList{}, "the changes of NodeHealthChecks", true},
	} {
		begin := func() (watch.Interface, error) {
			started, err := c.client.Watch(ctx, kind.list, client.InNamespace(namespace))
			return started, readError(err, kind.what)
		}
		started, err := begin()
		switch {
		case err == nil:
			go forward(ctx, started, begin, changes)
		case !kind.optional:
			return err
		case !meta.IsNoMatchError(err):
			unread(err.Error())
		}
	}
	last := map[string]CheckStatus{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case next := <-changes:
			if next.unread != "" {
				unread(next.unread)
			} else if err := follow(&next.Event, namespace, last, changed); err != nil {
				return err
			}
		}
	}
}

// forward sends the events of a watch. The API server ends every watch after some minutes: then it begins another one, which first has an
// event for each object.
func forward(ctx context.Context, events watch.Interface, begin func() (watch.Interface, error), changes chan<- change) {
	send := func(next change) {
		select {
		case changes <- next:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		for event := range events.ResultChan() {
			send(change{Event: event})
		}
		reported := ""
		_ = wait.PollUntilContextCancel(ctx, watchRetry, true, func(context.Context) (bool, error) {
			again, err := begin()
			if err == nil {
				events = again
			} else if err.Error() != reported {
				reported = err.Error()
				send(change{unread: reported})
			}
			return err == nil, nil
		})
	}
}

// follow calls changed if the line about a check is another one than before.
func follow(event *watch.Event, namespace string, last map[string]CheckStatus, changed func(*CheckStatus) error) error {
	var s CheckStatus
	switch check := event.Object.(type) {
	case *remedyv1.MachineHealthCheck, *clusterv1.MachineHealthCheck:
		s = statusOf(check.(client.Object))
	case *remedyv1.NodeHealthCheck:
		if !belongsTo(check, namespace) {
			return nil
		}
		s = statusOf(check)
	default:
		return nil
	}
	key := s.Title()
	if event.Type == watch.Deleted {
		delete(last, key)
		return nil
	}
	if was, known := last[key]; known && slices.Equal(was.Row(s.Created), s.Row(s.Created)) {
		return nil
	}
	last[key] = s
	return changed(&s)
}
