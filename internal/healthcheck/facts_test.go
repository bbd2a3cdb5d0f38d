// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// A cool-down goes on only while a connection is renewed, not while Nodes cannot be read although the API server responds to probes.
func TestFacts_Renewing_OnlyWithoutConnection(t *testing.T) {
	now := time.Now()
	unread := explain.NodeReads{Nodes: 1, Failed: 1, Why: "permission denied"}
	tests := []struct {
		why                   string
		connection            workload.Connection
		nodes                 explain.NodeReads
		unreachable, renewing bool
	}{
		{why: "connected", connection: workload.Connection{Up: true, LastSeen: now}},
		{why: "token expired", connection: workload.Connection{LastSeen: now.Add(-10 * time.Second)}, unreachable: true, renewing: true},
		{why: "outage", connection: workload.Connection{LastSeen: now.Add(-workload.ShortOutage)}, unreachable: true},
		{why: "never connected", unreachable: true},
		{why: "no permission", connection: workload.Connection{Up: true, LastSeen: now}, nodes: unread, unreachable: true},
		{
			why: "after an outage", connection: workload.Connection{LastSeen: now, RestoredAt: now.Add(-10 * time.Second)},
			unreachable: true,
		},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			s := &snapshot{check: &Check{Object: &remedyv1.NodeHealthCheck{}, Cluster: workload.ManagementCluster}, connection: test.connection}
			c := s.checkFacts(now, &test.nodes)
			g.Expect(c.Unreachable).To(Equal(test.unreachable))
			g.Expect(c.Renewing).To(Equal(test.renewing))
		})
	}
}
