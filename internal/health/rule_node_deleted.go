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
	f := Finding{Rule: NodeDeleted}
	if t.Node.State == Present {
		// There is one of that name, and it is another server.
		f.Cause = t.Node.ProviderID
	}
	return append(all, deadline(f, t.goneSince(now), p.NodeGoneTimeout, now))
}

// goneSince is since when the Machine's Node is gone. What was noted down stays until the Node is seen again: that it cannot be read does not
// bring it back.
func (t *Target) goneSince(now time.Time) time.Time {
	var noted time.Time
	if t.Machine != nil {
		noted = t.Machine.NodeGoneSince
	}
	switch t.nodeState() {
	case Present:
		return time.Time{}
	case Gone:
		// Seen for the first time: it is gone since now, as far as anybody knows. So it is if the note is from a clock that was ahead.
		if noted.IsZero() || noted.After(now) {
			return now
		}
	case Unreadable, NotJoined:
	}
	return noted
}
