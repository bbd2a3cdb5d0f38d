//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

const paused = "TestWhoWasPausedIsGivenTheTimeThatIsLeft"

// What was wrong once must not come back.
var lessons = []mutant{
	r("request.go", "!pauseEnd.After(p.now)", "true", paused),
	r("inflight.go", "slices.Clone(p.s.Replacing)", "p.s.Replacing", "TestAPlanLeavesWhatItIsGivenAsItIs"),
	r("inflight.go", "if p.s.Strays[i].ControlPlane {", "if false {", "TestAStrayOfTheControlPlaneKeepsItBusy"),
	r("inflight.go", " || p.s.Strays[i].Request != nil\n", "\n", "TestAStrayTakesUpOnePlace"),
	r("plan.go", "if t.CoveredBy == \"\" {\n\t\td.Ledger, d.NodeGoneSince = believable", "if true {\n\t\td.Ledger, d.NodeGoneSince = believable", "TestTheLedgerOfACoveredTargetIsNotOurs"),
	r("inflight.go", "p.busy == \"\" || name < p.busy", "true", "TestTheSameOneOfSeveralIsNamed"),
	r("plan.go", "t.Confirmed && t.Request == nil && !unwanted", "t.Confirmed && !unwanted", "TestAConfirmationIsUsedUp"),
	r("plan.go", "t.Confirmed && t.Request == nil && !unwanted", "t.Confirmed && t.Request == nil", "TestAConfirmationIsUsedUp"),
	r("plan.go", "d.Hold.Reason == NotConfirmed || d.Hold.Reason == RequestFailed", "false", "TestWhatCouldNotBeReadIsReadAgain"),
	r("plan.go", "h.Reason == QuorumUnknown || ", "", "TestWhatNobodyTellsOfIsLookedAtAgain"),
	r("plan.go", "h.Reason == ControlPlaneBusy && !h.Until.IsZero()", "false", "TestWhatNobodyTellsOfIsLookedAtAgain"),
	r("plan.go", " && !h.Until.IsZero()", "", "TestWhatNobodyTellsOfIsLookedAtAgain"),
	r("cleanup.go", " || p.s.Check.Cluster == ClusterIsMissing {", " {", "TestACheckWithoutAClusterWaitsForNoNodeToGo"),
	r("candidates.go", "!found && c.underWay && !unwanted", "!found && c.underWay && (unwanted || !unwanted)", "TestTheLedgerOfACoveredTargetIsNotOurs"),
	r("candidates.go", "d.Hold = t.HeldBack; d.Hold.Reason != \"\"", "false", "TestWhoIsHeldBackLeavesItsPlaceToOthers"),
	r("preflight.go", "plan.Replacing = next.Replacing", "", "TestWhoTakesAFreePlaceIsRememberedToo"),
	r("owner.go", "case why != \"\":", "case why != \"\" && v.Kind == health.Unhealthy:", "TestWhatBecomesOfAMark"),
	h("rule_unhealthy_machine.go", " || unverified(condition, t.nodeState())", "", "TestTheConnectionIsNotTheNode"),
	h("rule_unhealthy_machine.go", "return condition.Status == metav1.ConditionUnknown", "return false", "TestTheConnectionIsNotTheNode"),
	h("rule_unhealthy_machine.go", "return node == Unreadable", "return false", "TestTheConnectionIsNotTheNode"),
	h("verdict.go", " ||\n\t\tf.Rule == UnhealthyMachine && aboutNode(f.Condition)", "", "TestTheConnectionIsNotTheNode"),
	h("verdict.go", "v.Kind == Healthy && v.Reason == \"\"", "v.Kind == Healthy", "TestOnlyWhoWasSeenToBeWellHasRecovered"),
}
