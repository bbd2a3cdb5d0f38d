//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

import "slices"

// shell are all sabotages of what reads and writes.
var shell = slices.Concat(faults, handover)

// The tests of adoption in the shell. Tests that need the in-tree controller are in the module test/differential.
const (
	looksOn    = "TestAdoption_ObserveFlag_AdoptsAndReleasesNothing"
	anothers   = "TestInstances_CheckOfOtherInstance_IsNotWritten"
	relabelled = "TestInstances_LabelChangedWhileDown_CheckIsReleased"
	signed     = "TestInstances_LabelChangedWhileDown_NewInstanceIsRecorded"
	otherActs  = "TestInstances_LabelChanged_CheckIsReleased"
	ownWord    = "TestRelease_OnlyConditionOfTheCheck_IsRemoved"
	none       = "TestInTreeCheck_NotAdopted_IsNotWritten"
	lateSigned = "TestRelease_LateResponsibleCheck_IsRemoved"
	stopped    = "TestRelease_TimedOutRequest_IsWithdrawn"
	turnBack   = "TestRelease_ControlPlaneLease_IsReleased"
	turnStays  = "TestRelease_LeaseOfOtherCheck_IsKept"
	notCleaned = "TestRelease_CleanupFails_IsReported"
	deletedFor = "TestInstances_CheckDeletedWhileDown_IsCleanedUp"
	untilGone  = "TestInTreeCheck_BeingDeleted_StaysResponsible"
	adoptedFor = "TestInTreeRequest_UnambiguousCheck_IsAdopted"
)

// handover are mutants of the adoption and the release of in-tree checks.
var handover = []sabotage{
	intree("store.go", "return asks(core) != \"false\" && (", "return (", looksOn, "to be empty|remedy"),
	intree("store.go", "a.OptIn && asked)", "true || asked)", none, "to equal"),
	intree("store.go", "|| generated && cluster", "|| (generated || true) && cluster", "TestAdoption_AnnotatedCluster_GeneratedChecksOnly", "to be empty"),
	intree("store.go", "\tf.Instance = cmp.Or(a.WatchFilter, adoption.Unfiltered)\n", "", signed, "to have"),
	intree("adopt.go", "; writes && a.Observe {", "; false && writes && a.Observe {", looksOn, "to equal|to be empty"),
	intree("adopt.go", "(instance == a.WatchFilter || instance == adoption.Unfiltered)", "instance == a.WatchFilter", relabelled, inVain("the restarted instance releases the check")),
	intree("adopt.go", "(instance == a.WatchFilter || instance == adoption.Unfiltered)", "instance == adoption.Unfiltered", relabelled, inVain("the restarted instance releases the check")),
	intree("adopt.go", "(instance == a.WatchFilter || instance == adoption.Unfiltered)", "true", anothers, "to equal"),
	intree("adopt.go", "facts.Wanted, facts.Deleting = false, false", "facts.Deleting = false", otherActs, inVain("the first instance releases the check")),
	intree("adopt.go", "facts.Wanted, facts.Deleting = false, false", "facts.Wanted = false", deletedFor, inVain("the deletion completes")),
	intree("adopt.go", "\t\tif pauseOf(core) == adoption.RemedyPause {\n\t\t\tstate", "\t\tif true {\n\t\t\tstate", "TestAdoption_ObserveFlag_DoesNotReportWaiting", inVain("the condition is removed")),
	intree("adopt.go", "adoption.Memory{Instance: a.facts(core, cluster).Memory.Instance}", "a.facts(core, cluster).Memory", notCleaned, "no other controller has removed the pause"),
	intree("adopt.go", "\tcontrollerutil.RemoveFinalizer(core, remedyv1.CleanupFinalizer)\n", "", otherActs, inVain("the first instance releases the check")),
	intree("adopt.go", "\tmaps.DeleteFunc(core.Annotations, func(key, _ string) bool { return writtenByManager(key) })\n", "", relabelled, inVain("the restarted instance releases the check")),
	intree("adopt.go", "\t\tmeta.RemoveStatusCondition(&after.Status.Conditions, remedyv1.AdoptedCondition)\n", "", ownWord, inVain("Adopted is removed")),
	intree("adopt.go", "\t\tcondition = instance.NotCleanedUp(failed)\n", "\t\t_ = instance.NotCleanedUp(failed)\n", notCleaned, inVain("the check reports NotCleanedUp")),
	intree("adopt.go", "\t\t\td.Move, d.Memory = adoption.Unpause, adoption.Memory{Instance: a.facts(core, cluster).Memory.Instance}\n", "\t\t\treturn failed\n", notCleaned, inVain("the pause is removed")),
	intree("adopt.go", "\t\t\td.Move, d.Memory = adoption.Unpause, adoption.Memory{Instance: a.facts(core, cluster).Memory.Instance}\n", "", notCleaned, "consist of"),
	intree("release.go", "if f.Traces || f.Wanted {", "if true {", lateSigned, inVain("the annotation is removed")),
	intree("release.go", "\t\toff = notes.OfResponsibleCheck(\"\")\n", "", lateSigned, inVain("the annotation is removed")),
	intree("release.go", "if holdsControlPlane(check, machines, found) {", "if holdsControlPlane(check, machines, found) && false {", turnBack, inVain("the Lease is released")),
	intree("release.go", "|| workload.LeaseHolder(lease) != check.ID.String() {", "{", turnStays, "to equal"),
	q("write.go", "if f.timedOut {", "if f.timedOut && false {", stopped, "the request is withdrawn"),
	q("write.go", "off[key] = nil", "_ = key", stopped, "to be empty"),
	intree("claims.go", ", InTree: true,\n", ",\n", adoptedFor, "to equal|withdrawn"),
	engine("read.go", "if request == nil || annotations.HasPaused(t.Object) ||", "if request == nil ||", adoptedFor, "to equal|withdrawn"),
	engine("read.go", "if s.observes() || s.check.deleting() ||", "if s.check.deleting() ||", adoptedFor, "to equal|withdrawn"),
	intree("release.go", "if !check.Object.GetDeletionTimestamp().IsZero() && signed {", "if !check.Object.GetDeletionTimestamp().IsZero() && signed && false {", deletedFor, "has no responsible check"),
	intree("release.go", "a.Requests.Withdraw(ctx, request)", "a.Requests.Release(ctx, request)", deletedFor, "no controller would complete the request"),
	q("find.go", "failed = append(failed, errors.Wrapf(err, \"failed to list %s\", known.resource))\n\t\t\tcontinue\n", "return nil, err\n", notCleaned, "to be empty"),
	q("write.go", "\treturn r.strip(ctx, f, map[string]any{\"uid\": f.UID})\n", "\treturn nil\n", stopped, "the request is withdrawn"),
	intree("claims.go", ", InTree: true,\n",
		", InTree: true, Deleting: !core.DeletionTimestamp.IsZero(),\n", untilGone, inVain("the in-tree check is responsible")),
}
