// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// OldNodes returns a source whose Nodes are an hour older. Tests set conditions that have lasted for minutes on Nodes that they have just
// created, and a time before the creation of a Node is unknown. An API server sets the creation time itself.
func OldNodes(of healthcheck.Source) healthcheck.Source { return oldNodes{of} }

type oldNodes struct{ healthcheck.Source }

// Facts implements healthcheck.Source.
func (o oldNodes) Facts(c *healthcheck.Check, t *healthcheck.Target, m *health.MachineFacts) (facts health.Target, r remediation.Target) {
	facts, r = o.Source.Facts(c, t, m)
	if !facts.Node.CreatedAt.IsZero() {
		facts.Node.CreatedAt = facts.Node.CreatedAt.Add(-time.Hour)
	}
	return facts, r
}
