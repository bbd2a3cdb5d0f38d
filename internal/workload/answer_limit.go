// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxAnswer is how many bytes of an answer of a workload cluster are read. A list of 5,000 Nodes, which is the maximum that Kubernetes
// supports, has less.
const maxAnswer = 128 << 20

// limitedConnections are those of ClusterCache, with other clients for live reads: their answers have a limit, and they follow no redirect.
// ClusterCache itself probes, discovers the API and watches Nodes. It has no hook for that; kubeconfigReader disables its compression.
type limitedConnections struct {
	clustercache.ClusterCache
	scheme *runtime.Scheme

	mu      sync.Mutex
	clients map[client.ObjectKey]limitedClient
}

// limitedClient is the client of the connection that has this config.
type limitedClient struct {
	client.Client
	config *rest.Config
}

// GetUncachedClient implements connector.
func (l *limitedConnections) GetUncachedClient(ctx context.Context, cluster client.ObjectKey) (client.Client, error) {
	config, err := l.GetRESTConfig(ctx, cluster)
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.clients[cluster]
	switch {
	case err != nil:
		delete(l.clients, cluster)
		return nil, err
	case known.config == config:
		return known.Client, nil
	}
	limited := rest.CopyConfig(config)
	limited.Wrap(func(next http.RoundTripper) http.RoundTripper { return answerLimit{next} })
	api, err := client.New(limited, client.Options{Scheme: l.scheme})
	if err != nil {
		return nil, errors.Wrap(err, "failed to create a client")
	}
	l.clients[cluster] = limitedClient{api, config}
	return api, nil
}

// answerLimit is a transport that rejects redirects and answers that are too large.
type answerLimit struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (a answerLimit) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := a.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.Header.Get("Location") != "" && response.StatusCode/100 == http.StatusMultipleChoices/100 {
		_ = response.Body.Close()
		return nil, errRedirected
	}
	response.Body = &limitedBody{response.Body, maxAnswer}
	return response, nil
}

// limitedBody is a body of which at most a number of bytes can be read.
type limitedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (l *limitedBody) Read(into []byte) (int, error) {
	n, err := l.ReadCloser.Read(into)
	if l.left -= n; l.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
