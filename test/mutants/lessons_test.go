//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

const paused = "TestWhoWasPausedIsGivenTheTimeThatIsLeft"

// What was wrong once must not come back.
var lessons = []mutant{
	r("request.go", "!thawed.After(p.now)", "true", paused),
	r("inflight.go", "slices.Clone(p.s.Replacing)", "p.s.Replacing", "TestAPlanLeavesWhatItIsGivenAsItIs"),
	r("inflight.go", "if p.s.Strays[i].ControlPlane {", "if false {", "TestAStrayOfTheControlPlaneKeepsItBusy"),
	r("inflight.go", "delete(gone, p.s.Strays[i].Name)", "_ = gone", "TestAStrayTakesUpOnePlace"),
	r("plan.go", "if t.CoveredBy == \"\" {\n\t\td.Ledger, d.NodeGoneSince = believable", "if true {\n\t\td.Ledger, d.NodeGoneSince = believable", "TestTheLedgerOfACoveredTargetIsNotOurs"),
	r("plan.go", "p.busy == \"\" || name < p.busy", "true", "TestTheSameOneOfSeveralIsNamed"),
	r("plan.go", "t.Confirmed && t.Request == nil && !unwanted", "t.Confirmed && !unwanted", "TestAConfirmationIsUsedUp"),
	r("plan.go", "t.Confirmed && t.Request == nil && !unwanted", "t.Confirmed && t.Request == nil", "TestAConfirmationIsUsedUp"),
	r("plan.go", "d.Hold.Reason == NotConfirmed || d.Hold.Reason == RequestFailed", "false", "TestWhatCouldNotBeReadIsReadAgain"),
	r("plan.go", "h.Reason == QuorumUnknown || ", "", "TestWhatNobodyTellsOfIsLookedAtAgain"),
	r("plan.go", "h.Reason == ControlPlaneBusy && !h.Until.IsZero()", "false", "TestWhatNobodyTellsOfIsLookedAtAgain"),
	r("plan.go", " && !h.Until.IsZero()", "", "TestWhatNobodyTellsOfIsLookedAtAgain"),
	r("letting_go.go", " || p.s.Check.Cluster == ClusterIsMissing {", " {", "TestACheckWithoutAClusterWaitsForNoNodeToGo"),
	r("budget.go", "!found && c.underWay && !unwanted", "!found && c.underWay && (unwanted || !unwanted)", "TestTheLedgerOfACoveredTargetIsNotOurs"),
	r("budget.go", "d.Hold = p.s.Targets[c.index].HeldBack; d.Hold.Reason != \"\"", "false", "TestWhoIsHeldBackLeavesItsPlaceToOthers"),
	r("confirm.go", "plan.Replacing = next.Replacing", "", "TestWhoTakesAFreePlaceIsRememberedToo"),
	r("mark.go", "d.Action, d.Why = TakeBack, why\n\t}\n}", "_ = why\n\t}\n}", "TestWhatBecomesOfAMark"),
	h("rule_unhealthy_machine.go", " || hearsay(condition, t.nodeState())", "", "TestTheConnectionIsNotTheNode"),
	h("rule_unhealthy_machine.go", "return condition.Status == metav1.ConditionUnknown", "return false", "TestTheConnectionIsNotTheNode"),
	h("rule_unhealthy_machine.go", "return node == Unreadable", "return false", "TestTheConnectionIsNotTheNode"),
	h("verdict.go", " || f.Rule == UnhealthyMachine && aboutNode(f.Condition)", "", "TestTheConnectionIsNotTheNode"),
	h("verdict.go", "v.Kind == Healthy && v.Reason == \"\"", "v.Kind == Healthy", "TestOnlyWhoWasSeenToBeWellHasRecovered"),
}
