// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

import "time"

var aboutLooking = []story{
	{
		name: "last-look", title: "A last look finds that the Node is back", trace: "workers/w-1 NotConfirmed",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", goDark("w-1")),
			at("12:05:59", unseen(areBack("w-1"))),
			at("12:06:00"),
			at("12:07:00"),
		},
	},
	{
		name: "last-looks-at-targets", title: "Last looks find what no cache has shown yet: signs, labels, names and Leases", trace: "nodes/node-w-2 Excluded",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4"),
			at("12:00:00", nodeCheck(template("RebootTemplate/soft"), maxUnhealthy("100%"))),
			at("12:01:00", goDark("w-1", "w-2", "w-3", "w-4")),
			at("12:05:59", unseen(leaves("w-1", "the taint ToBeDeletedByClusterAutoscaler"), excludes("w-2", true),
				somebodyElses("RebootTemplate/soft", "node-w-3"), holdsLease("w-4", "node-maintenance", 2*time.Minute))),
			at("12:10:00"),
		},
	},
	{
		name: "last-look-at-the-owner", title: "An owner has refused, and no cache has shown it yet",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", goDark("w-1")),
			at("12:05:59", unseen(ownerSays("w-1", "CannotBeRemediated"))),
			at("12:10:00"),
		},
	},
	{
		name: "preflight-check-of-max-unhealthy", title: "The preflight check finds one more unhealthy Machine than maxUnhealthy allows",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4", "w-5"),
			at("12:00:00", machineCheck("workers", maxUnhealthy("40%"))),
			at("12:01:00", goDark("w-1", "w-2")),
			at("12:05:59", unseen(fail("w-3"))),
			at("12:07:00", areBack("w-3")),
			at("12:08:00"),
		},
	},
	{
		name: "preflight-check-of-unhealthy-range", title: "The preflight check finds fewer unhealthy Machines than unhealthyRange allows",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4"),
			at("12:00:00", machineCheck("workers", unhealthyRange(2, 3))),
			at("12:01:00", goDark("w-1", "w-2")),
			at("12:05:59", unseen(areBack("w-2"))),
			at("12:07:00"),
		},
	},
	{
		name: "preflight-pending", title: "A reconcile runs out of time, and the next one runs the remaining preflight checks",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"))),
			at("12:01:00", isSlow, goDark("w-1", "w-2")),
			at("12:10:00", succeeds("w-1"), areBack("w-1")),
			at("12:11:00"),
		},
	},
	{
		name: "kubelet-still-renews", title: "A Node is said to be unknown, and its kubelet renews its Lease: it is held for one further timeout", trace: "workers/w-1 LeaseRenewed",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", goDark("w-1", "w-2")),
			at("12:04:00", kubeletRenews("w-1")),
			at("12:20:00"),
		},
	},
	{
		name: "cut-off", title: "The cluster cannot be reached, and is back", trace: "workers/w-2 FirstLook",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", goDark("w-1")),
			at("12:03:00", goDark("w-2")),
			at("12:07:00", isBeingCutOff),
			at("12:08:30", isCutOff),
			at("12:30:00", isReachable),
			at("12:30:40", areBack("w-2")),
			at("12:40:00"),
		},
	},
	{
		name: "leaving", title: "A Node is about to go by itself, or must not be touched", trace: "nodes/node-w-1 CreateRequest",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4", "w-5"),
			at("12:00:00", nodeCheck(template("RebootTemplate/soft"))),
			at("12:01:00", leaves("w-1", "the taint ToBeDeletedByClusterAutoscaler"), excludes("w-2", true)),
			at("12:02:00", goDark("w-1", "w-2")),
			at("12:40:00", excludes("w-2", false)),
			at("12:40:30"),
		},
	},
}
