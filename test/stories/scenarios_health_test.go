// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

import "time"

var healthStories = []story{
	{
		name: "node-unreachable", title: "A Node becomes unreachable, and its owner replaces the Machine", trace: "workers/w-1 RequestOwnerRemediation",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", nodesUnknown("w-1", "w-2")),
			// This is one second before its timeout.
			at("12:05:59", nodesReady("w-2")),
			at("12:07:00", ownerDeletes("w-1")),
			at("12:08:00", machineRemoved("w-1"), newMachine("w-4")),
			at("12:10:00", joins("w-4")),
			at("13:00:00"),
		},
	},
	{
		name: "node-does-not-join", title: "The Node of a new Machine does not join the cluster",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", nodeStartupTimeout(0))),
			at("12:01:00", newMachine("w-4")),
			at("12:20:00", sets("workers", nodeStartupTimeout(30*time.Minute))),
			at("12:35:00", sets("workers", nodeStartupTimeout(40*time.Minute))),
			at("12:40:59", newMachine("w-5")),
			at("12:45:00"),
		},
	},
	{
		name: "node-is-deleted", title: "A Node is deleted, and its Machine is remediated after nodeGoneTimeout",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", nodeGoneTimeout(2*time.Minute))),
			at("12:01:00", nodeDeleted("w-1")),
			at("12:02:00", nodeRecreated("w-1")),
			at("12:05:00", nodeDeleted("w-1"), providerIDChanges("w-2")),
			at("12:10:00"),
		},
	},
	{
		name: "machine-reports-failure", title: "Machines report failures, also while the workload cluster is unreachable", trace: "workers/w-2 RequestOwnerRemediation",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", machineCondition("HardwareHealthy", "False", 5*time.Minute))),
			at("12:01:00", machineReports("w-1", "HardwareHealthy", "False", "DiskBroken")),
			at("12:02:00", unreachable),
			at("12:03:00", machineFails("w-2", "CreateError")),
			at("12:10:00"),
		},
	},
	{
		name: "cluster-is-created", title: "A Cluster is created, and its Nodes get time to join",
		steps: []step{
			beingCreated,
			at("12:00:00", machineCheck("all")),
			at("12:01:00", newMachine("cp-1"), newMachine("w-1")),
			at("12:02:00", infrastructureReady),
			at("12:08:00", joins("cp-1"), controlPlaneInitialized),
			at("12:17:59", joins("w-1")),
			at("13:00:00"),
		},
	},
	{
		name: "infrastructure-not-ready", title: "The infrastructure of a Cluster is not ready, and the health of its Machines is not evaluated",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:03:00", infrastructureNotReady),
			at("12:04:00", nodeDeleted("w-2")),
			at("12:30:00", infrastructureReady),
			at("12:31:00"),
		},
	},
	{
		name: "infrastructure-not-ready-during-remediation", title: "The infrastructure of a Cluster becomes NotReady during a remediation",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"))),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:08:00", infrastructureNotReady),
			at("12:10:00", infrastructureReady),
			at("12:11:00"),
		},
	},
	{
		name: "manager-starts", title: "The manager starts while a Node is Ready=Unknown, and the kubelet reports in time", trace: "workers/w-2 ReconnectGracePeriod",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:01:00", nodesUnknown("w-1", "w-2")),
			at("12:20:00", managerStarts, machineCheck("workers")),
			at("12:20:40", nodesReady("w-2")),
			at("12:22:00"),
		},
	},
	{
		name: "clock-skew", title: "The clock of the manager is ten minutes ahead, so every deadline would be early", trace: "workers/w-1 ClockSkew",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", clocksDiffer, nodesUnknown("w-1")),
			at("12:06:30", clocksAgree),
			at("12:07:00"),
		},
	},
	{
		name: "cluster-unreachable", title: "The workload cluster becomes unreachable, and its connection is restored", trace: "workers/w-2 ReconnectGracePeriod",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:03:00", nodesUnknown("w-2")),
			at("12:07:00", connectionBreaks),
			at("12:08:30", unreachable),
			at("12:30:00", reachable),
			at("12:30:40", nodesReady("w-2")),
			at("12:40:00"),
		},
	},
	{
		name: "node-termination", title: "The termination of a Node is announced, and another Node is excluded from remediation", trace: "nodes/node-w-1 CreateRequest",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4", "w-5"),
			at("12:00:00", nodeCheck(template("RebootTemplate/soft"))),
			at("12:01:00", terminationAnnounced("w-1", "the taint ToBeDeletedByClusterAutoscaler"), excludes("w-2", true)),
			at("12:02:00", nodesUnknown("w-1", "w-2")),
			at("12:40:00", excludes("w-2", false)),
			at("12:40:30"),
		},
	},
}
