//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

// sabotage is a mutant of the shell, with the output of its test when the test detects it.
type sabotage struct {
	mutant
	sees string
	// after is the number of writes of a scenario that do not detect the mutant. The test skips them.
	after int
}

func (s sabotage) soundUntil(write int) sabotage {
	s.after = write
	return s
}

func engine(file, from, to, test, sees string) sabotage {
	return sabotage{mutant: mutantIn("internal/healthcheck", file, from, to, test), sees: sees}
}

func machines(file, from, to, test, sees string) sabotage {
	return sabotage{mutant: mutantIn("controllers/machinehealthcheck", file, from, to, test), sees: sees}
}

func intree(file, from, to, test, sees string) sabotage {
	return sabotage{mutant: mutantIn("controllers/intree", file, from, to, test), sees: sees}
}

func q(file, from, to, test, sees string) sabotage {
	return sabotage{mutant: mutantIn("internal/requests", file, from, to, test), sees: sees}
}

func p(file, from, to, test, sees string) sabotage {
	return sabotage{mutant: mutantIn("internal/report", file, from, to, test), sees: sees}
}

// Several scenarios detect a remediator that was not stopped, without an error.
const (
	tellsToStop      = "return p.requests.StopRemediator(ctx, request, p.now, d.Why == remediation.NodeNotFound)"
	butHidesFailures = "_ = p.requests.StopRemediator(ctx, request, p.now, d.Why == remediation.NodeNotFound)\n\t\treturn nil"
)

