// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

import "time"

var aboutLimits = []story{
	{
		name: "too-many", title: "More Machines are sick than the limit allows, until one is back", trace: "workers/w-4 TooManyUnhealthy",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4", "w-5"),
			at("12:00:00", machineCheck("workers", maxUnhealthy("40%"))),
			at("12:01:00", goDark("w-1", "w-2", "w-3")),
			at("12:10:00", areBack("w-3")),
			// The gate closes again, and what is under way goes on.
			at("12:11:00", goDark("w-4")),
			at("12:20:00"),
		},
	},
	{
		name: "too-few", title: "Fewer Machines are sick than the range allows",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4"),
			at("12:00:00", machineCheck("workers", unhealthyRange(2, 3))),
			at("12:01:00", fail("w-1")),
			at("12:08:00", fail("w-2")),
			at("12:20:00"),
		},
	},
	{
		name: "storm", title: "A storm: nothing new until the limit has been kept for a while",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4", "w-5"),
			at("12:00:00", machineCheck("workers", maxUnhealthy("40%"), stormCooldown(5*time.Minute))),
			at("12:01:00", goDark("w-1", "w-2")),
			at("12:07:00", ownerSays("w-2", "RemediationDeferred")),
			at("12:08:00", goDark("w-3")),
			at("12:10:00", areBack("w-3")),
			// It begins anew, and so does the cool-down.
			at("12:12:00", goDark("w-3")),
			at("12:13:00", areBack("w-3")),
			at("12:20:00"),
		},
	},
	{
		name: "one-at-a-time", title: "One at a time: who comes first, and when a place is free again", trace: "workers/w-1 MaxInFlight",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4"),
			at("12:00:00", machineCheck("workers", maxInFlight(1))),
			at("12:01:00", goDark("w-2")),
			at("12:02:00", goDark("w-1")),
			at("12:08:00", annotates("w-3", "remediate-machine", true)),
			at("12:09:00", ownerDeletes("w-2")),
			// It is gone, and takes up its place until there is another one in its stead.
			at("12:10:00", machineIsGone("w-2"), newMachine("w-5")),
			at("12:12:00", joins("w-5")),
			at("12:13:00", ownerDeletes("w-3")),
			// Nobody makes another one: its place is free when a Node would have had the time to join.
			at("12:14:00", machineIsGone("w-3")),
			at("12:30:00"),
		},
	},
}
