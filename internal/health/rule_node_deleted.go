// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// NodeDeleted means: the Node of the Machine existed and no longer exists.
const NodeDeleted Reason = "NodeDeleted"

func ruleNodeDeleted(all []Finding, t *Target, _ *ClusterFacts, p *Policy, now time.Time) []Finding {
	if t.nodeState() != Gone {
		return all
	}
	f := Finding{Rule: NodeDeleted}
	if t.Node.State == Present {
		// A Node of that name exists, but it is another server.
		f.Cause = t.Node.ProviderID
	}
	return append(all, deadline(f, t.goneSince(now), p.NodeGoneTimeout, now))
}

// goneSince is since when the Node of the Machine no longer exists. The recorded time is kept until the Node is read again.
func (t *Target) goneSince(now time.Time) time.Time {
	var recorded time.Time
	if t.Machine != nil {
		recorded = t.Machine.NodeGoneSince
	}
	switch t.nodeState() {
	case Present:
		return time.Time{}
	case Gone:
		// It was not recorded yet, or by a clock that was ahead.
		if recorded.IsZero() || recorded.After(now) {
			return now
		}
	case Unreadable, NotJoined:
	}
	return recorded
}
