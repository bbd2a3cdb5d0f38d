//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

import "slices"

// shell are all sabotages of what reads and writes.
var shell = slices.Concat(faults, handover)

// The tests of the shell around the handshake. What needs Cluster API's own controller stands in module test/differential.
const (
	looksOn    = "TestWhoOnlyLooksOnHandsNothingOver"
	anothers   = "TestACheckOfAnotherInstanceIsLeftAlone"
	relabelled = "TestALabelMayChangeWhileNobodyLooks"
	signed     = "TestACheckIsSignedByWhoActsForIt"
	otherActs  = "TestACheckThatAnotherInstanceIsToActForIsGivenBack"
	ownWord    = "TestOurWordGoesAlsoWhereItIsTheOnlyOne"
	none       = "TestWhatIsNoneOfOursIsNotChanged"
	lateSigned = "TestASignatureThatComesLateIsTakenOff"
	stopped    = "TestARequestThatWasToldToStopIsNotGivenBack"
	turnBack   = "TestTheTurnAtAControlPlaneIsGivenBack"
	turnStays  = "TestTheTurnOfOthersStays"
	notCleaned = "TestWhatCannotBeCleanedUpIsTold"
	deletedFor = "TestACheckMayBeDeletedWhileNobodyLooks"
	untilGone  = "TestACheckOfTheirsLooksAfterItsMachinesUntilItIsGone"
	adoptedFor = "TestARequestIsAdoptedWhereItCanOnlyBeOurs"
)

// handover are sabotages of how a check of Cluster API is handed to us and back.
var handover = []sabotage{
	c("core_checks.go", "return asks(core) != \"false\" && (", "return (", looksOn, "to be empty|remedy"),
	c("core_checks.go", "c.Annotated && (asks(core) == \"true\" ||", "(true ||", none, "to equal"),
	c("core_checks.go", "\tf.Instance = r.WatchFilter\n", "", signed, "to have"),
	c("handover.go", "; writes && r.Observe {", "; false && writes && r.Observe {", looksOn, "to equal|to be empty"),
	c("handover.go", "return slices.Contains([]string{filter, \"\"}, noted.Instance)", "return slices.Contains([]string{filter}, noted.Instance)", relabelled, inVain("whoever comes back gives it back")),
	c("handover.go", "return slices.Contains([]string{filter, \"\"}, noted.Instance)", "return slices.Contains([]string{\"\"}, noted.Instance)", relabelled, inVain("whoever comes back gives it back")),
	c("handover.go", "return slices.Contains([]string{filter, \"\"}, noted.Instance)", "return true", anothers, "to equal"),
	c("handover.go", "return said != nil && ", "return said != nil && said == nil && ", "TestACheckIsOursWhereNobodyElseIs", inVain("it is not ours any more")),
	c("handover.go", "facts.Wanted, facts.Deleting = false, false", "facts.Deleting = false", otherActs, inVain("whoever had it gives it back")),
	c("handover.go", "facts.Wanted, facts.Deleting = false, false", "facts.Wanted = false", deletedFor, inVain("it goes all the same")),
	c("handover.go", "\tif pauseOf(core) == takeover.OurPause {\n\t\tstate", "\tif true {\n\t\tstate", "TestWhoOnlyObservesDoesNotSayThatItWaits", inVain("nothing is waited for")),
	c("handover.go", "takeover.Memory{Instance: c.facts(core, cluster).Memory.Instance}", "c.facts(core, cluster).Memory", notCleaned, "nobody but us"),
	c("handover.go", "\tcontrollerutil.RemoveFinalizer(core, remedyv1.CleanupFinalizer)\n", "", otherActs, inVain("whoever had it gives it back")),
	c("handover.go", "\tmaps.DeleteFunc(core.Annotations, func(key, _ string) bool { return noted(key) })\n", "", relabelled, inVain("whoever comes back gives it back")),
	c("handover.go", "\t\tmeta.RemoveStatusCondition(&after.Status.Conditions, remedyv1.TakenOverCondition)\n", "", ownWord, inVain("our word goes")),
	c("handover.go", "\t\ttold = us.NotCleanedUp(left)\n", "\t\t_ = us.NotCleanedUp(left)\n", notCleaned, inVain("it goes back, and says so")),
	c("handover.go", "\t\t\td.Move, d.Memory = takeover.Unpause, takeover.Memory{Instance: c.facts(core, cluster).Memory.Instance}\n", "\t\t\treturn left\n", notCleaned, inVain("it goes back, and says so")),
	c("handover.go", "\t\t\td.Move, d.Memory = takeover.Unpause, takeover.Memory{Instance: c.facts(core, cluster).Memory.Instance}\n", "", notCleaned, "consist of"),
	c("give_back.go", "if f.Traces || f.Wanted {", "if true {", lateSigned, inVain("the signature goes")),
	c("give_back.go", "\t\toff = notes.OfAuthor(\"\")\n", "", lateSigned, inVain("the signature goes")),
	c("give_back.go", "if s.holdsControlPlane(found) {", "if s.holdsControlPlane(found) && false {", turnBack, "to be empty"),
	c("give_back.go", "|| !turnOf(lease, identity(v.seen.check).String()).Ours {", "{", turnStays, "to equal"),
	q("adopt.go", "if f.timedOut {", "if f.timedOut && false {", stopped, "it is withdrawn"),
	q("adopt.go", "off[key] = nil", "_ = key", stopped, "to be empty"),
	c("adopt.go", "return !theirs && !annotations.HasPaused(m)", "return (!theirs || true) && !annotations.HasPaused(m)", adoptedFor, "to equal|withdrawn"),
	c("adopt.go", "return !theirs && !annotations.HasPaused(m)", "return !theirs", adoptedFor, "to equal|withdrawn"),
	c("adopt.go", "if s.observes() || !s.check.DeletionTimestamp.IsZero() {", "if !s.check.DeletionTimestamp.IsZero() {", adoptedFor, "to equal|withdrawn"),
	c("give_back.go", "\t\tif err := v.patchStatus(ctx, m, report.ClearMachine); err != nil {\n\t\t\treturn err\n\t\t}\n", "", deletedFor, "is said to be unhealthy"),
	c("give_back.go", "\t\treturn v.r.Requests.Withdraw(ctx, request)\n", "\t\treturn v.r.Requests.GiveBack(ctx, request)\n", deletedFor, "nobody would go on with it"),
	c("give_back.go", "kinds = withOthers(kinds, request.Kind)", "_ = request.Kind", notCleaned, inVain("it goes back, and says so")),
	q("look.go", "failed = append(failed, errors.Wrapf(err, \"failed to list %s\", known.resource))\n\t\t\tcontinue\n", "return nil, err\n", notCleaned, "to be empty"),
	q("adopt.go", "\treturn r.strip(ctx, f, map[string]any{\"uid\": f.UID})\n", "\treturn nil\n", stopped, "it is withdrawn"),
	c("rival.go", "\t\tmachines: selector, theirs: true,\n\t}\n", "\t\tmachines: selector, theirs: true, deleting: !check.DeletionTimestamp.IsZero(),\n\t}\n", untilGone, inVain("ours waits for theirs")),
}
