// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

import (
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

var requestStories = []story{
	{
		name: "escalation", title: "Escalating remediations: two templates, then owner remediation",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", escalating("RebootTemplate/soft", "PowerCycleTemplate/hard", "owner"))),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:07:00", keepsFinalizer("w-1")),
			// The first step times out at 12:16. Its finalizer blocks the deletion.
			at("12:24:00", removesFinalizer("w-1")),
			at("12:26:00", remediationFails("w-1")),
			at("12:27:00"),
		},
	},
	{
		name: "escalation-exhausted", title: "Every step of the escalation has failed, and the first one starts again with backoff", trace: "nodes/node-w-1 EscalationExhausted",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", nodeCheck(escalating("RebootTemplate/soft", "PowerCycleTemplate/hard"))),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:10:00", remediationFails("w-1")),
			at("12:11:00", remediationFails("w-1")),
			// The second attempt.
			at("12:13:00", remediationFails("w-1")),
			at("12:14:00", remediationFails("w-1")),
			// The third attempt succeeds, and the remediation history is removed.
			at("12:17:00", remediationSucceeds("w-1"), nodesReady("w-1")),
			at("12:18:00"),
		},
	},
	{
		name: "step-for-a-condition", title: "A step for each condition: reboot for one, replace for another, and only report a third",
		trace: "workers/w-3 NoStepForCondition",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", escalating("RebootTemplate/soft", "owner"), machineCondition("DiskReady", "False", time.Minute),
				only(1, remediation.Cause{Type: "Ready", Status: "False"}), only(2, remediation.Cause{Type: "Ready", Status: "Unknown"}))),
			at("12:01:00", nodesNotReady("w-1"), nodesUnknown("w-2"), diskNotReady("w-3")),
			// The reboot takes until the Node is Unknown: another cause, so its step follows.
			at("12:08:00", nodesUnknown("w-1")),
			at("12:13:00", remediationFails("w-1")),
			at("12:14:00"),
		},
	},
	{
		name: "backoff", title: "A remediation fails, and the next attempt waits for a backoff that grows",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"))),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:10:00", remediationFails("w-1")),
			at("12:12:00", remediationFails("w-1")),
			at("12:15:00"),
		},
	},
	{
		name: "recovery", title: "A Node is healthy, becomes unhealthy again, and then stays healthy for healthyDelay",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft"), healthyDelay(2*time.Minute))),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:08:00", remediationSucceeds("w-1"), nodesReady("w-1")),
			at("12:09:00", nodesNotReady("w-1")),
			at("12:09:30", nodesReady("w-1")),
			at("12:20:00"),
		},
	},
	{
		name: "recovery-confirmed", title: "A Node is healthy again, and a user has to confirm that",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", nodeCheck(template("RebootTemplate/soft"), recoveryConfirmed)),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:08:00", remediationSucceeds("w-1"), nodesReady("w-1")),
			at("12:30:00", confirmsRecovery("w-1")),
			at("12:31:00"),
		},
	},
	{
		name: "node-deleted-during-remediation", title: "The Node of a request is deleted, with and without an announcement by the remediator", trace: "nodes/node-w-2 NodeNotFound",
		steps: []step{
			workers("w-1", "w-2", "w-3", "w-4"),
			at("12:00:00", nodeCheck(maxUnhealthy("50%"), template("ReprovisionTemplate/m3"))),
			at("12:01:00", nodesUnknown("w-1", "w-2")),
			at("12:07:00", expectsNodeDeletion("w-1")),
			at("12:08:00", nodeDeleted("w-1"), nodeDeleted("w-2")),
			at("12:20:00"),
		},
	},
	{
		name: "request-cannot-be-created", title: "A request cannot be created, for one reason after the other",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", machineCheck("workers", template("RebootTemplate/soft")), templateExists("workers", false)),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:07:00", templateExists("workers", true), createsRequest("RebootTemplate/soft", "w-1")),
			at("12:08:00", deletesRequest("RebootTemplate/soft", "w-1"), rejectsRequests("spec.method: Unsupported value: \"kick\"")),
			at("12:09:00", rejectsRequests("")),
			at("12:10:00"),
		},
	},
	{
		name: "no-machine", title: "The remediator of an infrastructure provider needs a Machine, and the Node has none",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", nodeCheck(template("HCloudRemediationTemplate/reboot"), needsMachineIn("default"))),
			at("12:01:00", nodesUnknown("w-1")),
			at("12:08:00", sets("nodes", template("RebootTemplate/soft"))),
			at("12:09:00"),
		},
	},
	{
		name: "lease-taken", title: "Another component holds the Lease of a Node",
		steps: []step{
			workers("w-1", "w-2", "w-3"),
			at("12:00:00", nodeCheck(template("RebootTemplate/soft"))),
			at("12:01:00", nodesUnknown("w-1"), holdsLease("w-1", "node-maintenance", 10*time.Minute)),
			at("12:17:30", nodesReady("w-1")),
			at("12:30:00"),
		},
	},
}
