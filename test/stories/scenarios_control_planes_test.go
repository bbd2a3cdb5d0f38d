// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

var controlPlaneStories = []story{
	{
		name: "control-plane", title: "A control plane of three Machines keeps its quorum", trace: "control-plane/cp-2 QuorumAtRisk",
		steps: []step{
			controlPlane("cp-1", "cp-2", "cp-3"),
			at("12:00:00", machineCheck("control-plane", template("RebootTemplate/soft"))),
			at("12:01:00", nodesUnknown("cp-1", "cp-2")),
			at("12:10:00", nodesReady("cp-2")),
			at("12:11:00", nodesNotReady("cp-3")),
			at("12:17:00", remediationSucceeds("cp-1"), nodesReady("cp-1")),
			at("12:18:00"),
		},
	},
	{
		name: "control-plane-owner-remediation", title: "Owner remediation is requested for all unhealthy Machines of a control plane",
		steps: []step{
			controlPlane("cp-1", "cp-2", "cp-3"),
			workers("w-1", "w-2"),
			at("12:00:00", machineCheck("all", maxInFlight(1))),
			at("12:01:00", nodesUnknown("cp-1", "cp-2", "w-1", "w-2")),
			at("12:10:00"),
		},
	},
	{
		name: "single-control-plane", title: "The only Machine of a control plane gets no remediation request",
		steps: []step{
			controlPlane("cp-1"),
			at("12:00:00", machineCheck("control-plane", template("RebootTemplate/soft"))),
			at("12:01:00", nodesUnknown("cp-1")),
			at("12:10:00", nodesReady("cp-1")),
			at("12:11:00"),
		},
	},
	{
		name: "quorum-unknown", title: "A user requests a remediation, and the quorum of the control plane is unknown",
		steps: []step{
			controlPlane("cp-1", "cp-2", "cp-3"),
			at("12:00:00", machineCheck("control-plane", template("RebootTemplate/soft"))),
			at("12:01:00", unreachable),
			at("12:02:00", annotates("cp-1", "remediate-machine", true)),
			at("12:03:00", reachable),
			at("12:05:00"),
		},
	},
	{
		name: "preflight-check-of-the-control-plane", title: "The preflight check finds changes of the control plane that no cache has yet", trace: "control-plane/cp-3 QuorumUnknown",
		steps: []step{
			controlPlane("cp-1", "cp-2", "cp-3"),
			at("12:00:00", machineCheck("control-plane", template("RebootTemplate/soft"))),
			at("12:01:00", nodesUnknown("cp-1")),
			at("12:05:59", unseen(nodesNotReady("cp-2"))),
			at("12:07:00", nodesReady("cp-2")),
			at("12:08:00", remediationSucceeds("cp-1"), nodesReady("cp-1")),
			at("12:10:00", nodesUnknown("cp-1")),
			at("12:14:59", unseen(earlierLeaderCreates("control-plane", "cp-2"))),
			at("12:17:00", remediationSucceeds("cp-1"), nodesReady("cp-1")),
			at("12:20:00", unreachableUnnoticed, annotates("cp-3", "remediate-machine", true)),
			at("12:21:00"),
		},
	},
	{
		name: "preflight-check-of-a-single-control-plane", title: "The preflight check finds that a control plane has only one Machine left",
		steps: []step{
			controlPlane("cp-1", "cp-2", "cp-3"),
			at("12:00:00", machineCheck("control-plane", template("RebootTemplate/soft"))),
			at("12:01:00", nodesUnknown("cp-1")),
			at("12:05:59", unseen(machineRemoved("cp-2"), machineRemoved("cp-3"))),
			at("12:07:00"),
		},
	},
}
