// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

var aboutPeople = []story{
	{
		name: "leave-it-alone", title: "People ask to leave Machines alone, or to remediate one at once", trace: "workers/w-1 SkipRemediation",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", annotates("w-1", "skip-remediation", true), annotates("w-2", "paused", true)),
			at("12:02:00", goDark("w-1", "w-2")),
			at("12:03:00", annotates("w-3", "remediate-machine", true)),
			at("12:10:00", annotates("w-1", "skip-remediation", false), annotates("w-2", "paused", false)),
			at("12:11:00", annotates("w-1", "skip-remediation", true), annotates("w-2", "paused", true)),
			at("12:12:00"),
		},
	},
	{
		name: "a-wish-is-granted-once", title: "A person wants a Machine to be remediated, and forgets the annotation", trace: "workers/w-1 AnnotationNotRemoved",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"))),
			at("12:01:00", annotates("w-1", "remediate-machine", true)),
			at("12:03:00", succeeds("w-1")),
			// Nothing is done a second time.
			at("12:40:00", annotates("w-1", "remediate-machine", false)),
			// And another wish that fails is not tried again for ever.
			at("12:41:00", annotates("w-2", "remediate-machine", true)),
			at("12:42:00", gaveUp("w-2")),
			at("12:50:00", annotates("w-2", "remediate-machine", false)),
			at("12:51:00"),
			// Nor where something else was wrong besides, and is not any more at the last look.
			at("12:52:00", annotates("w-3", "remediate-machine", true)),
			at("12:53:00", gaveUp("w-3"), machineFails("w-3", "CreateError")),
			at("12:53:59", unseen(machineFails("w-3", ""))),
			at("13:00:00", annotates("w-3", "remediate-machine", false)),
			at("13:01:00"),
		},
	},
	{
		name: "freeze", title: "A Cluster is paused in the midst of a remediation",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"))),
			at("12:01:00", goDark("w-1")),
			at("12:08:00", pausesCluster(true)),
			at("12:09:00", goDark("w-2")),
			// The step has taken too long at 12:16, and nobody says so.
			at("12:20:00", pausesCluster(false)),
			at("12:21:00", pausesCheck("workers", true), areBack("w-1", "w-2")),
			at("12:40:00", pausesCheck("workers", false)),
			at("12:41:00"),
		},
	},
	{
		name: "paused-at-the-last-moment", title: "A pause that no cache has shown yet holds back an act all the same",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", goDark("w-1")),
			at("12:05:59", unseen(pausesCluster(true))),
			at("12:10:00", pausesCluster(false)),
			at("12:11:00"),
		},
	},
	{
		name: "nothing-new", title: "Somebody asks to start nothing new, and what is under way goes on",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", goDark("w-1", "w-2")),
			at("12:07:00", ownerSays("w-2", "RemediationDeferred")),
			at("12:08:00", sets("workers", pauseRequests("upgrade to v1.34", "a fire drill"))),
			at("12:09:00", goDark("w-3")),
			at("12:15:00", sets("workers", pauseRequests())),
			at("12:16:00"),
		},
	},
	{
		name: "under-way-goes-on", title: "Somebody asks to start nothing new, and a step that is under way may take its time, and no longer",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", nodeCheck(escalating("RebootTemplate/soft", "PowerCycleTemplate/hard"))),
			at("12:01:00", goDark("w-1")),
			at("12:08:00", sets("nodes", pauseRequests("an upgrade"))),
			at("12:20:00", sets("nodes", pauseRequests())),
			at("12:21:00"),
		},
	},
	{
		name: "selector-changes", title: "A check does not look after a Machine any more",
		steps: []step{
			controlPlane("cp-1", "cp-2", "cp-3"),
			workers("w-1", "w-2"),
			at("12:00:00", machineCheck("all", template("RebootTemplate/soft"))),
			at("12:01:00", goDark("cp-1", "w-1")),
			at("12:07:00", sets("all", onlyWorkers())),
			at("12:08:00"),
		},
	},
	{
		name: "move", title: "Everything is moved to another management cluster in the midst of remediations",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"))),
			at("12:01:00", goDark("w-1", "w-2")),
			at("12:08:00", gaveUp("w-2")),
			at("12:09:30", gaveUp("w-2")),
			at("12:10:00", pausesCluster(true)),
			at("12:10:30", moves),
			at("12:11:00", pausesCluster(false)),
			at("12:20:00"),
		},
	},
	{
		name: "observe", title: "A check only observes, then acts, then only observes again",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"), mode("Observe"))),
			at("12:01:00", goDark("w-1")),
			at("12:10:00", sets("workers", mode("Enforce"))),
			at("12:11:00", sets("workers", mode("Observe"))),
			at("12:30:00"),
		},
	},
	{
		name: "check-is-deleted", title: "A check is deleted, and cleans up before it goes",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"))),
			at("12:01:00", goDark("w-1")),
			at("12:03:00", goDark("w-2")),
			at("12:07:00", keeps("w-1"), deletesCheck("workers")),
			at("12:09:00", letsGo("w-1")),
			at("12:10:00"),
		},
	},
	{
		name: "cluster-goes", title: "A Cluster is deleted, and then it is gone",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"))),
			at("12:01:00", goDark("w-1")),
			at("12:02:00", goDark("w-2")),
			at("12:06:30", isBeingDeleted),
			at("12:08:00", doesNotExist),
			at("12:09:00"),
		},
	},
	{
		name: "two-checks", title: "Two checks look after the same Machines, and one of them takes care of each",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", nodeCheck(template("RebootTemplate/soft"))),
			at("12:01:00", goDark("w-1")),
			// What somebody works on stays with whom it is.
			at("12:07:00", machineCheck("workers")),
			at("12:08:00", goDark("w-2")),
			at("12:09:00", succeeds("w-1"), areBack("w-1")),
			// Nothing is under way for it any more. Of two of the same kind the first by name takes care, even if it is paused.
			at("12:20:00", sets("workers", pauseRequests("an upgrade"))),
			at("12:21:00", machineCheck("alpha"), pausesCheck("alpha", true)),
			at("12:22:00", pausesCheck("alpha", false)),
			at("12:22:30", deletesCheck("alpha")),
			at("12:23:00"),
		},
	},
}
