// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

var aboutOwners = []story{
	{
		name: "owners-that-do-not-help", title: "Owners that defer, refuse, or are not there",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4", "w-5"),
			at("12:00:00", machineCheck("workers")),
			at("12:00:30", hasNoOwner("w-3")),
			at("12:01:00", goDark("w-1", "w-2", "w-3", "w-4")),
			at("12:07:00", ownerSays("w-1", "RemediationDeferred"), ownerSays("w-2", "CannotBeRemediated"), hasNoOwner("w-4")),
			at("12:40:00", areBack("w-1")),
			at("12:41:00", ownerSays("w-1", "")),
			at("12:42:00"),
		},
	},
	{
		name: "on-its-way-out", title: "A Machine is deleted by a person, and its deletion hangs",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", userDeletes("w-1")),
			at("12:02:00", goDark("w-1")),
			at("12:40:00", machineIsGone("w-1")),
			at("12:41:00"),
		},
	},
	{
		name: "owner-takes-too-long", title: "An owner deletes a Machine, and the deletion hangs",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", maxInFlight(1))),
			at("12:01:00", goDark("w-1")),
			at("12:07:00", ownerDeletes("w-1")),
			at("12:50:00"),
		},
	},
	{
		name: "owner-becomes-a-template", title: "A check is told to ask a remediator instead of owners, and then another one",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", goDark("w-1")),
			at("12:08:00", sets("workers", template("RebootTemplate/soft"))),
			at("12:09:00", sets("workers", template("RebootTemplate/hard"))),
			at("12:10:00"),
		},
	},
}
