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

func engine(file, from, to, test, sees string) sabotage {
	return sabotage{mutant: mutant{"internal/healthcheck/" + file, from, to, test}, sees: sees}
}

func machines(file, from, to, test, sees string) sabotage {
	return sabotage{mutant: mutant{"controllers/machinehealthcheck/" + file, from, to, test}, sees: sees}
}

func intree(file, from, to, test, sees string) sabotage {
	return sabotage{mutant: mutant{"controllers/intree/" + file, from, to, test}, sees: sees}
}

func q(file, from, to, test, sees string) sabotage {
	return sabotage{mutant: mutant{"internal/requests/" + file, from, to, test}, sees: sees}
}

func p(file, from, to, test, sees string) sabotage {
	return sabotage{mutant: mutant{"internal/report/" + file, from, to, test}, sees: sees}
}

// What several stories see: that a remediator was not told to stop, and nobody noticed.
const (
	tellsToStop      = "return p.r.Requests.TellToStop(ctx, request, p.now)"
	butHidesFailures = "_ = p.r.Requests.TellToStop(ctx, request, p.now)\n\t\treturn nil"
)

// faults are sabotages of what reads and writes, each with the story of faults that is there to catch it.
var faults = []sabotage{
	// A crash, or a write that fails, between two writes.
	{r("writes.go", "SetAuthor)\n\twrites = d.act(writes, t.Request)\n", "SetAuthor)\n\twrites = append(d.act(nil, t.Request), writes...)\n", "TestAMarkSurvivesACrashAtAnyWrite"), "without a responsible check", 0},
	{r("writes.go", "d.starts() || d.Action == GiveUp, ", "d.starts(), ", "TestAnEscalationSurvivesACrashAtAnyWrite"), "there was a second", 4},
	engine("write.go", "\t\tif err := p.change(ctx, t, p.r.Actor.ClearConditions); err != nil {\n\t\t\treturn err\n\t\t}\n\t\treturn p.annotate(ctx, t, notes.OfAuthor(\"\"))\n",
		"\t\tif err := p.annotate(ctx, t, notes.OfAuthor(\"\")); err != nil {\n\t\t\treturn err\n\t\t}\n\t\treturn p.change(ctx, t, p.r.Actor.ClearConditions)\n",
		"TestTheEndOfACheckSurvivesACrashAtAnyWrite", "another state").soundUntil(8),
	engine("write.go", tellsToStop, butHidesFailures,
		"TestAWithdrawalSurvivesAFailureOfAnyWrite", "did not get the timed-out annotation"),
	engine("control_plane.go", "holder, holder == p.snapshot.check.ID.String(), ", "holder, false, ", "TestTheTurnAtAControlPlaneSurvivesACrashAtAnyWrite", "to be empty"),
	engine("check.go", "if left {", "if left && false {", "TestACheckIsKeptUntilItsLastMarkIsTakenBack", "there is something to clean up"),
	p("machine.go", "\tconditions.Delete(m, explain.HealthCheckSucceeded)\n", "", "TestACheckIsKeptUntilItsLastMarkIsTakenBack", "HealthCheckSucceeded|UnhealthyNode"),

	// Two leaders.
	q("build.go", "request.SetName(d.Target.Object().Name)", "request.SetName(d.Target.Object().Name + strconv.FormatInt(time.Now().UnixNano(), 36))",
		"TestTwoLeadersAtOnceMakeNoRequestTwice", "and no others"),
	q("write.go", "err = r.client.Create(ctx, request)\n", "err = r.client.Create(ctx, request)\n\tif apierrors.IsAlreadyExists(err) {\n\t\tall, _ := json.Marshal(request)\n\t\terr = r.client.Patch(ctx, request, client.RawPatch(types.MergePatchType, all))\n\t}\n",
		"TestTwoLeadersAtOnceMakeNoRequestTwice", "as they were made"),
	q("write.go", "client.Preconditions{UID: &f.UID}", "client.Preconditions{}", "TestADeletionThatComesLateIsAboutTheRequestThatItWasMeantFor", "types.UID"),
	engine("preflight.go", "p.snapshot.check.Policy.MaxInFlight != nil ||", "false ||", "TestTwoLeadersAtOnceMarkNoMoreThanOne", "m-2"),
	engine("write.go", tellsToStop, "return nil", "TestTwoLeadersAtOnceEscalateOnce", "did not get the timed-out annotation"),

	// Caches that lag behind.
	engine("preflight.go", "\t\t\tfresh.targets[i] = t\n", "", "TestAStaleCacheStartsNothing", inVain("nothing begins")),
	// The first one goes through it all as it should: what the test is about comes after that.
	q("build.go", "request.SetName(d.Target.Object().Name)",
		"if name := d.Target.Object().Name; name == \"m-1\" {\n\t\trequest.SetName(name)\n\t} else {\n\t\trequest.SetName(name + strconv.FormatInt(time.Now().UnixNano(), 36))\n\t}",
		"TestARequestThatIsNotSeenYetIsMadeOnce", inVain("the next has its turn")),
	machines("actor.go", "a.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))",
		"a.Client.Status().Patch(ctx, after, client.MergeFrom(before))", "TestAnOwnerWhoIsNotHeardYetIsNotOverwritten", "False RemediationDeferred"),
	engine("preflight.go", "a.GetUID() != b.GetUID() || a.GetGeneration() != b.GetGeneration() || before.deleting() != now.deleting()", "a == nil && b == nil",
		"TestACheckThatHasChangedUnheardBeginsNothing", "create m-1|WaitingForRemediation"),
	engine("check.go", "err == nil && order >= 0", "err == nil && order >= -1", "TestAStatusIsTrueThoughTheCacheIsBehind", inVain("it is told again")),
	engine("control_plane.go", "again.snapshot = fresh\n", "_ = fresh\n", "TestAQuorumIsTheOneOfNow", inVain("the loss counts")),
	{mutant{"internal/checkup/act.go", "if obstacle = p.obstacle(ctx); obstacle != nil {", "if false {", "TestWhoSaysStopIsHeardBeforeTheNextMachine"}, "to be equivalent to", 0},

	// Errors, and watches that end.
	engine("write.go", tellsToStop, butHidesFailures,
		"TestErrorsOfTheAPIServerDelayAndNothingElse", "did not get the timed-out annotation"),
	engine("write.go", tellsToStop, butHidesFailures,
		"TestAStoryFullOfErrorsEndsAsItShould", "did not get the timed-out annotation"),
	engine("reconcile.go", "\t\trecord.failures++\n", "\t\tretry = 0\n", "TestWhatIsRefusedIsTriedAgainByItself", inVain("try [23]")),
	q("follow.go", "for ctx.Err() == nil {", "for range 1 {", "TestWatchesThatAreCutOrExpireLoseNothing", inVain("the end of a request is heard")),
	engine("report.go", "if !tried || p.r.Clock.Now().Before(end) {", "if !tried || p.r.Clock.Now().Before(end.Add(3600e9)) {", "TestWhoFallsIllDoesNotWaitUntilAllOthersAreTold", "still waiting"),
}
