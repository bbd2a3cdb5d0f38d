// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RetryConnectionsAfter shortens the interval of attempts to connect.
func (c *Clusters) RetryConnectionsAfter(interval time.Duration) {
	c.remote.(*connections).connectInterval = interval
}

// ProbeEvery shortens the interval and the timeout of the probes, and the shortest outage that counts. Call it before the manager starts.
func (c *Clusters) ProbeEvery(interval, timeout, shortOutage time.Duration) {
	c.shortOutage = shortOutage
	remote := c.remote.(*connections)
	remote.probeInterval, remote.probeTimeout = interval, timeout
}

// SetCallTimeout sets how long one call may take.
func (c *Clusters) SetCallTimeout(limit time.Duration) { c.callTimeout = limit }

// Remembered returns the clusters that have a state.
func (c *Clusters) Remembered() []client.ObjectKey {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Keys(c.states))
}

// Trimmed is the config of a client that trims the Nodes that a watch delivers.
func Trimmed(connection *rest.Config) *rest.Config {
	return trimmed(connection, allMemory.ofNamespace().ofCluster(), &watchLimits{updates: newUpdateLimiter()})
}
