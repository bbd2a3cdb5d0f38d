// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"
)

var oneTarget = []answer{
	{why: "this check is responsible", guard: ManagedByOtherCheck},
	{
		why: "an observing check decides as if it was alone", guard: ManagedByOtherCheck,
		options: []option{coveredBy("MachineHealthCheck/other"), observes}, seen: Details{Cause: "MachineHealthCheck/other"},
	},
	{
		why: "a target of another check is left to it", guard: ManagedByOtherCheck, options: []option{coveredBy("MachineHealthCheck/other")},
		held: true, seen: Details{Cause: "MachineHealthCheck/other"},
	},
	{why: "not being deleted", guard: StuckDeleting},
	{
		why: "a deletion has its time", guard: StuckDeleting, options: []option{deletingFor(30*time.Minute - moment)},
		seen: Details{Since: ago(30*time.Minute - moment)},
	},
	{
		why: "after which it hangs, to the moment", guard: StuckDeleting, options: []option{deletingFor(30 * time.Minute)}, held: true,
		seen: Details{Since: ago(30 * time.Minute)},
	},
	{
		why: "nor is it fit for its owner then", guard: StuckDeleting, options: []option{byOwner, deletingFor(30 * time.Minute)}, held: true,
		seen: Details{Since: ago(30 * time.Minute)},
	},
	{
		why: "a Node that a finalizer keeps blocks a request", guard: StuckDeleting, options: []option{nodeDeletingFor(30 * time.Minute)}, held: true,
		seen: Details{Since: ago(30 * time.Minute)},
	},
	{
		why: "but no owner: it replaces the Machine", guard: StuckDeleting,
		options: []option{byOwner, nodeDeletingFor(30 * time.Minute)},
	},
	{
		why: "the deletion of the Machine counts first", guard: StuckDeleting,
		options: []option{deletingFor(time.Minute), nodeDeletingFor(30 * time.Minute)}, seen: Details{Since: ago(time.Minute)},
	},
	{why: "it is to stay", guard: Terminating},
	{
		why: "a Node that is being deleted gets no request", guard: Terminating, options: []option{nodeDeletingFor(time.Minute)},
		held: true, until: ago(-29 * time.Minute), seen: Details{Cause: "deletion", Since: ago(time.Minute)},
	},
	{why: "but its owner replaces the Machine", guard: Terminating, options: []option{byOwner, nodeDeletingFor(time.Minute)}},
	{
		why: "what is being deleted gets no request (E11)", guard: Terminating, options: []option{deletingFor(time.Minute)},
		held: true, until: ago(-29 * time.Minute), seen: Details{Cause: "deletion", Since: ago(time.Minute)},
	},
	{
		why: "nor is its owner asked to delete it", guard: Terminating, options: []option{byOwner, deletingFor(time.Minute)},
		held: true, until: ago(-29 * time.Minute), seen: Details{Cause: "deletion", Since: ago(time.Minute)},
	},
	{
		why: "what a taint announces is waited for", guard: Terminating, options: []option{leaving(ago(30*time.Minute - moment))},
		held: true, until: ago(-moment), seen: Details{Cause: "ToBeDeletedByClusterAutoscaler", Since: ago(30*time.Minute - moment)},
	},
	{
		why: "half an hour, to the moment", guard: Terminating, options: []option{leaving(ago(30 * time.Minute))},
		seen: Details{Cause: "ToBeDeletedByClusterAutoscaler", Since: ago(30 * time.Minute)},
	},
	{
		why: "a taint without a time does not expire", guard: Terminating, options: []option{leaving(time.Time{})}, held: true,
		seen: Details{Cause: "ToBeDeletedByClusterAutoscaler"},
	},
	{why: "an announcement is no objection to a mark", guard: Terminating, options: []option{byOwner, leaving(ago(time.Minute))}},
	{why: "no label on its Node", guard: Excluded},
	{why: "a label keeps it", guard: Excluded, options: []option{target(func(t *Target) { t.Excluded = true })}, held: true},
	{why: "its owner can be asked", guard: NoRemediatingOwner, options: []option{byOwner}, seen: Details{Cause: owner}},
	{why: "no owner", guard: NoRemediatingOwner, options: []option{byOwner, target(func(t *Target) { t.Owner = "" })}, held: true},
	{why: "its owner has not refused", guard: OwnerRefuses, options: []option{byOwner}, seen: Details{Cause: owner}},
	{
		why: "CannotBeRemediated", guard: OwnerRefuses,
		options: []option{byOwner, marked(func(m *OwnerRemediation) { m.Refused, m.Waiting = true, false })}, held: true, seen: Details{Cause: owner},
	},
	{why: "a wish is granted", guard: AnnotationNotRemoved, options: []option{is(wished)}},
	{
		why: "the remediation has failed: the annotation is not used again", guard: AnnotationNotRemoved,
		options: []option{is(wished), remembers(1, time.Time{})}, held: true, seen: Details{Count: 1},
	},
	{
		why: "all steps are part of one attempt", guard: AnnotationNotRemoved,
		options: []option{is(wished), twoSteps, target(func(t *Target) { t.History = History{Failures: 1, Tried: stepA} })}, seen: Details{Count: 1},
	},
	{
		why: "who is unhealthy besides is tried again", guard: AnnotationNotRemoved,
		options: []option{remembers(1, time.Time{}), is(wished), alsoSick}, seen: Details{Count: 1},
	},
	{
		why: "and who is only about to be is not", guard: AnnotationNotRemoved,
		options: []option{remembers(1, time.Time{}), is(wished), soonSick}, held: true, seen: Details{Count: 1},
	},
	{
		why: "without a wish nothing is done twice because of one", guard: AnnotationNotRemoved, options: []option{remembers(1, time.Time{})},
		seen: Details{Count: 1},
	},
	{why: "a step out of several has no wait to begin with", guard: EscalationExhausted, options: []option{twoSteps}},
	{
		why: "after all of them have failed there is one", guard: EscalationExhausted, options: []option{twoSteps, remembers(3, ago(-moment))},
		held: true, until: ago(-moment), seen: Details{Count: 3},
	},
	{why: "to the moment", guard: EscalationExhausted, options: []option{twoSteps, remembers(3, noon)}, seen: Details{Count: 3}},
	{
		why: "a single step is no escalation", guard: EscalationExhausted, options: []option{remembers(3, ago(-time.Minute))},
		seen: Details{Count: 3},
	},
	{why: "nothing has failed", guard: InBackoff},
	{
		why: "its last remediation has failed a short while ago", guard: InBackoff, options: []option{remembers(2, ago(-moment))}, held: true,
		until: ago(-moment), seen: Details{Count: 2},
	},
	{why: "and that is over, to the moment", guard: InBackoff, options: []option{remembers(2, noon)}, seen: Details{Count: 2}},
	{why: "its template is there", guard: TemplateNotResolved, seen: Details{Cause: "A/a"}},
	{
		why: "it is not", guard: TemplateNotResolved, options: []option{policy(func(p *Policy) { p.Steps[0].Unresolved = true })}, held: true,
		seen: Details{Cause: "A/a"},
	},
	{why: "nor is there any step", guard: TemplateNotResolved, options: []option{steps()}, held: true},
	{why: "nothing bears its name", guard: RequestNameConflict},
	{
		why: "something does", guard: RequestNameConflict, options: []option{target(func(t *Target) { t.RequestNameConflict = "for another target" })}, held: true,
		seen: Details{Cause: "for another target"},
	},
	{why: "there is no Lease", guard: NodeLeaseHeld, options: []option{lease(Lease{Used: true})}},
	{
		why: "another holder of the Lease", guard: NodeLeaseHeld,
		options: []option{lease(Lease{Used: true, Holder: "node-maintenance", Until: ago(-time.Hour)})}, held: true,
		until: ago(-61 * time.Minute), seen: Details{Cause: "node-maintenance"},
	},
	{
		why: "the clock of the holder is behind by less than a minute", guard: NodeLeaseHeld,
		options: []option{lease(Lease{Used: true, Holder: "node-maintenance", Until: ago(time.Minute - moment)})}, held: true,
		until: ago(-moment), seen: Details{Cause: "node-maintenance"},
	},
	{
		why: "the clock of the holder is ahead, so the Lease is held for longer", guard: NodeLeaseHeld,
		options: []option{lease(Lease{Used: true, Holder: "node-maintenance", Until: ago(-2 * time.Hour)})}, held: true,
		until: ago(-121 * time.Minute), seen: Details{Cause: "node-maintenance"},
	},
	{
		why: "the Lease has expired, also by a clock that is behind", guard: NodeLeaseHeld,
		options: []option{lease(Lease{Used: true, Holder: "node-maintenance", Until: ago(time.Minute)})}, seen: Details{Cause: "node-maintenance"},
	},
	{
		why: "Lease held by this check", guard: NodeLeaseHeld,
		options: []option{lease(Lease{Used: true, Holder: "NodeHealthCheck-a", HeldByThis: true, Until: ago(-time.Hour)})},
	},
	{why: "a Lease without a holder is free", guard: NodeLeaseHeld, options: []option{lease(Lease{Used: true, Until: ago(-time.Hour)})}},
	{
		why: "who does not take part does not look", guard: NodeLeaseHeld,
		options: []option{lease(Lease{Holder: "node-maintenance", Until: ago(-time.Hour)})},
	},
}

