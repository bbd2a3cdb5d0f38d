// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

var aboutControlPlanes = []story{
	{
		name: "control-plane", title: "A control plane of three never loses its quorum", trace: "control-plane/cp-2 QuorumAtRisk",
		steps: []step{
			controlPlane("cp-1", "cp-2", "cp-3"),
			at("12:00:00", machineCheck("control-plane", template("RebootTemplate/soft"))),
			at("12:01:00", goDark("cp-1", "cp-2")),
			at("12:10:00", areBack("cp-2")),
			at("12:11:00", fail("cp-3")),
			at("12:17:00", succeeds("cp-1"), areBack("cp-1")),
			at("12:18:00"),
		},
	},
	{
		name: "control-plane-by-its-owner", title: "The owner of a control plane sees all of its sick Machines",
		steps: []step{
			controlPlane("cp-1", "cp-2", "cp-3"),
			workers("w-1", "w-2"),
			at("12:00:00", machineCheck("all", maxInFlight(1))),
			at("12:01:00", goDark("cp-1", "cp-2", "w-1", "w-2")),
			at("12:10:00"),
		},
	},
	{
		name: "control-plane-of-one", title: "The only Machine of a control plane is never taken away by a remediator",
		steps: []step{
			controlPlane("cp-1"),
			at("12:00:00", machineCheck("control-plane", template("RebootTemplate/soft"))),
			at("12:01:00", goDark("cp-1")),
			at("12:10:00", areBack("cp-1")),
			at("12:11:00"),
		},
	},
	{
		name: "quorum-unknown", title: "A person asks for a remediation, and nobody can tell whether the control plane would survive it",
		steps: []step{
			controlPlane("cp-1", "cp-2", "cp-3"),
			at("12:00:00", machineCheck("control-plane", template("RebootTemplate/soft"))),
			at("12:01:00", isCutOff),
			at("12:02:00", annotates("cp-1", "remediate-machine", true)),
			at("12:03:00", isReachable),
			at("12:05:00"),
		},
	},
	{
		name: "control-plane-at-the-last-moment", title: "What has happened to a control plane is looked at just before an act", trace: "control-plane/cp-3 QuorumUnknown",
		steps: []step{
			controlPlane("cp-1", "cp-2", "cp-3"),
			at("12:00:00", machineCheck("control-plane", template("RebootTemplate/soft"))),
			at("12:01:00", goDark("cp-1")),
			at("12:05:59", unseen(fail("cp-2"))),
			at("12:07:00", areBack("cp-2")),
			at("12:08:00", succeeds("cp-1"), areBack("cp-1")),
			at("12:10:00", goDark("cp-1")),
			at("12:14:59", unseen(earlierLeaderAsks("control-plane", "cp-2"))),
			at("12:17:00", succeeds("cp-1"), areBack("cp-1")),
			at("12:20:00", isCutOffUnnoticed, annotates("cp-3", "remediate-machine", true)),
			at("12:21:00"),
		},
	},
	{
		name: "control-plane-shrinks", title: "A control plane has shrunk to one, and no cache has shown it yet",
		steps: []step{
			controlPlane("cp-1", "cp-2", "cp-3"),
			at("12:00:00", machineCheck("control-plane", template("RebootTemplate/soft"))),
			at("12:01:00", goDark("cp-1")),
			at("12:05:59", unseen(machineIsGone("cp-2"), machineIsGone("cp-3"))),
			at("12:07:00"),
		},
	},
}
