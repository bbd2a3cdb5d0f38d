//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

const verdicts = "TestEvaluate_Facts_GiveVerdict"

func h(file, from, to, test string) mutant {
	return mutant{file: "internal/health/" + file, from: from, to: to, test: test}
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
	h("gate_paused.go", "Kind: Skipped", "Kind: Undetermined", verdicts),
	h("gate_skip_remediation.go", "Kind: Skipped", "Kind: Undetermined", verdicts),
	h("gate_has_remediate_annotation.go", "Verdict{}, through", "Verdict{}, next", verdicts),
	h("gate_machine_failed.go", "Verdict{}, through", "Verdict{}, next", verdicts),
	h("gate_reconnect_grace_period.go", "now.Before(c.ReconnectingUntil)", "!now.After(c.ReconnectingUntil)", verdicts),
	h("gate_reconnect_grace_period.go", ", Until: c.ReconnectingUntil", "", verdicts),
	h("gate_control_plane_not_initialized.go", "!t.Machine.ControlPlane", "t.Machine.ControlPlane", verdicts),
	h("gate_infrastructure_not_ready.go", " && (t.Machine == nil || !t.Machine.Deleting)", "", verdicts),
	h("gate_infrastructure_not_ready.go", "t.nodeState() == Present", "t.nodeState() != Present", verdicts),

	h("rules.go", "\t{HasRemediateAnnotation, ruleHasRemediateAnnotation}, // an annotation requests it\n", "", verdicts),
	h("rules.go", "\t{MachineFailed, ruleMachineFailed},                   // the Machine has failed\n", "", verdicts),
	h("rules.go", "\t{UnhealthyMachine, ruleUnhealthyMachine},             // a condition of the Machine has lasted too long\n", "", verdicts),
	h("rules.go", "\t{NodeDeleted, ruleNodeDeleted},                       // its Node no longer exists\n", "", verdicts),
	h("rules.go", "\t{NodeStartupTimeout, ruleNodeStartupTimeout},         // its Node has not joined\n", "", verdicts),
	h("rules.go", "\t{UnhealthyNode, ruleUnhealthyNode},                   // a condition of the Node has lasted too long\n", "", verdicts),
	h("rule_has_remediate_annotation.go", "!t.Annotations.Remediate", "t.Annotations.Remediate", verdicts),
	h("rule_machine_failed.go", "Cause: t.Machine.Failure", "Cause: \"\"", "TestEvaluate_SeveralCauses_AreAllReported"),
	h("rule_unhealthy_machine.go", "string(condition.Status) != check.Status", "string(condition.Status) == check.Status", verdicts),
	h("deadline.go", "!known.IsZero()", "!created.IsZero()", verdicts),
	h("rule_node_deleted.go", "recorded.IsZero() || ", "", verdicts),
	h("rule_node_deleted.go", " || recorded.After(now)", "", verdicts),
	h("rule_node_deleted.go", "t.nodeState() != Gone", "t.nodeState() != Gone && t.nodeState() != Unreadable", "TestEvaluate_UnreadableNode_IsUndetermined"),
	h("rule_node_startup_timeout.go", "p.NodeStartupTimeout <= 0", "p.NodeStartupTimeout < 0", verdicts),
	h("rule_node_startup_timeout.go", "if m.Reached {", "if true {", verdicts),
	h("rule_node_startup_timeout.go", "t.nodeState() != NotJoined", "t.nodeState() == Present", verdicts),
	h("rule_unhealthy_node.go", "string(condition.Status) != check.Status", "string(condition.Status) == check.Status", verdicts),
	h("rule_unhealthy_node.go", "if t.nodeState() != Present {", "if t.nodeState() == Gone {", verdicts),

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