func coveredBy(name string) option { return target(func(t *Target) { t.CoveredBy = name }) }
func lease(l Lease) option         { return target(func(t *Target) { t.Lease = l }) }

var controlPlane = []answer{
	{
		why: "another check has its turn at the control plane", guard: ControlPlaneBusy,
		options: []option{ofControlPlane, turn(Lease{Used: true, Holder: "other", Until: ago(-moment)})}, held: true, until: ago(-moment),
		seen: Details{Cause: "other"},
	},
	{
		why: "until that runs out", guard: ControlPlaneBusy,
		options: []option{ofControlPlane, turn(Lease{Used: true, Holder: "other", Until: noon})}, seen: Details{Cause: "other"},
	},
	{
		why: "it is its own turn", guard: ControlPlaneBusy,
		options: []option{ofControlPlane, turn(Lease{Used: true, Holder: "this", HeldByThis: true, Until: ago(-moment)})}, seen: Details{Cause: "this"},
	},
	{why: "a worker needs no turn", guard: ControlPlaneBusy, options: []option{turn(Lease{Used: true, Holder: "other", Until: ago(-moment)})}},
	{why: "no other member is busy", guard: ControlPlaneBusy, options: []option{ofControlPlane}},
	{why: "a worker is no part of it", guard: ControlPlaneBusy, options: []option{busyWith("n2"), inFlightToo(true)}},
	{
		why: "another check is busy with one of its Nodes", guard: ControlPlaneBusy, options: []option{ofControlPlane, busyWith("n2")},
		held: true, seen: Details{Cause: "n2"},
	},
	{
		why: "any of those is in the way", guard: ControlPlaneBusy, options: []option{ofControlPlane, busyWith("n1", "n2")}, held: true,
		seen: Details{Cause: "n2"},
	},
	{
		why: "known by the name of its Node, it is not in its own way", guard: ControlPlaneBusy,
		options: []option{ofControlPlane, busyWith("n1")},
	},
	{why: "nor by the name of its Machine", guard: ControlPlaneBusy, options: []option{ofControlPlane, busyWith("m1")}},
	{
		why: "this check is busy with another one", guard: ControlPlaneBusy, options: []option{ofControlPlane, inFlightToo(true)}, held: true,
		seen: Details{Cause: "m2"},
	},
	{
		why: "several are busy: the first by name is reported", guard: ControlPlaneBusy, options: []option{
			ofControlPlane, inFlightToo(true), inFlightToo(true), called("z"), func(x *scene) { x.situation.Targets[2].Name = "m3" },
		},
		held: true, seen: Details{Cause: "m2"},
	},
	{
		why: "a worker in flight is not in the way of the control plane", guard: ControlPlaneBusy,
		options: []option{ofControlPlane, inFlightToo(false)},
	},
	{why: "its members could be found out", guard: QuorumUnknown, options: []option{ofControlPlane}},
	{why: "they could not: that is the safe zero value", guard: QuorumUnknown, options: []option{ofControlPlane, etcd(Etcd{})}, held: true},
	{why: "a worker has no part in the quorum", guard: QuorumUnknown, options: []option{etcd(Etcd{})}},
	{why: "an external etcd plays no role", guard: QuorumUnknown, options: []option{ofControlPlane, etcd(Etcd{State: EtcdExternal})}},
	{why: "there are others", guard: SingleControlPlane, options: []option{ofControlPlane}, seen: Details{Count: 3}},
	{why: "n = 1", guard: SingleControlPlane, options: []option{ofControlPlane, etcd(members(1))}, held: true, seen: Details{Count: 1}},
	{why: "worker, single control plane", guard: SingleControlPlane, options: []option{etcd(members(1))}, seen: Details{Count: 1}},
	{
		why: "a single Node with an external etcd", guard: SingleControlPlane,
		options: []option{ofControlPlane, etcd(Etcd{State: EtcdExternal, Members: members(1).Members})}, seen: Details{Count: 1},
	},
	{
		why: "3 members: both others are healthy", guard: QuorumAtRisk, options: []option{ofControlPlane},
		seen: Details{Count: 2, Min: 2, Max: 3},
	},
	{
		why: "3 members: one of the others may be unhealthy", guard: QuorumAtRisk, options: []option{ofControlPlane, etcd(members(3, "n2"))},
		held: true, seen: Details{Count: 1, Min: 2, Max: 3},
	},
	{
		why: "its own health does not count for the others", guard: QuorumAtRisk,
		options: []option{ofControlPlane, etcd(members(3, "n1", "n2"))}, held: true, seen: Details{Count: 1, Min: 2, Max: 3},
	},
	{
		why: "5 members: 3 of the others are healthy", guard: QuorumAtRisk,
		options: []option{ofControlPlane, etcd(members(5, "n3", "n4", "n5"))}, seen: Details{Count: 3, Min: 3, Max: 5},
	},
	{
		why: "5 members: 2 of the others are healthy", guard: QuorumAtRisk, options: []option{ofControlPlane, etcd(members(5, "n4", "n5"))},
		held: true, seen: Details{Count: 2, Min: 3, Max: 5},
	},
	{
		why: "a member that is known to be lost cannot be lost", guard: QuorumAtRisk, options: []option{
			ofControlPlane, etcd(members(3, "n2")), func(x *scene) { x.situation.ControlPlane.Etcd.Members[0].Unhealthy = true },
		},
		seen: Details{Cause: "its own member is not healthy"},
	},
	{
		why: "that of another does not make it so", guard: QuorumAtRisk, options: []option{
			ofControlPlane, etcd(members(3, "n2")), func(x *scene) { x.situation.ControlPlane.Etcd.Members[2].Unhealthy = true },
		},
		held: true, seen: Details{Count: 1, Min: 2, Max: 3},
	},
	{why: "a worker has no member", guard: QuorumAtRisk, options: []option{etcd(members(3))}},
	{
		why: "an external etcd is not at risk", guard: QuorumAtRisk,
		options: []option{ofControlPlane, etcd(Etcd{State: EtcdExternal, Members: members(3).Members})},
	},
}

