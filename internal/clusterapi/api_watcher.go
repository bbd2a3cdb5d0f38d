// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterapi

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/pkg/errors"
	"k8s.io/utils/clock"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/probes"
)

// interval is the time between two discoveries. A discovery is one small request that the API server answers from memory.
const interval = 30 * time.Second

// APIWatcher detects whether Cluster API is installed, upgraded or removed while the manager runs.
// It logs the result when it changes.
type APIWatcher struct {
	// Name is that of the probe, and What is what needs Cluster API.
	Name, What string

	API   Discoverer
	Clock clock.WithTicker
	Log   logr.Logger
	// SetUp is called after each discovery with its result.
	SetUp func(ctx context.Context, served bool) error

	mu       sync.Mutex
	last     Availability
	failure  error
	reported string
	// notSetUp is why the last SetUp failed.
	notSetUp error
}

// Start detects Cluster API immediately and then periodically, until the context ends.
func (w *APIWatcher) Start(ctx context.Context) error {
	ticker := w.Clock.NewTicker(interval)
	defer ticker.Stop()
	for {
		w.detect(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// NeedLeaderElection is false because the probes of a standby instance need the result, too.
func (w *APIWatcher) NeedLeaderElection() bool { return false }

// State returns the result of the last successful discovery, and the error of the last one. Before the first successful discovery it
// returns the zero Availability and an error.
func (w *APIWatcher) State() (Availability, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == (Availability{}) && w.failure == nil {
		return Availability{}, errors.New("Cluster API has not been detected yet")
	}
	return w.last, w.failure
}

// Check returns a probe that succeeds while the reconcilers are set up. It also succeeds without Cluster API, because what needs it is off
// then.
func (w *APIWatcher) Check() probes.Check {
	return probes.Check{Name: w.Name, Probe: func(context.Context) (string, error) {
		detected, err := w.State()
		w.mu.Lock()
		notSetUp := w.notSetUp
		w.mu.Unlock()
		if notSetUp != nil {
			return "the reconcilers cannot be set up", notSetUp
		}
		detail := "off: " + detected.Why
		if detected.Served {
			detail = "on"
		}
		switch {
		case err == nil:
			return detail, nil
		case detected == Availability{}:
			return "Cluster API has not been detected", err
		default:
			return detail + " (the last discovery failed)", nil
		}
	}}
}

func (w *APIWatcher) detect(ctx context.Context) {
	detected, err := ask(ctx, func() (Availability, error) { return Detect(w.API) })
	if ctx.Err() != nil {
		return
	}
	var notSetUp error
	if err == nil {
		notSetUp = w.SetUp(ctx, detected.Served)
	}
	w.mu.Lock()
	w.failure = err
	if err == nil {
		w.last, w.notSetUp = detected, notSetUp
	}
	w.mu.Unlock()
	w.report(detected, err, notSetUp)
}

// report logs a changed result or error.
func (w *APIWatcher) report(detected Availability, err, notSetUp error) {
	switch {
	case notSetUp != nil && w.reported != "not set up: "+notSetUp.Error():
		w.Log.Error(notSetUp, "Failed to set up the reconcilers, retrying")
		w.reported = "not set up: " + notSetUp.Error()
	case notSetUp != nil:
	case err != nil && w.reported != "unknown: "+err.Error():
		w.Log.Error(err, "Failed to detect Cluster API, retrying")
		w.reported = "unknown: " + err.Error()
	case err == nil && detected.Served && w.reported != "on":
		w.Log.Info("Cluster API is served, " + w.What + " are on")
		w.reported = "on"
	case err == nil && !detected.Served && w.reported != detected.Why:
		w.Log.Info(w.What+" are off", "reason", detected.Why)
		w.reported = detected.Why
	}
}
