// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probes serves /healthz and /readyz. The response has a line for each check, also for those that succeed:
//
//	ok   caches: synced
//	ok   machinehealthcheck: off: Cluster API is not installed here (no API group cluster.x-k8s.io); NodeHealthChecks work without it
package probes

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/pkg/errors"
)

// Check is one check of a probe. It returns a detail for the response, which every Pod can read, and an error for the log if it fails.
type Check struct {
	Name  string
	Probe func(ctx context.Context) (detail string, err error)
}

// limit keeps a check that hangs from hanging the probe.
const limit = 2 * time.Second

// Handler serves the checks of both probes. It logs the errors.
func Handler(log logr.Logger, live, ready []Check) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", serve(log, live))
	mux.Handle("GET /readyz", serve(log, ready))
	return mux
}

// Server listens for probes. Slow or idle clients cannot hold it up.
func Server(address string, handler http.Handler) *http.Server {
	return &http.Server{
		Addr: address, Handler: handler,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 2 * limit, IdleTimeout: 30 * time.Second,
		MaxHeaderBytes: 1 << 14,
	}
}

func serve(log logr.Logger, checks []Check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		text, well := report(ctx, log, checks)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if !well {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = fmt.Fprint(w, text)
	})
}

// report runs every check, in order: a failed one does not hide the next.
func report(ctx context.Context, log logr.Logger, checks []Check) (text string, well bool) {
	well = true
	var lines strings.Builder
	for _, check := range checks {
		detail, err := check.Probe(ctx)
		if err != nil {
			well = false
			log.Error(err, "A check of a probe has failed", "check", check.Name)
			fmt.Fprintf(&lines, "FAIL %s: %s; see the log\n", check.Name, detail)
			continue
		}
		fmt.Fprintf(&lines, "ok   %s: %s\n", check.Name, detail)
	}
	return lines.String(), well
}

// Fixed reports a detail that is constant while the process runs.
func Fixed(name, detail string) Check {
	return Check{Name: name, Probe: func(context.Context) (string, error) { return detail, nil }}
}

// CacheSyncer is the part of a cache that Caches uses.
type CacheSyncer interface {
	WaitForCacheSync(ctx context.Context) bool
}

// Caches succeeds when every cache has synced, because decisions before that would use incomplete facts.
func Caches(cache CacheSyncer) Check {
	return Check{Name: "caches", Probe: func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		if !cache.WaitForCacheSync(ctx) {
			return "not filled yet", errors.New("the caches have not synced")
		}
		return "filled", nil
	}}
}

// Leader reports which instance leads. A standby instance succeeds, too, unless it cannot read the Lease: then it will never lead.
func Leader(elected <-chan struct{}, holder func(ctx context.Context) (string, error)) Check {
	return Check{Name: "leader", Probe: func(ctx context.Context) (string, error) {
		select {
		case <-elected:
			return "this instance leads", nil
		default:
		}
		name, err := holder(ctx)
		switch {
		case err != nil:
			return "on standby, and the Lease cannot be read", err
		case name == "":
			return "on standby, no instance leads yet", nil
		default:
			return "on standby, " + name + " leads", nil
		}
	}}
}
