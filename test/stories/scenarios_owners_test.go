// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

var ownerStories = []story{
	{
		name: "owner-does-not-remediate", title: "Owners defer or reject remediation, or do not exist",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4", "w-5"),
			at("12:00:00", machineCheck("workers")),
			at("12:00:30", ownerReferenceRemoved("w-3")),
			at("12:01:00", nodesUnknown("w-1", "w-2", "w-3", "w-4")),
			at("12:07:00", ownerReports("w-1", "RemediationDeferred"), ownerReports("w-2", "CannotBeRemediated"), ownerReferenceRemoved("w-4")),
			at("12:40:00", nodesReady("w-1")),
			at("12:41:00", ownerReports("w-1", "")),
			at("12:42:00"),
		},
	},
	{
		name: "being-deleted", title: "A user deletes a Machine, and a finalizer blocks its deletion",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", userDeletes("w-1")),
			at("12:02:00", nodesUnknown("w-1")),
			at("12:40:00", machineRemoved("w-1")),
			at("12:41:00"),
		},
	},
	{
		name: "owner-deletion-times-out", title: "An owner deletes a Machine, and a finalizer blocks its deletion",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", maxInFlight(1))),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:07:00", ownerDeletes("w-1")),
			at("12:50:00"),
		},
	},
	{
		name: "owner-replaced-by-template", title: "A check changes from owner remediation to a template, and then to another template",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers")),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:08:00", sets("workers", template("RebootTemplate/soft"))),
			at("12:09:00", sets("workers", template("RebootTemplate/hard"))),
			at("12:10:00"),
		},
	},
}