func busyWith(names ...string) option {
	return func(x *scene) { x.situation.ControlPlane.Busy = names }
}

// inFlightToo adds another target that is under remediation.
func inFlightToo(ofControlPlane bool) option {
	return also(
		Target{Name: "m2", Node: "n2", ControlPlane: ofControlPlane, Request: &Request{Step: stepA, Attempt: 1, Started: ago(time.Minute)}},
		sickFor(time.Hour),
	)
}

var places = []answer{
	{why: "there are as many places as targets", guard: MaxInFlight, options: []option{inFlightToo(false)}},
	{
		why: "a place is free, to the last one", guard: MaxInFlight, options: []option{slots(2), inFlightToo(false)},
		seen: Details{Cause: "m2", Count: 1, Max: 2},
	},
	{
		why: "all places are taken", guard: MaxInFlight, options: []option{slots(1), inFlightToo(false)}, held: true,
		seen: Details{Cause: "m2", Count: 1, Max: 1},
	},
	{
		why: "several have a place: the first by name is reported", guard: MaxInFlight, options: []option{
			slots(1), inFlightToo(false), inFlightToo(false), func(x *scene) { x.situation.Targets[2].Name = "m3" },
		},
		held: true, seen: Details{Cause: "m2", Count: 2, Max: 1},
	},
	{
		why: "a worker's owner needs a place, too", guard: MaxInFlight, options: []option{slots(1), byOwner, inFlightToo(false)}, held: true,
		seen: Details{Cause: "m2", Count: 1, Max: 1},
	},
	{
		why: "the marks of a control plane do not: KubeadmControlPlane has to see them all", guard: MaxInFlight,
		options: []option{slots(1), byOwner, ofControlPlane, inFlightToo(false)},
	},
	{
		why: "its requests do", guard: MaxInFlight, options: []option{slots(1), ofControlPlane, inFlightToo(false)}, held: true,
		seen: Details{Cause: "m2", Count: 1, Max: 1},
	},
}
