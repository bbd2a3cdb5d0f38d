// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

var userStories = []story{
	{
		name: "skip-remediation", title: "Annotations skip remediation, pause a Machine, or request remediation at once", trace: "workers/w-1 SkipRemediation",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", annotates("w-1", "skip-remediation", true), annotates("w-2", "paused", true)),
			at("12:02:00", nodesUnknown("w-1", "w-2")),
			at("12:03:00", annotates("w-3", "remediate-machine", true)),
			at("12:10:00", annotates("w-1", "skip-remediation", false), annotates("w-2", "paused", false)),
			at("12:11:00", annotates("w-1", "skip-remediation", true), annotates("w-2", "paused", true)),
			at("12:12:00"),
		},
	},
	{
		name: "remediate-annotation-applies-once", title: "The remediate-machine annotation starts one remediation, even if it is not removed", trace: "workers/w-1 AnnotationNotRemoved",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"))),
			at("12:01:00", annotates("w-1", "remediate-machine", true)),
			at("12:03:00", remediationSucceeds("w-1")),
			// The annotation starts no second remediation.
			at("12:40:00", annotates("w-1", "remediate-machine", false)),
			// A remediation that fails is not retried.
			at("12:41:00", annotates("w-2", "remediate-machine", true)),
			at("12:42:00", remediationFails("w-2")),
			at("12:50:00", annotates("w-2", "remediate-machine", false)),
			at("12:51:00"),
			// The same applies if the Machine has also failed, and the preflight check finds that it has not.
			at("12:52:00", annotates("w-3", "remediate-machine", true)),
			at("12:53:00", remediationFails("w-3"), machineFails("w-3", "CreateError")),
			at("12:53:59", unseen(machineFails("w-3", ""))),
			at("13:00:00", annotates("w-3", "remediate-machine", false)),
			at("13:01:00"),
		},
	},
	{
		name: "cluster-is-paused", title: "A Cluster is paused during a remediation",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"))),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:08:00", pausesCluster(true)),
			at("12:09:00", nodesUnknown("w-2")),
			// The step times out at 12:16. That is not reported during the pause.
			at("12:20:00", pausesCluster(false)),
			at("12:21:00", pausesCheck("workers", true), nodesReady("w-1", "w-2")),
			at("12:40:00", pausesCheck("workers", false)),
			at("12:41:00"),
		},
	},
	{
		name: "preflight-check-of-a-pause", title: "The preflight check finds a pause that no cache has yet",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:05:59", unseen(pausesCluster(true))),
			at("12:10:00", pausesCluster(false)),
			at("12:11:00"),
		},
	},
	{
		name: "pause-requests", title: "pauseRequests blocks new remediations, and the others continue",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", nodesUnknown("w-1", "w-2")),
			at("12:07:00", ownerReports("w-2", "RemediationDeferred")),
			at("12:08:00", sets("workers", pauseRequests("upgrade to v1.34", "maintenance"))),
			at("12:09:00", nodesUnknown("w-3")),
			at("12:15:00", sets("workers", pauseRequests())),
			at("12:16:00"),
		},
	},
	{
		name: "pause-requests-during-a-step", title: "With pauseRequests, a step that has started continues until its timeout",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", nodeCheck(escalating("RebootTemplate/soft", "PowerCycleTemplate/hard"))),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:08:00", sets("nodes", pauseRequests("an upgrade"))),
			at("12:20:00", sets("nodes", pauseRequests())),
			at("12:21:00"),
		},
	},
	{
		name: "selector-changes", title: "A check no longer selects a Machine",
		steps: []step{
			controlPlane("cp-1", "cp-2", "cp-3"),
			workers("w-1", "w-2"),
			at("12:00:00", machineCheck("all", template("RebootTemplate/soft"))),
			at("12:01:00", nodesUnknown("cp-1", "w-1")),
			at("12:07:00", sets("all", onlyWorkers())),
			at("12:08:00"),
		},
	},
	{
		name: "move", title: "A user moves the cluster to another management cluster during remediations",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"))),
			at("12:01:00", nodesUnknown("w-1", "w-2")),
			at("12:08:00", remediationFails("w-2")),
			at("12:09:30", remediationFails("w-2")),
			at("12:10:00", pausesCluster(true)),
			at("12:10:30", moves),
			at("12:11:00", pausesCluster(false)),
			at("12:20:00"),
		},
	},
	{
		name: "observe", title: "A check observes, then remediates, then observes again",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"), mode("Observe"))),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:10:00", sets("workers", mode("Enforce"))),
			at("12:11:00", sets("workers", mode("Observe"))),
			at("12:30:00"),
		},
	},
	{
		name: "check-is-deleted", title: "A user deletes a check, which ends its remediations first",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"))),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:03:00", nodesUnknown("w-2")),
			at("12:07:00", keepsFinalizer("w-1"), deletesCheck("workers")),
			at("12:09:00", removesFinalizer("w-1")),
			at("12:10:00"),
		},
	},
	{
		name: "cluster-is-deleted", title: "A Cluster is deleted, and then no longer exists",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"))),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:02:00", nodesUnknown("w-2")),
			at("12:06:30", clusterDeleting),
			at("12:08:00", clusterNotFound),
			at("12:09:00"),
		},
	},
	{
		name: "two-checks", title: "Several checks select the same Machines, and one of them is responsible for each",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", nodeCheck(template("RebootTemplate/soft"))),
			at("12:01:00", nodesUnknown("w-1")),
			// The check with a remediation stays responsible for its target.
			at("12:07:00", machineCheck("workers")),
			at("12:08:00", nodesUnknown("w-2")),
			at("12:09:00", remediationSucceeds("w-1"), nodesReady("w-1")),
			// w-1 has no remediation. Of two checks of the same kind, the first by name is responsible, even if it is paused.
			at("12:20:00", sets("workers", pauseRequests("an upgrade"))),
			at("12:21:00", machineCheck("alpha"), pausesCheck("alpha", true)),
			at("12:22:00", pausesCheck("alpha", false)),
			at("12:22:30", deletesCheck("alpha")),
			at("12:23:00"),
		},
	},
}
