//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

const paused = "TestStepTimeout_AfterPause_StartsAgain"

// What was wrong once must not come back.
var lessons = []mutant{
	r("request.go", "!pauseEnd.After(p.now)", "true", paused),
	r("inflight.go", "slices.Clone(p.s.Replacing)", "p.s.Replacing", "TestPlan_Arguments_AreNotChanged"),
	r("inflight.go", "\t\tif o.ControlPlane {", "\t\tif false {", "TestOrphan_ControlPlane_KeepsItBusy"),
	r("inflight.go", " || o.Request != nil && !o.replaced(p.now)\n", "\n", "TestOrphan_InReplacing_CountsOnce"),
	r("plan.go", "if t.CoveredBy == \"\" {\n\t\td.History, d.NodeGoneSince = limitBackoff", "if true {\n\t\td.History, d.NodeGoneSince = limitBackoff", "TestPlan_CoveredTarget_KeepsItsHistory"),
	r("inflight.go", "p.busy == \"\" || name < p.busy", "true", "TestPlan_SeveralBlock_NamesTheSameOne"),
	r("plan.go", "t.Confirmed && t.Request == nil && !unwanted", "t.Confirmed && !unwanted", "TestConfirmation_Used_IsRemoved"),
	r("plan.go", "t.Confirmed && t.Request == nil && !unwanted", "t.Confirmed && t.Request == nil", "TestConfirmation_Used_IsRemoved"),
	r("plan.go", "d.Block.Reason == PreflightFailed || d.Block.Reason == RequestFailed", "false", "TestConclude_ReadFailed_RetriesSoon"),
	r("plan.go", "case QuorumUnknown, QuorumAtRisk, SingleControlPlane, ControlPlaneBusy, NodeLeaseHeld, ClockSkew:", "case QuorumAtRisk, SingleControlPlane, ControlPlaneBusy, NodeLeaseHeld:", "TestConclude_NoWatch_Polls"),
	r("plan.go", "case QuorumUnknown, QuorumAtRisk, SingleControlPlane, ControlPlaneBusy, NodeLeaseHeld, ClockSkew:", "case QuorumUnknown, SingleControlPlane, ControlPlaneBusy, NodeLeaseHeld:", "TestConclude_NoWatch_Polls"),
	r("plan.go", "case QuorumUnknown, QuorumAtRisk, SingleControlPlane, ControlPlaneBusy, NodeLeaseHeld, ClockSkew:", "case QuorumUnknown, QuorumAtRisk, ControlPlaneBusy, NodeLeaseHeld:", "TestConclude_NoWatch_Polls"),
	r("plan.go", "case QuorumUnknown, QuorumAtRisk, SingleControlPlane, ControlPlaneBusy, NodeLeaseHeld, ClockSkew:", "case QuorumUnknown, QuorumAtRisk, SingleControlPlane, NodeLeaseHeld:", "TestConclude_NoWatch_Polls"),
	r("plan.go", ", ControlPlaneBusy, NodeLeaseHeld, ", ", ControlPlaneBusy, ", "TestConclude_NoWatch_Polls"),
	r("guards_preflight.go", "d.Action == StartRequest && c.ownerAsked()", "false", "TestPreflight_OwnerAskedSincePlan_StartsNoRequest"),
	r("guards_preflight.go", "now.Requested && !now.Since", "!now.Since", "TestPreflight_OwnerAskedSincePlan_StartsNoRequest"),
	r("guards_preflight.go", " && !now.Since.Equal(c.t.OwnerRemediation.Since)", "", "TestPreflight_OwnerAskedSincePlan_StartsNoRequest"),
	r("cleanup.go", " || p.s.Check.Cluster == ClusterIsMissing {", " {", "TestOrphan_ClusterNotFound_IsWithdrawn"),
	r("plan.go", "!found && c.underWay && !unwanted", "!found && c.underWay && (unwanted || !unwanted)", "TestPlan_CoveredTarget_KeepsItsHistory"),
	r("plan.go", "d.Block = t.Blocked; d.Block.Reason != \"\"", "false", "TestPlanAgain_BlockedTarget_LeavesItsPlace"),
	r("preflight.go", "plan.Replacing = next.Replacing", "", "TestPlanAgain_NewTarget_IsRecorded"),
	r("owner.go", "case why != \"\":", "case why != \"\" && v.Kind == health.Unhealthy:", "TestPlan_OwnerRemediation_WaitsOrCancels"),
	h("rules.go", " || unverified(condition, t.nodeState())", "", "TestEvaluate_ConnectionDown_IsNoCause"),
	h("rules.go", "return unknown && condition.Reason == connectionDown", "return false", "TestEvaluate_ConnectionDown_IsNoCause"),
	h("rules.go", "return unknown && condition.Reason == connectionDown", "return condition.Reason == connectionDown", "TestEvaluate_ConnectionDown_IsNoCause"),
	h("rules.go", "return unknown\n", "return false\n", "TestEvaluate_ConnectionDown_IsNoCause"),
	h("rules.go", "return node == Unreadable", "return false", "TestEvaluate_ConnectionDown_IsNoCause"),
	h("verdict.go", "f.Rule == UnhealthyMachine && AboutNode(f.Condition)", "false", "TestEvaluate_ConnectionDown_IsNoCause"),
	h("verdict.go", " || f.Rule == HasRemediateAnnotation && f.OnNode", "", "TestFinding_AnnotationOfNode_NeedsNode"),
	h("verdict.go", "f.Rule == HasRemediateAnnotation && f.OnNode", "f.Rule == HasRemediateAnnotation", "TestFinding_AnnotationOfNode_NeedsNode"),
	h("verdict.go", "v.Kind == Healthy && v.Reason == \"\"", "v.Kind == Healthy", "TestRecovered_OnlyFindings_Count"),
}
