// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

import "time"

var preflightStories = []story{
	{
		name: "preflight-check", title: "The preflight check finds that the Node is ready again", trace: "workers/w-1 PreflightFailed",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:05:59", unseen(nodesReady("w-1"))),
			at("12:06:00"),
			at("12:07:00"),
		},
	},
	{
		name: "preflight-check-of-targets", title: "The preflight check finds taints, labels, requests and Leases that no cache has yet", trace: "nodes/node-w-2 Excluded",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4"),
			at("12:00:00", nodeCheck(template("RebootTemplate/soft"), maxUnhealthy("100%"))),
			at("12:01:00", nodesUnknown("w-1", "w-2", "w-3", "w-4")),
			at("12:05:59", unseen(terminationAnnounced("w-1", "the taint ToBeDeletedByClusterAutoscaler"), excludes("w-2", true),
				createsRequest("RebootTemplate/soft", "node-w-3"), holdsLease("w-4", "node-maintenance", 2*time.Minute))),
			at("12:10:00"),
		},
	},
	{
		name: "preflight-check-of-the-manager", title: "Between plan and preflight check, the API server was away, and the clock of the manager was set",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:05:59", unseen(clockStepsInBetween)),
			at("12:06:30", outageInBetween),
			at("12:07:00", quietAgain),
		},
	},
	{
		name: "preflight-check-of-the-owner", title: "The preflight check finds that the owner has rejected the remediation",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:05:59", unseen(ownerReports("w-1", "CannotBeRemediated"))),
			at("12:10:00"),
		},
	},
	{
		name: "preflight-check-of-max-unhealthy", title: "The preflight check finds one more unhealthy Machine than maxUnhealthy allows",
		steps: []step{
			// With more than five targets, the preflight check reads all of them.
			workers("w-1", "w-2", "w-3", "w-4", "w-5", "w-6", "w-7", "w-8"),
			at("12:00:00", machineCheck("workers", maxUnhealthy("75%"))),
			at("12:01:00", nodesUnknown("w-1", "w-2", "w-3", "w-4", "w-5", "w-6")),
			at("12:05:59", unseen(nodesNotReady("w-7"))),
			at("12:07:00", nodesReady("w-7")),
			at("12:08:00"),
		},
	},
	{
		name: "preflight-check-of-unhealthy-range", title: "The preflight check finds fewer unhealthy Machines than unhealthyRange allows",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4"),
			at("12:00:00", machineCheck("workers", unhealthyRange(2, 3))),
			at("12:01:00", nodesUnknown("w-1", "w-2")),
			at("12:05:59", unseen(nodesReady("w-2"))),
			at("12:07:00"),
		},
	},
	{
		name: "preflight-pending", title: "A reconcile runs out of time, and the next one runs the remaining preflight checks",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"))),
			at("12:01:00", slowAPIServer, nodesUnknown("w-1", "w-2")),
			at("12:10:00", remediationSucceeds("w-1"), nodesReady("w-1")),
			at("12:11:00"),
		},
	},
	{
		name: "kubelet-renews-lease", title: "A Node is Ready=Unknown while its kubelet renews its Lease, which blocks remediation for one more timeout", trace: "workers/w-1 LeaseRenewed",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", nodesUnknown("w-1", "w-2")),
			at("12:04:00", kubeletRenews("w-1")),
			at("12:20:00"),
		},
	},
}
