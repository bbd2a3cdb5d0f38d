// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// NodeStartupTimeout means: the Node of the Machine has not joined in time.
const NodeStartupTimeout Reason = "NodeStartupTimeout"

// The time starts with the last of: its creation, the control plane, the infrastructure of the cluster, and its own infrastructure.
func ruleNodeStartupTimeout(all []Finding, t *Target, c *ClusterFacts, p *Policy, now time.Time) []Finding {
	if t.Machine == nil || t.nodeState() != NotJoined || p.NodeStartupTimeout <= 0 {
		return all
	}
	since := t.Machine.CreatedAt
	for _, m := range [...]Milestone{c.ControlPlaneInitialized, c.InfrastructureReady, t.Machine.InfrastructureReady} {
		if m.Reached {
			since = Latest(since, m.Since)
		}
	}
	return append(all, deadline(Finding{Rule: NodeStartupTimeout}, since, p.NodeStartupTimeout, now))
}
