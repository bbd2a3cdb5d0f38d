//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

func sequence(file, from, to, test string) mutant {
	return mutantIn("internal/pipeline", file, from, to, test)
}

// reconciles are mutants of the sequence of a reconcile.
var reconciles = []mutant{
	sequence("act.go", "return !p.preflightAt.IsZero() && p.clock.Now().Sub(p.now) >= preflightTime", "return false", "TestRun_OutOfTime_PostponesTargets"),
	sequence("preflight.go", "return p.clock.Now().Sub(p.preflightAt) < freshTime", "return true", "TestPreflight_OutOfDate_RunsAgain"),
	sequence("act.go", "\t\tp.announce(ctx)\n", "", "TestRun_Writes_AreInOrder"),
	sequence("act.go", "\tobstacle := p.confirmAndWrite(ctx, p.targetsWhere((*remediation.Decision).Ends))\n",
		"\tp.start(ctx, p.targetsWhere((*remediation.Decision).Starts))\n\tobstacle := p.confirmAndWrite(ctx, p.targetsWhere((*remediation.Decision).Ends))\n",
		"TestRun_Recovered_IsWithdrawnBeforeStart"),
	sequence("act.go", "!= nil || p.limited || len(p.errs) > failed", "!= nil || len(p.errs) > failed", "TestRun_LimitExceededMeanwhile_PlansNoOthers"),
	sequence("act.go", "targets = remediation.PlanAgain(&p.plan, &p.facts.Situation, &p.assessment, &p.facts.Policy, p.now)", "targets = nil",
		"TestRun_ManyRejected_OthersContinue"),
	sequence("act.go", "\tif p.acted {\n", "\tif p.acted && false {\n", "TestRun_CallHangs_EndsInTime"),
	sequence("act.go", "p.preflightAt, p.acted = time.Time{}, false", "p.acted = false", "TestRun_SlowFailingWrite_DoesNotStarveOthers"),
	sequence("act.go", "obstacle != nil && !obstacle.Late", "obstacle != nil", "TestRun_SlowFailingWrite_DoesNotStarveOthers"),
	sequence("act.go", ">= fruitlessTime, p.late():", ">= fruitlessTime:", "TestRun_AllRejectedAfterSlowReport_RetriesLater"),
	sequence("act.go", "\t\t\tp.fruitless = true\n", "", "TestRun_LateAfterKubeletRenewed_RetriesSoon"),
	sequence("act.go", "cmp.Or(all[a].BlockedAt.Compare(all[b].BlockedAt), order(a)-order(b))",
		"cmp.Or(order(a)-order(b), all[a].BlockedAt.Compare(all[b].BlockedAt))", "TestRun_SlowFailingWorker_DoesNotStarveControlPlane"),
	sequence("act.go", "\t\tif p.progress(ctx) {\n", "\t\tif false {\n", "TestRun_LongReconcile_ReportsProgress"),
	sequence("act.go", "p.clock.Now().Sub(p.reportedAt) < progressTime", "false", "TestRun_LongReconcile_ReportsProgress"),
	sequence("pipeline.go", "if p.outOfTime.Load() {", "if false {", "TestRun_OutOfTime_PostponesTargets"),
}
