// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eventqueue records events in a bounded queue. The recorder of client-go starts goroutines for each event, which wait for the API
// server without a limit.
package eventqueue

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// capacity is how many events wait, and share how many about one namespace, or about cluster-scoped objects: another tenant's events still
	// have a place then.
	capacity = 1000
	share    = 250
	// An event is kept for an hour. burst are written at once, and perSecond after that.
	burst     = 1000
	perSecond = 20
	// writeTime is how long one write may take.
	writeTime = 10 * time.Second
)

const controller = "remedy"

// Recorder writes events one after the other. An event that finds no place in the queue is dropped, and so is one that cannot be written.
type Recorder struct {
	client   client.Client
	clock    clock.PassiveClock
	instance string
	dropped  func()
	queue    chan *eventsv1.Event

	mu sync.Mutex
	// waiting are how many events about objects of a namespace are in the queue; about cluster-scoped ones under the empty name.
	waiting map[string]int
}

var _ events.EventRecorder = (*Recorder)(nil)

// New adds a recorder to a manager. dropped is called for each event that is not recorded.
func New(mgr manager.Manager, c clock.PassiveClock, dropped func()) (*Recorder, error) {
	r := newRecorder(mgr.GetClient(), c, dropped)
	return r, errors.Wrap(mgr.Add(manager.RunnableFunc(r.run)), "failed to add the recorder of events")
}

func newRecorder(c client.Client, now clock.PassiveClock, dropped func()) *Recorder {
	host, _ := os.Hostname()
	return &Recorder{
		client: c, clock: now, instance: controller + "-" + host, dropped: dropped,
		queue: make(chan *eventsv1.Event, capacity), waiting: map[string]int{},
	}
}

// Eventf implements events.EventRecorder. It does not keep the objects, which the caller may change.
func (r *Recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	about, err := reference.GetReference(r.client.Scheme(), regarding)
	if err != nil {
		r.dropped()
		return
	}
	var other *corev1.ObjectReference
	if related != nil {
		// Without the related object, the event is still useful.
		other, _ = reference.GetReference(r.client.Scheme(), related)
	}
	namespace, now := about.Namespace, r.clock.Now()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	r.add(&eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: util.GenerateEventName(about.Name, now.UnixNano())},
		EventTime:  metav1.NewMicroTime(now), ReportingController: controller, ReportingInstance: r.instance,
		Action: action, Reason: reason, Regarding: *about, Related: other, Note: fmt.Sprintf(note, args...), Type: kind,
	})
}

func (r *Recorder) add(event *eventsv1.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[event.Regarding.Namespace] < share {
		select {
		case r.queue <- event:
			r.waiting[event.Regarding.Namespace]++
			return
		default:
		}
	}
	r.dropped()
}

// run writes events until the context ends.
func (r *Recorder) run(ctx context.Context) error {
	limiter := rate.NewLimiter(perSecond, burst)
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-r.queue:
			r.remove(event.Regarding.Namespace)
			if limiter.Wait(ctx) == nil {
				r.write(ctx, event)
			}
		}
	}
}

func (r *Recorder) remove(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[namespace]--; r.waiting[namespace] == 0 {
		delete(r.waiting, namespace)
	}
}

func (r *Recorder) write(ctx context.Context, event *eventsv1.Event) {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	if err := r.client.Create(ctx, event); err != nil {
		r.dropped()
		ctrl.Log.WithName("events").V(1).Info("Failed to record an event", "namespace", event.Namespace, "name", event.Name, "err", err.Error())
	}
}
