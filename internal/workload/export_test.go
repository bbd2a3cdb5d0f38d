// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RetryConnectionsAfter makes Cluster API's cache try again earlier than after half a minute.
func (c *Clusters) RetryConnectionsAfter(interval time.Duration) {
	c.remote.(interface{ SetConnectionCreationRetryInterval(time.Duration) }).SetConnectionCreationRetryInterval(interval)
}

// SetAnswerTime is how long one answer may take.
func (c *Clusters) SetAnswerTime(limit time.Duration) { c.answerTime = limit }

// Remembered are the clusters of which anything is remembered.
func (c *Clusters) Remembered() []client.ObjectKey {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Keys(c.records))
}
