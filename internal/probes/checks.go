// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"time"

	"github.com/pkg/errors"
)

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
