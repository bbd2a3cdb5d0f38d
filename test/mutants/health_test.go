//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

const verdicts = "TestEvaluate_Facts_GiveVerdict"

func h(file, from, to, test string) mutant {
	return mutantIn("internal/health", file, from, to, test)
}

var health = []mutant{
	h("deadline.go", "!now.Before(f.Due)", "now.After(f.Due)", verdicts),
	h("deadline.go", "max(lasting, 0)", "lasting", verdicts),
	h("deadline.go", "since.Add(f.Lasting)", "since", verdicts),
	h("deadline.go", "!b.IsZero() && b.Before(a)", "b.Before(a)", "TestEarliestAndLatest_ZeroTime_IsIgnored"),
	h("deadline.go", "if b.After(a) {", "if true {", "TestEarliestAndLatest_ZeroTime_IsIgnored"),
	h("deadline.go", "b.Before(a)", "a.Before(b)", verdicts),
	h("deadline.go", "b.After(a)", "a.After(b)", verdicts),

	h("gates.go", "\t{Paused, gatePaused},\n", "", verdicts),
	h("gates.go", "\t{SkipRemediation, gateSkipRemediation},\n", "", verdicts),
	h("gates.go", "\t{HasRemediateAnnotation, gateHasRemediateAnnotation},\n", "", verdicts),
	h("gates.go", "\t{MachineFailed, gateMachineFailed},\n", "", verdicts),
	h("gates.go", "\t{ReconnectGracePeriod, gateReconnectGracePeriod},\n", "", verdicts),
	h("gates.go", "\t{ControlPlaneNotInitialized, gateControlPlaneNotInitialized},\n", "", verdicts),
	h("gates.go", "\t{InfrastructureNotReady, gateInfrastructureNotReady},\n", "", verdicts),
	h("gates.go", "\t{Paused, gatePaused},\n\t{SkipRemediation, gateSkipRemediation},\n", "\t{SkipRemediation, gateSkipRemediation},\n\t{Paused, gatePaused},\n", verdicts),
	h("gates.go:gatePaused", "Kind: Skipped", "Kind: Undetermined", verdicts),
	h("gates.go:gateSkipRemediation", "Kind: Skipped", "Kind: Undetermined", verdicts),
	h("gates.go:gateHasRemediateAnnotation", "Verdict{}, through", "Verdict{}, next", verdicts),
	h("gates.go:gateMachineFailed", "Verdict{}, through", "Verdict{}, next", verdicts),
	h("gates.go", "now.Before(c.ReconnectingUntil)", "!now.After(c.ReconnectingUntil)", verdicts),
	h("gates.go", ", Until: c.ReconnectingUntil", "", verdicts),
	h("gates.go", "!t.Machine.ControlPlane", "t.Machine.ControlPlane", verdicts),
	h("gates.go", " && (t.Machine == nil || !t.Machine.Deleting)", "", verdicts),
	h("gates.go", "t.nodeState() == Present", "t.nodeState() != Present", verdicts),

	h("rules.go", "\t{HasRemediateAnnotation, ruleHasRemediateAnnotation}, // an annotation requests it\n", "", verdicts),
	h("rules.go", "\t{MachineFailed, ruleMachineFailed},                   // the Machine has failed\n", "", verdicts),
	h("rules.go", "\t{UnhealthyMachine, ruleUnhealthyMachine},             // a condition of the Machine has lasted too long\n", "", verdicts),
	h("rules.go", "\t{NodeDeleted, ruleNodeDeleted},                       // its Node no longer exists\n", "", verdicts),
	h("rules.go", "\t{NodeStartupTimeout, ruleNodeStartupTimeout},         // its Node has not joined\n", "", verdicts),
	h("rules.go", "\t{UnhealthyNode, ruleUnhealthyNode},                   // a condition of the Node has lasted too long\n", "", verdicts),
	h("rules.go", "!t.Annotations.Remediate", "t.Annotations.Remediate", verdicts),
	h("rules.go", "Cause: t.Machine.Failure", "Cause: \"\"", "TestEvaluate_SeveralCauses_AreAllReported"),
	h("rules.go:ruleUnhealthyMachine", "string(condition.Status) != check.Status", "string(condition.Status) == check.Status", verdicts),
	h("deadline.go", "!known.IsZero()", "!created.IsZero()", verdicts),
	h("rules.go", "recorded.IsZero() || ", "", verdicts),
	h("rules.go", " || recorded.After(now)", "", verdicts),
	h("rules.go", "t.nodeState() != Gone", "t.nodeState() != Gone && t.nodeState() != Unreadable", "TestEvaluate_UnreadableNode_IsUndetermined"),
	h("rules.go", "p.NodeStartupTimeout <= 0", "p.NodeStartupTimeout < 0", verdicts),
	h("rules.go", "if m.Reached {", "if true {", verdicts),
	h("rules.go", "t.nodeState() != NotJoined", "t.nodeState() == Present", verdicts),
	h("rules.go:ruleUnhealthyNode", "string(condition.Status) != check.Status", "string(condition.Status) == check.Status", verdicts),
	h("rules.go", "since = Latest(since, t.notReadySince())", "_ = t", "TestEvaluate_CopiedCondition_CountsFromTheNode"),
	h("rules.go", " && c.Status != corev1.ConditionTrue && ", " && ", "TestEvaluate_CopiedCondition_CountsFromTheNode"),
	h("rules.go", " && !c.LastHeartbeatTime.IsZero()", "", "TestEvaluate_CopiedCondition_CountsFromTheNode"),
	h("rules.go", "if t.nodeState() != Present {", "if t.nodeState() == Gone {", verdicts),

	h("snapshot.go", "t.Machine.ProviderID != t.Node.ProviderID", "t.Machine.ProviderID == t.Node.ProviderID", verdicts),
	h("snapshot.go", "t.Machine.ProviderID != \"\" && t.Node.ProviderID != \"\"", "true", verdicts),
	h("verdict.go", "if kind != Skipped {", "if true {", "TestEvaluate_Counts_AddUp"),
	h("evaluate.go", "\t\ta.WakeUp = Earliest(a.WakeUp, verdict.Until)\n", "", verdicts),
	h("evaluate.go", "case t.Machine != nil && t.Machine.Deleting:", "case false:", verdicts),
	h("evaluate.go", "case t.nodeState() == Present:", "case t.nodeState() == Present || t.nodeState() == Unreadable:", "TestEvaluate_UnreadableNode_IsUndetermined"),
	h("evaluate.go", "if f.Met != met {", "if f.Met == met {", verdicts),
	h("evaluate.go", "v.Since = Earliest(v.Since, f.Since)", "v.Since = f.Since", verdicts),
	h("evaluate.go", "v.Until = Earliest(v.Until, f.Due)", "v.Until = f.Due", verdicts),
	h("evaluate.go", "[]bool{true, false}", "[]bool{false, true}", "TestEvaluate_SeveralCauses_AreAllReported"),
}
