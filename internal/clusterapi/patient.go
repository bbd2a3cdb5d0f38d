// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterapi

import (
	"context"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// answerLimit is how long the API server may take for one question. A hung one must not hold up a stop, nor a probe.
const answerLimit = 5 * time.Second

// NewDiscoverer returns a discovery client that does not wait longer than a few seconds.
func NewDiscoverer(config *rest.Config) (*discovery.DiscoveryClient, error) {
	limited := rest.CopyConfig(config)
	limited.Timeout = answerLimit
	client, err := discovery.NewDiscoveryClientForConfig(limited)
	return client, errors.Wrap(err, "failed to make a discovery client")
}

// ServerVersion asks the API server which version it has, until the context ends.
func ServerVersion(ctx context.Context, api discovery.ServerVersionInterface) (*version.Info, error) {
	return ask(ctx, api.ServerVersion)
}

// ask puts a question that knows no context, and stops waiting when the context ends. The question itself ends by its client's time limit.
func ask[T any](ctx context.Context, question func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := question()
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
