// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterapi

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// requestTimeout is the timeout of one request. Without it, an API server that does not answer would delay a shutdown and the probes.
const requestTimeout = 5 * time.Second

// NewDiscoverer returns a discovery client whose requests time out after a few seconds.
func NewDiscoverer(config *rest.Config) (*discovery.DiscoveryClient, error) {
	limited := rest.CopyConfig(config)
	limited.Timeout = requestTimeout
	client, err := discovery.NewDiscoveryClientForConfig(limited)
	return client, errors.Wrap(err, "failed to make a discovery client")
}

// How long a start waits for an API server that is away, and the time between two attempts. The startup probe of the Deployment allows
// 120 s.
const (
	startTimeout = 100 * time.Second
	startRetry   = 2 * time.Second
)

// ServerVersion reads the version of the API server. It retries for a while: a manager that exits instead is delayed by the kubelet.
func ServerVersion(
	ctx context.Context, api discovery.ServerVersionInterface, timer clock.Clock, log logr.Logger,
) (*version.Info, error) {
	end := timer.Now().Add(startTimeout)
	for {
		served, err := ask(ctx, api.ServerVersion)
		if err == nil || ctx.Err() != nil || !timer.Now().Before(end) {
			return served, err
		}
		log.Info("Waiting for the API server of the management cluster", "reason", err.Error())
		select {
		case <-ctx.Done():
		case <-timer.After(startRetry):
		}
	}
}

// ask calls a function that takes no context, and stops waiting when the context ends. The function itself ends by the timeout of its
// client.
func ask[T any](ctx context.Context, request func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := request()
		answers <- answer{value, err}
	}()
	select {
	case got := <-answers:
		return got.value, got.err
	case <-ctx.Done():
		var none T
		return none, errors.Wrap(ctx.Err(), "stopped waiting for the API server")
	}
}
