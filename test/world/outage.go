// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/pkg/errors"
)

// Link is the network between the managers and this cluster's API server: Cut, Silence, Slow and Restore it.
// There is one as soon as there is a kubeconfig.
func (c *Cluster) Link(ctx context.Context) (*Link, error) {
	return c.world.link(ctx, c.Namespace, c.Name)
}

// StopAPIServer takes the API server of the workload cluster away: its port is closed, for the test as for the managers.
func (c *Cluster) StopAPIServer(ctx context.Context) error { return c.listener(ctx, "stop") }

// StartAPIServer brings it back, with everything that was in it.
func (c *Cluster) StartAPIServer(ctx context.Context) error { return c.listener(ctx, "start") }

// listener uses the switch of the in-memory infrastructure.
func (c *Cluster) listener(ctx context.Context, do string) error {
	url := fmt.Sprintf("http://%s/namespaces/%s/clusters/%s/listener", debugAddress, c.Namespace, c.Name)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(do))
	if err != nil {
		return errors.WithStack(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return errors.Wrap(err, "the in-memory infrastructure does not answer")
	}
	defer func() { _ = response.Body.Close() }()
	said, _ := io.ReadAll(response.Body)
	if response.StatusCode/100 != 2 {
		return errors.Errorf("the in-memory infrastructure refuses to %s the API server of %s: %s %s", do, c.Name, response.Status, said)
	}
	return nil
}
