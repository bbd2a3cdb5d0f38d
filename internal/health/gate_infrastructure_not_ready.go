// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// InfrastructureNotReady means: the infrastructure of the cluster is not ready. As in Cluster API, a Machine with a Node counts as healthy.
const InfrastructureNotReady Reason = "InfrastructureNotReady"

func gateInfrastructureNotReady(t *Target, c *ClusterFacts, _ time.Time) (Verdict, answer) {
	if c.InfrastructureReady.Reached {
		return Verdict{}, next
	}
	if t.nodeState() == Present && (t.Machine == nil || !t.Machine.Deleting) {
		return Verdict{Kind: Healthy}, closed
	}
	return Verdict{Kind: Undetermined}, closed
}
