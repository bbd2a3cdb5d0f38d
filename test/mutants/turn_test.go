//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

const (
	atTurn = "TestControlPlaneLease_Request_IsHeldUntilDeleted"
	goneBy = "TestNodeGoneSince_MissingNode_IsRecorded"
	wish   = "TestRemediateAnnotation_Remediated_IsNotRepeated"
	lasts  = "TestLease_Withdrawn_IsRenewedUntilDeleted"
	notes  = "TestOrphan_Records_AreRemoved"

	renewed = "TestControlPlaneLease_HalfOver_IsRenewed"
)

// Turns at the control plane, wishes, and notes on targets.
var turnsAndNotes = []mutant{
	r("plan.go", "s.ControlPlane.Lease.HeldByThis && s.ControlPlane.Lease.Used", "s.ControlPlane.Lease.Used", atTurn),
	r("plan.go", "t.ControlPlane && t.Request != nil && p.plan.leased", "t.ControlPlane && false", atTurn),
	r("plan.go", "t.ControlPlane && t.Request != nil && p.plan.leased", "t.Request != nil && p.plan.leased", atTurn),
	r("plan.go", "plan.ReleaseControlPlaneLease = plan.ReleaseControlPlaneLease && d.ControlPlaneLeaseUntil.IsZero()", "", atTurn),
	r("plan.go", "plan.leased = plan.leased && d.ControlPlaneLeaseUntil.IsZero()", "", atTurn),
	r("plan.go", "plan.otherWakeUp, plan.leased\n", "plan.otherWakeUp, false\n", atTurn),
	r("cleanup.go", "p.plan.leased && orphan.ControlPlane && orphan.Request != nil", "p.plan.leased && orphan.Request != nil", atTurn),
	r("cleanup.go", "p.plan.leased && orphan.ControlPlane && orphan.Request != nil", "p.plan.leased && orphan.ControlPlane", atTurn),
	r("plan.go", "t.ControlPlane && p.s.ControlPlane.Lease.Used", "p.s.ControlPlane.Lease.Used", atTurn),
	r("plan.go", "t.ControlPlane && p.s.ControlPlane.Lease.Used", "t.ControlPlane", atTurn),
	r("writes.go", "d.Action == StartRequest && !d.ControlPlaneLeaseUntil.IsZero()", "!d.ControlPlaneLeaseUntil.IsZero()", atTurn),
	r("writes.go", "d.Action == StartRequest && !d.ControlPlaneLeaseUntil.IsZero()", "false", atTurn),
	r("writes.go", "writes = appendIf(writes, d.RenewsControlPlaneLease, AcquireControlPlaneLease)\n\treturn appendIf(writes, d.LeaseUntil.IsZero() && t.", "return appendIf(writes, d.LeaseUntil.IsZero() && t.", atTurn),
	r("writes.go", "writes = appendIf(writes, d.RenewsControlPlaneLease, AcquireControlPlaneLease)\n\treturn appendIf(writes, d.LeaseUntil.IsZero() && s.", "return appendIf(writes, d.LeaseUntil.IsZero() && s.", renewed),
	r("request.go", "!d.Starts() && !p.s.Check.Paused", "!d.Starts()", atTurn),
	r("request.go", "p.wakeAt(until.Add(-lasting / 2))", "", renewed),
	r("plan.go", "p.a.Verdicts[i].Reason != health.Paused", "true", atTurn),
	r("plan.go", "!p.s.Orphans[i].Paused", "true", renewed),
	r("preflight.go", "h.DropConfirmation, h.RenewsControlPlaneLease = false, false", "h.DropConfirmation = false", renewed),
	r("preflight.go", "false, 0, time.Time{}", "false, 0, h.ControlPlaneLeaseUntil", "TestControlPlaneLease_PreflightBlocks_IsReleased"),
	r("guards_control_plane.go", "turn.Holder != \"\" && !turn.HeldByThis && p.now.Before(turn.Until)", "false", alone),
	r("guards_control_plane.go", "!turn.HeldByThis && p.now", "p.now", alone),
	r("guards_control_plane.go", " && p.now.Before(turn.Until)", "", alone),
	r("guards_control_plane.go", "p.now.Before(turn.Until)", "!p.now.After(turn.Until)", alone),

	r("plan.go", "d.History, d.NodeGoneSince = limitBackoff(t.History, p.policy, p.now), v.NodeGoneSince", "d.History = limitBackoff(t.History, p.policy, p.now)", goneBy),
	r("plan.go", " || !d.NodeGoneSince.IsZero())", ")", goneBy),
	r("cleanup.go", "d.History, d.NodeGoneSince = History{}, time.Time{}\n\t}", "d.History = History{}\n\t\t_ = time.Time{}\n\t}", goneBy),
	r("writes.go", "!d.NodeGoneSince.Equal(t.NodeGoneSince)", "false", goneBy),
	h("rules.go", "recorded.IsZero() || recorded.After(now)", "recorded.IsZero()", "TestNodeGoneSince_MissingNode_IsKeptUntilBack"),
	h("rules.go", "case Present:\n\t\treturn time.Time{}\n", "", "TestNodeGoneSince_MissingNode_IsKeptUntilBack"),
	h("evaluate.go", "t.Machine != nil {\n\t\t\tverdict", "true {\n\t\t\tverdict", "TestNodeGoneSince_MissingNode_IsKeptUntilBack"),

	r("cleanup.go", "d.History, d.NodeGoneSince = orphan.History, orphan.NodeGoneSince", "", notes),
	r("writes.go", "!d.History.same(&s.History)", "false", notes),
	r("writes.go", "!d.NodeGoneSince.Equal(s.NodeGoneSince)", "false", notes),
	r("cleanup.go", "if t.Request != nil {\n\t\tp.renewLease(t.Lease, t.Request, d, t.UnpausedAt)\n\t}", "", lasts),
	r("cleanup.go", "if orphan.Request != nil {\n\t\t\tp.renewLease(orphan.Lease, orphan.Request, d)\n\t\t}", "", lasts),
	r("writes.go", "d.LeaseUntil.After(s.Lease.Until)", "false", lasts),
	r("plan.go", "p.wakeAt(d.RenewAt)\n\t\tplan.leased", "plan.leased", lasts),

	r("request.go", "r.Succeeded && onlyAskedFor(v)", "onlyAskedFor(v)", "TestRemediateAnnotation_Remediated_IsNotRepeated"),
	r("request.go", "r.Succeeded && onlyAskedFor(v)", "r.Succeeded", wish),
	r("request.go", " && d.Block.Reason != AnnotationNotRemoved", "", wish),
	r("guards_requests.go", " && failures > 0", "", alone),
	r("guards_requests.go", " && !c.underWay", "", alone),
	r("guards_requests.go", "onlyAskedFor(&p.a.Verdicts[c.index]) && ", "", alone),
	r("guards_requests.go", "v.Findings[i].Met && ", "", alone),
	r("guards_requests.go", "v.Findings[i].Rule != health.HasRemediateAnnotation", "false", alone),

	r("request.go", "p.ends(r, &step, t.UnpausedAt)", "p.ends(r, &step)", "TestStepTimeout_AfterPauseOfTarget_StartsAgain"),
	r("request.go", "append(pauseEnds, p.s.Check.UnpausedAt)", "pauseEnds", "TestStepTimeout_AfterPauseOfTarget_StartsAgain"),
	r("plan.go", "first(!a.since.IsZero(), !b.since.IsZero()),", "", "TestCandidates_UnknownSince_ComeLast"),
	r("guards_target.go", "Until: t.CoveredUntil, ", "", "TestCoveredByOther_Until_IsReported"),

	r("preflight.go", "\t{Terminating, requestSteps, guardTerminating},\n", "", looks),
	r("preflight.go", "\t{Excluded, allSteps, guardExcluded},\n", "", looks),
	r("preflight.go", "{Excluded, allSteps, ", "{Excluded, allActions, ", looks),
	r("preflight.go", "{Excluded, allSteps, ", "{Excluded, requestSteps, ", looks),
	r("preflight.go", "{Terminating, requestSteps, ", "{Terminating, allSteps, ", looks),
	r("preflight.go", "\t{OwnerRefuses, ownerSteps, guardOwnerRefuses},\n", "", looks),
	r("preflight.go", "{OwnerRefuses, ownerSteps, ", "{OwnerRefuses, allSteps, ", looks),
	r("preflight.go", "\t{AnnotationNotRemoved, requestSteps, guardAnnotationNotRemoved},\n", "", looks),
	r("preflight.go", "underWay: t.History.Tried != StepID{}", "underWay: false", looks),
	r("preflight.go", "[]Decision{*d}", "[]Decision{{History: History{Failures: 1}}}", looks),
	r("preflight.go", "[]health.Verdict{result.Verdict}", "[]health.Verdict{*v}", looks),
	r("preflight.go", "\t{RequestNameConflict, requestSteps, guardRequestNameConflict},\n", "", looks),
	r("preflight.go", "\t{NodeLeaseHeld, requestSteps, guardNodeLeaseHeld},\n", "", looks),
	r("preflight.go", "d.Action, &live, c", "d.Action, t, c", looks),
	r("preflight.go", "live.ControlPlane || t.ControlPlane", "live.ControlPlane", looks),
	r("preflight.go", " now: now, preflight", " preflight", looks),
	r("guards.go", "\t\treturn a == StartRequest\n", "\t\treturn true\n", looks),
	r("guards.go", "return a == RequestOwnerRemediation\n", "return true\n", looks),
	r("guards.go", "a == StartRequest || a == RequestOwnerRemediation", "a == StartRequest", looks),

	r("writes.go", "d.Starts() || d.Action == GiveUp", "d.Starts()", "TestWrites_RemovedHistory_ComesLast"),
	r("writes.go", "d.Starts() || d.Action == GiveUp", "true", "TestWrites_RemovedHistory_ComesLast"),
	r("writes.go", "appendIf(writes, !first && noted && !t.Unread, WriteHistory)", "writes", written),
	r("writes.go", "noted && !t.Unread", "noted", written),
	r("writes.go", "d.DropConfirmation && !t.Unread", "d.DropConfirmation", written),
	r("writes.go", "appendIf(writes, !first && holds, AcquireLease)", "writes", written),
	r("writes.go", "appendIf(writes, first && holds, AcquireLease)", "writes", written),
	r("cleanup.go", "t.CoveredBy == \"\" || t.CoveredElsewhere", "t.CoveredBy == \"\"", "TestCoveredElsewhere_Records_AreRemoved"),
	r("plan.go", "p.wakeAt(p.s.Check.ReconnectingUntil)", "", "TestStorm_Reconnecting_WakesAfterGracePeriod"),
	r("preflight.go", "\t\th.DropConfirmation = d.DropConfirmation\n", "", "TestLease_BlockedBetweenSteps_IsReleased"),
	r("preflight.go", "if result.Paused || result.Failed || result.Changed || result.Late {", "if result.Paused || result.Changed || result.Late {", "TestPreflight_OnlyAnnotations_ArePausedToo"),
	r("preflight.go", "if t.Request == nil && !result.Paused && !result.Failed {", "if false {", "TestLease_BlockedBetweenSteps_IsReleased"),
	r("preflight.go", "if t.Request == nil && !result.Paused && !result.Failed {", "if t.Request == nil && !result.Failed {", "TestLease_BlockedBetweenSteps_IsReleased"),
	r("preflight.go", "if t.Request == nil && !result.Paused && !result.Failed {", "if t.Request == nil && !result.Paused {", "TestLease_BlockedBetweenSteps_IsReleased"),
	r("guards_control_plane.go", "len(members) > 0", "len(members) >= 0", "TestEtcdOf_Sources_FirstWithMembersWins"),
	r("guards_control_plane.go", "EtcdStacked, Members: members", "EtcdExternal, Members: members", "TestEtcdOf_Sources_FirstWithMembersWins"),
	r("preflight.go", "if result.Paused || result.Failed || result.Changed || result.Late {", "if result.Paused || result.Failed || result.Late {", "TestPreflight_OnlyAnnotations_ArePausedToo"),
	r("request.go", "if v.Recovered() {\n\t\t// The manager", "if false {\n\t\t// The manager", "TestHistory_RecoveredWhileDeleting_IsRemoved"),
	r("request.go", "if v.Recovered() {\n\t\t// The manager", "if true {\n\t\t// The manager", "TestHistory_RecoveredWhileDeleting_IsRemoved"),
	r("preflight.go", "case next.Decisions[i].Block.Reason != \"\":", "case false:", "TestPlanAgain_StillBlocked_ReportsNewReason"),
	r("preflight.go", "case d.Block.Reason == \"\" || d.Action != None || s.Targets[i].Blocked.Reason != \"\":", "case d.Block.Reason == \"\":", "TestPlanAgain_StillBlocked_ReportsNewReason"),
	r("guards_preflight.go", "!result.sameRecovery(c.t)", "false", looks),
	r("guards_preflight.go", "now == nil || before == nil || ", "now != nil && ", looks),
}