// faults are sabotages of what reads and writes, each with the story of faults that is there to catch it.
var faults = []sabotage{
	// A crash, or a write that fails, between two writes.
	{r("writes.go", "SetMarkedBy)\n\twrites = d.act(writes, t.Request)\n", "SetMarkedBy)\n\twrites = append(d.act(nil, t.Request), writes...)\n", "TestOwnerRemediation_CrashAtAnyWrite_EndsTheSame"), "without a responsible check", 0},
	{r("writes.go", "d.Starts() || d.Action == GiveUp, ", "d.Starts(), ", "TestEscalation_CrashAtAnyWrite_EndsTheSame"), "was created twice", 4},
	engine("write.go", "\t\tif err := p.change(ctx, t, p.r.Actor.ClearConditions); err != nil {\n\t\t\treturn err\n\t\t}\n\t\treturn p.annotate(ctx, t, notes.OfResponsibleCheck(\"\"))\n",
		"\t\tif err := p.annotate(ctx, t, notes.OfResponsibleCheck(\"\")); err != nil {\n\t\t\treturn err\n\t\t}\n\t\treturn p.change(ctx, t, p.r.Actor.ClearConditions)\n",
		"TestCleanup_CrashAtAnyWrite_EndsTheSame", "another state").soundUntil(8),
	engine("write.go", tellsToStop, butHidesFailures,
		"TestWithdrawal_AnyWriteFails_EndsTheSame", "did not get the timed-out annotation"),
	engine("control_plane.go", "holder == p.snapshot.check.LeaseHolder() && len(p.snapshot.unread) == 0", "false", "TestControlPlane_CrashAtAnyWrite_EndsTheSame", "to be empty"),
	engine("check.go", "if left {", "if left && false {", "TestCleanup_StaleMachineCache_KeepsTheFinalizer", "has something to clean up"),
	p("machine.go", "\tconditions.Delete(m, explain.HealthCheckSucceeded)\n", "", "TestCleanup_StaleMachineCache_KeepsTheFinalizer", "HealthCheckSucceeded|UnhealthyNode"),

	// Two leaders.
	q("write.go", "err = r.client.Create(ctx, request)\n", "err = r.client.Create(ctx, request)\n\tif apierrors.IsAlreadyExists(err) {\n\t\trequest.SetName(request.GetName() + \"-2\")\n\t\terr = r.client.Create(ctx, request)\n\t}\n",
		"TestTwoLeaders_FirstBlockedBeforeCreate_CreateOnce", "and no others exist"),
	q("write.go", "err = r.client.Create(ctx, request)\n", "err = r.client.Create(ctx, request)\n\tif apierrors.IsAlreadyExists(err) {\n\t\terr = r.client.Patch(ctx, request, client.Merge)\n\t}\n",
		"TestTwoLeaders_FirstBlockedBeforeCreate_CreateOnce", "are unchanged"),
	q("write.go", "client.Preconditions{UID: &f.UID}", "client.Preconditions{}", "TestTwoLeaders_LateDelete_KeepsTheNewRequest", "types.UID"),
	engine("preflight.go", "p.snapshot.check.Policy.MaxInFlight != nil ||", "false ||", "TestTwoLeaders_StaleMachines_KeepMaxInFlight", "m-2"),
	engine("write.go", tellsToStop, "return nil", "TestTwoLeaders_OneLags_EscalateOnce", "did not get the timed-out annotation"),

	// Caches that lag behind.
	engine("preflight.go", "\t\t\tfresh.targets[i] = t\n", "", "TestStaleCache_TargetChanged_StartsNothing", inVain("no remediation starts")),
	// The first one goes through it all as it should: what the test is about comes after that.
	q("build.go", "request.SetName(d.Target.Object().Name)",
		"if name := d.Target.Object().Name; name == \"m-1\" {\n\t\trequest.SetName(name)\n\t} else {\n\t\trequest.SetName(name + strconv.FormatInt(time.Now().UnixNano(), 36))\n\t}",
		"TestStaleCache_RequestNotCached_IsCreatedOnce", inVain("the next target is remediated")),
	machines("actor.go", "a.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))",
		"a.Client.Status().Patch(ctx, after, client.MergeFrom(before))", "TestStaleCache_OwnerAnswered_ReasonIsKept", "False RemediationDeferred"),
	engine("preflight.go", "a.GetUID() != b.GetUID() || a.GetGeneration() != b.GetGeneration() || before.deleting() != now.deleting()", "a == nil && b == nil",
		"TestStaleCache_CheckChanged_StartsNothing", "create m-1|WaitingForRemediation"),
	engine("preflight.go", "notes.Storm(now.GetAnnotations()) != notes.Storm(planned.GetAnnotations()) ||", "false ||",
		"TestPreflight_StormSincePlan_StartsNothing", "no remediation was started"),
	engine("check.go", "err == nil && order >= 0", "err == nil && order >= -1", "TestStatus_StaleCheckCache_IsUpdated", inVain("the status is updated")),
	engine("control_plane.go", "snapshot: fresh, check", "snapshot: p.snapshot, check", "TestPreflight_EtcdMemberLost_BlocksRemediation", inVain("the failed member counts")),
	{mutantIn("internal/pipeline", "act.go", "if obstacle = p.obstacle(ctx); obstacle != nil {", "if false {", "TestPreflight_StopDuringReconcile_StartsNoMore"), "to be equivalent to", 0},

	// Errors, and watches that end.
	engine("write.go", tellsToStop, butHidesFailures,
		"TestEscalation_RandomErrors_Completes", "did not get the timed-out annotation"),
	q("watch.go", "for ctx.Err() == nil {", "for range 1 {", "TestWatches_CutOrExpired_LoseNothing", inVain("the instance observes the deletion of the request")),
	engine("report.go", "if p.r.Clock.Now().Before(end) || last", "if p.r.Clock.Now().Before(end.Add(3600e9)) || last", "TestConditions_SlowWrites_DoNotDelayRemediation", "were not written yet"),
	engine("report.go", "unsigned := facts.Decision.MarkedBy &&", "unsigned := false && facts.Decision.MarkedBy &&",
		"TestOwnerRemediation_OutOfTime_SetsNoConditionWithoutAnnotation", "without an annotation"),
}
