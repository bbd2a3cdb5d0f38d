// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

import "time"

var aboutRequests = []story{
	{
		name: "escalation", title: "One remedy after the other, and the owner as the last resort",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", escalating("RebootTemplate/soft", "PowerCycleTemplate/hard", "owner"))),
			at("12:01:00", goDark("w-1")),
			at("12:07:00", keeps("w-1")),
			// The first step has taken too long at 12:16, and its finalizer keeps it.
			at("12:24:00", letsGo("w-1")),
			at("12:26:00", gaveUp("w-1")),
			at("12:27:00"),
		},
	},
	{
		name: "nothing-helps", title: "Every step has failed, and they begin anew after a wait", trace: "nodes/node-w-1 EscalationExhausted",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", nodeCheck(escalating("RebootTemplate/soft", "PowerCycleTemplate/hard"))),
			at("12:01:00", goDark("w-1")),
			at("12:10:00", gaveUp("w-1")),
			at("12:11:00", gaveUp("w-1")),
			// The second attempt.
			at("12:13:00", gaveUp("w-1")),
			at("12:14:00", gaveUp("w-1")),
			// The third one helps, and what was remembered is forgotten.
			at("12:17:00", succeeds("w-1"), areBack("w-1")),
			at("12:18:00"),
		},
	},
	{
		name: "fails-and-waits", title: "A remedy fails, and is tried again after a wait that grows",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"))),
			at("12:01:00", goDark("w-1")),
			at("12:10:00", gaveUp("w-1")),
			at("12:12:00", gaveUp("w-1")),
			at("12:15:00"),
		},
	},
	{
		name: "recovery", title: "A Node is healthy again, falls ill again, and is healthy for long enough",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"), healthyDelay(2*time.Minute))),
			at("12:01:00", goDark("w-1")),
			at("12:08:00", succeeds("w-1"), areBack("w-1")),
			at("12:09:00", fail("w-1")),
			at("12:09:30", areBack("w-1")),
			at("12:20:00"),
		},
	},
	{
		name: "recovery-is-confirmed", title: "A Node is healthy again, and a person has to say so",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", nodeCheck(template("RebootTemplate/soft"), recoveryConfirmed)),
			at("12:01:00", goDark("w-1")),
			at("12:08:00", succeeds("w-1"), areBack("w-1")),
			at("12:30:00", confirms("w-1")),
			at("12:31:00"),
		},
	},
	{
		name: "node-vanishes", title: "The Node of a request vanishes: on its remediator's way, and for good", trace: "nodes/node-w-1 NodeVanished",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4"),
			at("12:00:00", nodeCheck(maxUnhealthy("50%"), template("ReprovisionTemplate/m3"))),
			at("12:01:00", goDark("w-1", "w-2")),
			at("12:07:00", deletesNodeOnItsWay("w-1")),
			at("12:08:00", nodeIsDeleted("w-1"), nodeIsDeleted("w-2")),
			at("12:20:00"),
		},
	},
	{
		name: "request-cannot-be-made", title: "A request cannot be made, for one reason after the other",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft")), templateIsThere("workers", false)),
			at("12:01:00", goDark("w-1")),
			at("12:07:00", templateIsThere("workers", true), somebodyElses("RebootTemplate/soft", "w-1")),
			at("12:08:00", removesByHand("RebootTemplate/soft", "w-1"), refuses("spec.method: Unsupported value: \"kick\"")),
			at("12:09:00", refuses("")),
			at("12:10:00"),
		},
	},
	{
		name: "somebody-else-works-on-it", title: "Somebody else holds the Lease of a Node",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", nodeCheck(template("RebootTemplate/soft"))),
			at("12:01:00", goDark("w-1"), holdsLease("w-1", "node-maintenance", 10*time.Minute)),
			at("12:17:30", areBack("w-1")),
			at("12:30:00"),
		},
	},
}
