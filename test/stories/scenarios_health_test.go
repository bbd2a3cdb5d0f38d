// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

import "time"

var aboutHealth = []story{
	{
		name: "node-goes-dark", title: "A Node goes dark, and its Machine is replaced by its owner", trace: "workers/w-1 RequestOwnerRemediation",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", goDark("w-1", "w-2")),
			// A second before it would have counted.
			at("12:05:59", areBack("w-2")),
			at("12:07:00", ownerDeletes("w-1")),
			at("12:08:00", machineIsGone("w-1"), newMachine("w-4")),
			at("12:10:00", joins("w-4")),
			at("13:00:00"),
		},
	},
	{
		name: "node-does-not-join", title: "A new Machine whose Node does not join",
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
		name: "node-is-deleted", title: "A Node is deleted, and how long that may last",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", nodeGoneTimeout(2*time.Minute))),
			at("12:01:00", nodeIsDeleted("w-1")),
			at("12:02:00", nodeComesBack("w-1")),
			at("12:05:00", nodeIsDeleted("w-1"), nodeIsAnotherServer("w-2")),
			at("12:10:00"),
		},
	},
	{
		name: "machine-speaks-for-itself", title: "Machines that have failed by themselves, also where no Node can be read", trace: "workers/w-2 RequestOwnerRemediation",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", machineCondition("HardwareHealthy", "False", 5*time.Minute))),
			at("12:01:00", machineSays("w-1", "HardwareHealthy", "False", "DiskBroken")),
			at("12:02:00", isCutOff),
			at("12:03:00", machineFails("w-2", "CreateError")),
			at("12:10:00"),
		},
	},
	{
		name: "cluster-is-made", title: "A cluster is being made: Machines are not blamed for what is not there yet",
		steps: []step{
			isBeingMade,
			at("12:00:00", machineCheck("all")),
			at("12:01:00", newMachine("cp-1"), newMachine("w-1")),
			at("12:02:00", hasInfrastructure),
			at("12:08:00", joins("cp-1"), hasControlPlane),
			at("12:17:59", joins("w-1")),
			at("13:00:00"),
		},
	},
	{
		name: "infrastructure-in-trouble", title: "The infrastructure of the cluster is in trouble, and no Machine is blamed for that",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", goDark("w-1")),
			at("12:03:00", isInTrouble),
			at("12:04:00", nodeIsDeleted("w-2")),
			at("12:30:00", hasInfrastructure),
			at("12:31:00"),
		},
	},
	{
		name: "infrastructure-in-trouble-under-way", title: "The infrastructure of the cluster gets into trouble while a Node is being remediated",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"))),
			at("12:01:00", goDark("w-1")),
			at("12:08:00", isInTrouble),
			at("12:10:00", hasInfrastructure),
			at("12:11:00"),
		},
	},
}
