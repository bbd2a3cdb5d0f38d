//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

// sabotage is a mutant of the shell, and what its test says when it sees it.
type sabotage struct {
	mutant
	sees string
	// after is how many writes of a story are sound: the first one that tells is known, and nobody has to wait for those before.
	after int
}

func (s sabotage) soundUntil(write int) sabotage {
	s.after = write
	return s
}

func c(file, from, to, test, sees string) sabotage {
	return sabotage{mutant: mutant{"controllers/machinehealthcheck/" + file, from, to, test}, sees: sees}
}

func q(file, from, to, test, sees string) sabotage {
	return sabotage{mutant: mutant{"internal/requests/" + file, from, to, test}, sees: sees}
}

func p(file, from, to, test, sees string) sabotage {
	return sabotage{mutant: mutant{"internal/report/" + file, from, to, test}, sees: sees}
}

// What several stories see: that a remediator was not told to stop, and nobody noticed.
const (
	tellsToStop      = "return v.r.Requests.TellToStop(ctx, request, v.now)"
	butHidesFailures = "_ = v.r.Requests.TellToStop(ctx, request, v.now)\n\t\treturn nil"
)

// faults are sabotages of what reads and writes, each with the story of faults that is there to catch it.
var faults = []sabotage{
	// A crash, or a write that fails, between two writes.
	{r("writes.go", "SetAuthor)\n\twrites = d.act(writes, t.Request)\n", "SetAuthor)\n\twrites = append(d.act(nil, t.Request), writes...)\n", "TestAMarkSurvivesACrashAtAnyWrite"), "nobody has signed", 0},
	{r("writes.go", "d.starts() || d.Action == GiveUp, ", "d.starts(), ", "TestAnEscalationSurvivesACrashAtAnyWrite"), "there was a second", 4},
	c("write.go", "\t\tif err := v.patchStatus(ctx, m, report.ClearMachine); err != nil {\n\t\t\treturn err\n\t\t}\n\t\treturn v.noteOnMachine(ctx, m, notes.OfAuthor(\"\"))\n",
		"\t\tif err := v.noteOnMachine(ctx, m, notes.OfAuthor(\"\")); err != nil {\n\t\t\treturn err\n\t\t}\n\t\treturn v.patchStatus(ctx, m, report.ClearMachine)\n",
		"TestTheEndOfACheckSurvivesACrashAtAnyWrite", "another state").soundUntil(8),
	c("write.go", tellsToStop, butHidesFailures,
		"TestAWithdrawalSurvivesAFailureOfAnyWrite", "was not told to stop"),
	c("turn.go", "turn.Ours = turn.Holder == holder", "turn.Ours = false", "TestTheTurnAtAControlPlaneSurvivesACrashAtAnyWrite", "to be empty"),
	c("release.go", "if left {", "if left && false {", "TestACheckIsKeptUntilItsLastMarkIsTakenBack", "there is something to clean up"),
	p("machine.go", "\tconditions.Delete(m, explain.HealthCheckSucceeded)\n", "", "TestACheckIsKeptUntilItsLastMarkIsTakenBack", "HealthCheckSucceeded|UnhealthyNode"),

	// Two leaders.
	q("build.go", "request.SetName(d.Target.Object().Name)", "request.SetName(d.Target.Object().Name + strconv.FormatInt(time.Now().UnixNano(), 36))",
		"TestTwoLeadersAtOnceMakeNoRequestTwice", "and no others"),
	q("write.go", "err = r.client.Create(ctx, request)\n", "err = r.client.Create(ctx, request)\n\tif apierrors.IsAlreadyExists(err) {\n\t\tall, _ := json.Marshal(request)\n\t\terr = r.client.Patch(ctx, request, client.RawPatch(types.MergePatchType, all))\n\t}\n",
		"TestTwoLeadersAtOnceMakeNoRequestTwice", "as they were made"),
	q("write.go", "client.Preconditions{UID: &f.UID}", "client.Preconditions{}", "TestADeletionThatComesLateIsAboutTheRequestThatItWasMeantFor", "types.UID"),
	c("look.go", "v.seen.check.Spec.MaxInFlight != nil ||", "false ||", "TestTwoLeadersAtOnceMarkNoMoreThanOne", "m-2"),
	c("write.go", tellsToStop, "return nil", "TestTwoLeadersAtOnceEscalateOnce", "was not told to stop"),

	// Caches that lag behind.
	c("look.go", "fresh.machines[i] = m\n", "_ = m\n", "TestAStaleCacheStartsNothing", inVain("nothing begins")),
	// The first one goes through it all as it should: what the test is about comes after that.
	q("build.go", "request.SetName(d.Target.Object().Name)",
		"if name := d.Target.Object().Name; name == \"m-1\" {\n\t\trequest.SetName(name)\n\t} else {\n\t\trequest.SetName(name + strconv.FormatInt(time.Now().UnixNano(), 36))\n\t}",
		"TestARequestThatIsNotSeenYetIsMadeOnce", inVain("the next has its turn")),
	c("write.go", "v.r.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))",
		"v.r.Client.Status().Patch(ctx, after, client.MergeFrom(before))", "TestAnOwnerWhoIsNotHeardYetIsNotOverwritten", "False RemediationDeferred"),
	c("visit.go", "before.UID != now.UID || before.Generation != now.Generation || before.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero()", "false",
		"TestACheckThatHasChangedUnheardBeginsNothing", "create m-1|WaitingForRemediation"),
	c("current.go", "err == nil && order >= 0", "err == nil", "TestAStatusIsTrueThoughTheCacheIsBehind", inVain("it is told again")),
	c("look_requests.go", "again.seen = fresh\n", "_ = fresh\n", "TestAQuorumIsTheOneOfNow", inVain("the loss counts")),
	{mutant{"internal/checkup/act.go", "if obstacle = p.obstacle(ctx); obstacle != nil {", "if false {", "TestWhoSaysStopIsHeardBeforeTheNextMachine"}, "to be equivalent to", 0},

	// Errors, and watches that end.
	c("write.go", tellsToStop, butHidesFailures,
		"TestErrorsOfTheAPIServerDelayAndNothingElse", "was not told to stop"),
	c("write.go", tellsToStop, butHidesFailures,
		"TestAStoryFullOfErrorsEndsAsItShould", "was not told to stop"),
	c("reconcile.go", "\t\trecord.failures++\n", "\t\tretry = 0\n", "TestWhatIsRefusedIsTriedAgainByItself", inVain("try [23]")),
	q("follow.go", "for ctx.Err() == nil {", "for range 1 {", "TestWatchesThatAreCutOrExpireLoseNothing", inVain("the end of a request is heard")),
	c("tell.go", "if !tried || v.r.Clock.Now().Before(end) {", "if !tried || v.r.Clock.Now().Before(end.Add(3600e9)) {", "TestWhoFallsIllDoesNotWaitUntilAllOthersAreTold", "still waiting"),
}
