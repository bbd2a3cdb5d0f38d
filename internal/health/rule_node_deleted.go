// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// NodeDeleted means: the Node of the Machine was there and is gone.
const NodeDeleted Reason = "NodeDeleted"

func ruleNodeDeleted(all []Finding, t *Target, _ *ClusterFacts, p *Policy, now time.Time) []Finding {
	if t.nodeState() != Gone {
		return all
	}
	// Seen for the first time: it is gone since now, as far as anybody knows. So it is if the note is from a clock that was ahead.
	since := now
	if t.Machine != nil && !t.Machine.NodeGoneSince.IsZero() && t.Machine.NodeGoneSince.Before(now) {
		since = t.Machine.NodeGoneSince
	}
	f := Finding{Rule: NodeDeleted}
	if t.Node.State == Present {
		// There is one of that name, and it is another server.
		f.Cause = t.Node.ProviderID
	}
	return append(all, deadline(f, since, p.NodeGoneTimeout, now))
}
