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
