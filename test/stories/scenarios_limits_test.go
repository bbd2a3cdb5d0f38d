// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

import "time"

var limitStories = []story{
	{
		name: "too-many-unhealthy", title: "More Machines are unhealthy than maxUnhealthy allows, until one is healthy again", trace: "workers/w-4 TooManyUnhealthy",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4", "w-5"),
			at("12:00:00", machineCheck("workers", maxUnhealthy("40%"))),
			at("12:01:00", nodesUnknown("w-1", "w-2", "w-3")),
			at("12:10:00", nodesReady("w-3")),
			// The limit is exceeded again, and existing remediations continue.
			at("12:11:00", nodesUnknown("w-4")),
			at("12:20:00"),
		},
	},
	{
		name: "too-few-unhealthy", title: "Fewer Machines are unhealthy than unhealthyRange allows",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4"),
			at("12:00:00", machineCheck("workers", unhealthyRange(2, 3))),
			at("12:01:00", nodesNotReady("w-1")),
			at("12:08:00", nodesNotReady("w-2")),
			at("12:20:00"),
		},
	},
	{
		name: "storm", title: "After a storm, remediation is blocked for stormCooldownDuration",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4", "w-5"),
			at("12:00:00", machineCheck("workers", maxUnhealthy("40%"), stormCooldown(5*time.Minute))),
			at("12:01:00", nodesUnknown("w-1", "w-2")),
			at("12:07:00", ownerReports("w-2", "RemediationDeferred")),
			at("12:08:00", nodesUnknown("w-3")),
			at("12:10:00", nodesReady("w-3")),
			// The storm starts again, and so does the cooldown.
			at("12:12:00", nodesUnknown("w-3")),
			at("12:13:00", nodesReady("w-3")),
			at("12:20:00"),
		},
	},
	{
		name: "max-in-flight", title: "With maxInFlight, targets are queued, and one starts when a remediation ends", trace: "workers/w-1 MaxInFlight",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4"),
			at("12:00:00", machineCheck("workers", maxInFlight(1))),
			at("12:01:00", nodesUnknown("w-2")),
			at("12:02:00", nodesUnknown("w-1")),
			at("12:08:00", annotates("w-3", "remediate-machine", true)),
			at("12:09:00", ownerDeletes("w-2")),
			// The Machine no longer exists, and counts as in flight until its replacement has a Node.
			at("12:10:00", machineRemoved("w-2"), newMachine("w-5")),
			at("12:12:00", joins("w-5")),
			at("12:13:00", ownerDeletes("w-3")),
			// Without a replacement, the Machine counts as in flight until nodeStartupTimeout.
			at("12:14:00", machineRemoved("w-3")),
			at("12:30:00"),
		},
	},
}
