// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"
	"reflect"
	"slices"
	"time"
	"unsafe"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RetryConnectionsAfter shortens the interval in which ClusterCache retries to connect.
func (c *Clusters) RetryConnectionsAfter(interval time.Duration) {
	c.remote.(*limitedConnections).ClusterCache.(interface{ SetConnectionCreationRetryInterval(time.Duration) }).SetConnectionCreationRetryInterval(interval)
}

// ProbeEvery shortens the interval and the timeout of the probes, and the shortest outage that counts. ClusterCache has a setter for retries
// only. Call it before the manager starts.
func (c *Clusters) ProbeEvery(interval, timeout, shortOutage time.Duration) {
	c.shortOutage = shortOutage
	cache := reflect.ValueOf(c.remote.(*limitedConnections).ClusterCache).Elem()
	probe := cache.FieldByName("clusterAccessorConfig").Elem().FieldByName("HealthProbe").Elem()
	for name, value := range map[string]time.Duration{"Interval": interval, "Timeout": timeout} {
		*(*time.Duration)(unsafe.Pointer(probe.FieldByName(name).UnsafeAddr())) = value
	}
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
var Trimmed = trimmed
