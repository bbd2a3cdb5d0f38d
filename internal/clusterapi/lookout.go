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

// pace is how often the lookout asks. It is one small request, answered from the API server's memory.
const pace = 30 * time.Second

// Lookout keeps an eye on Cluster API, which may be installed, upgraded or removed while we run.
// It says once what it sees, and again only when that changes.
type Lookout struct {
	API   Discoverer
	Clock clock.WithTicker
	Log   logr.Logger
	// Appeared is called once, when Cluster API is first there. An error is reported and it is called again at the next look.
	Appeared func(ctx context.Context) error

	mu       sync.Mutex
	last     Availability
	failure  error
	reported string
	started  bool
}

// Start looks at once and then at its pace, until the context ends.
func (l *Lookout) Start(ctx context.Context) error {
	ticker := l.Clock.NewTicker(pace)
	defer ticker.Stop()
	for {
		l.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// NeedLeaderElection is false: an instance on standby has to know, too.
func (l *Lookout) NeedLeaderElection() bool { return false }

// State returns what was seen last, and why the last look failed. What was once seen stays until it is seen otherwise;
// before anything was seen, the zero Availability comes with an error.
func (l *Lookout) State() (Availability, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == (Availability{}) && l.failure == nil {
		return Availability{}, errors.New("not looked at yet")
	}
	return l.last, l.failure
}

// Check is well as soon as it is known whether Cluster API is here: without it the Machine side is off, which is no fault.
func (l *Lookout) Check() probes.Check {
	return probes.Check{Name: "machinehealthcheck", Probe: func(context.Context) (string, error) {
		seen, err := l.State()
		detail := "off: " + seen.Why
		if seen.Served {
			detail = "on"
		}
		switch {
		case err == nil:
			return detail, nil
		case seen == Availability{}:
			return "", err
		default:
			return detail + " (the last look failed: " + err.Error() + ")", nil
		}
	}}
}

func (l *Lookout) look(ctx context.Context) {
	seen, err := ask(ctx, func() (Availability, error) { return Detect(l.API) })
	if ctx.Err() != nil {
		return
	}
	if err == nil && seen.Served && !l.started {
		if err = l.Appeared(ctx); err == nil {
			l.started = true
		}
	}
	l.mu.Lock()
	l.failure = err
	if err == nil {
		l.last = seen
	}
	l.mu.Unlock()
	l.report(seen, err)
}

// report logs a line when the world has changed, and is silent otherwise.
func (l *Lookout) report(seen Availability, err error) {
	switch {
	case err != nil && l.reported != "unknown: "+err.Error():
		l.Log.Error(err, "Failed to find out whether Cluster API is here, trying again")
		l.reported = "unknown: " + err.Error()
	case err == nil && seen.Served && l.reported != "on":
		l.Log.Info("Cluster API is here, the Machine side is on")
		l.reported = "on"
	case err == nil && !seen.Served && l.reported != seen.Why:
		l.Log.Info("The Machine side is off", "reason", seen.Why)
		l.reported = seen.Why
	}
}
