//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

const (
	inOrder = "TestStep_Workload_IsReleasedInOrder"
	waits   = "TestStep_Release_WaitsAndTimesOut"
	storage = "TestStep_Storage_IsReleasedAndGivenBack"
	dump    = "TestStep_KernelDump_ProvesWhileItLasts"
	drained = "TestStep_Drain_PrecedesFence"
	acked   = "TestStep_Confirmation_IsEvidence"
)

// releases are mutants of the release, the drain and the recovery of a fence.
var releases = []mutant{
	// A new boot is no evidence: the kubelet starts Pods that are bound to the Node again.
	f("release.go:prove", "case m.Confirmed, ", "case m.Confirmed, s.otherBoot(), ", explored+"release,_kubelet_returns"),
	f("release.go:prove", "case m.Confirmed, ", "case true, ", explored+"release,_person_at_the_switch"),
	f("release.go:terminate", "\t\ts.forgetAnswers()\n", "", "TestStep_PodAfterProof_IsProvenAgain"),
	f("release.go:terminate", "case workload.Staying == 0:", "case true:", explored+"release"),
	f("release.go:silent", "s.o.Node.State == NodePresent && s.o.Node.Ready == corev1.ConditionUnknown", "true", explored+"release,_row_of_a_neighbor"),
	f("release.go:silent", "s.o.Node.Ready == corev1.ConditionUnknown", "s.o.Node.Ready != corev1.ConditionTrue", explored+"release,_row_of_a_neighbor"),
	f("release.go:unfences", "|| !s.removes() ", "|| true ", explored+"release_of_storage"),
	f("release.go:scope", "s.r.Evidence.Class == fencingv1.EvidenceStorageIsolation", "false", explored+"release_of_storage"),
	f("release.go:disproved", "s.r.Evidence = nil; ", "s.r.Release = nil; ", explored+"person_at_the_switch"),
	f("release.go:prove", "case !s.known(name):", "case false:", "TestStep_SecondAnswer_DecidesRelease"),
	f("release.go:remove", "case !s.silent():", "case false:", "TestStep_ReportsAfterProof_IsNotReleased"),
	f("step.go:ownTaint", "s.r.Release.OutOfServiceTaint", "true", inOrder),

	f("step.go:ownTaint", ", s.o.Node.Marked", "", "TestStep_TwoFences_RemoveTheirOwnTaint"),
	f("release.go:release", "case s.o.withdrawn():", "case false:", storage),
	f("release.go:release", "!SwitchedOff(s.r) && !s.removes()", "!s.removes()", "TestStep_AfterOff_GoesOnToItsEnd"),
	f("release.go:release", "\tif s.booted() {", "\tif false {", "TestStep_SecondAnswer_DecidesRelease"),
	f("release.go:terminate", "!s.now.Before(s.r.Since.Add(releaseTimeout(s.o.Spec)))", "false", waits),
	f("release.go:terminate", "!s.now.Before(s.r.Since.Add(releaseTimeout(s.o.Spec)))", "s.now.After(s.r.Since.Add(releaseTimeout(s.o.Spec)))", waits),
	f("release.go:terminate", "case workload == nil:", "case workload == nil && false:", waits),
	f("release.go:terminate", "workload.Pods == 0 && workload.Attachments == 0", "workload.Pods == 0", inOrder),
	f("release.go:terminate", "workload.Pods == 0 && workload.Attachments == 0", "workload.Attachments == 0", storage),
	f("release.go:terminate", "case !s.silent():", "case false:", waits),
	f("release.go:terminate", "release.Scope == fencingv1.ScopeStorage || ", "", storage),
	f("release.go:terminate", " || s.o.Spec.Release.PodsPerSecond > 0", "", "TestStep_PodsPerSecond_LimitsTermination"),
	f("release.go:terminate", "case !s.o.Node.Evicts:", "case true:", waits),
	f("release.go:terminate", "int32(workload.Pods)", "int32(workload.Staying)", inOrder),
	f("release.go:prove", "case s.removes(), ", "case ", inOrder),
	f("release.go:prove", "&& needed && !s.confirmedOff()", "&& needed && false", acked),
	f("release.go:prove", "m.Power == fencingv1.PowerOn, ", "", "TestStep_SecondAnswer_DecidesRelease"),
	f("release.go:prove", ", dumps && m.Power == fencingv1.PowerUnknown", "", dump),
	f("release.go:prove", "!needed && (s.exhausted(m)", "(s.exhausted(m)", "TestStep_SecondAnswer_DecidesRelease"),
	f("release.go:prove", "\t\tcase s.exhausted(m):\n", "\t\tcase false:\n", "TestStep_SecondAnswer_DecidesRelease"),
	f("release.go:prove", "s.exhausted(m) || dumps", "dumps", "TestStep_SecondAnswer_IsAskedFor"),
	f("release.go:prove", "!needed && (s.o.Plan == nil || s.o.TargetGone)", "!needed && s.o.Plan == nil", "TestStep_SecondAnswer_IsAskedFor"),
	f("release.go:prove", "\t\tcase dumps:\n", "\t\tcase false:\n", dump),
	f("release.go:prove", "\t\ts.r.Release.ProvenAt = s.time()\n", "", inOrder),
	f("release.go:disproved", "return s.fail(ReasonNotIsolated)", "s.r.Retries = 0", storage),
	f("release.go:disproved", "s.r.Evidence = nil; ", "s.r.Release = nil; ", "TestStep_SecondAnswer_IsAskedFor"),
	f("release.go:remove", "overdue := !s.now.Before", "overdue := s.now.Before", waits),
	f("release.go:remove", "workload.Pods == 0 && workload.Attachments == 0", "workload.Attachments == 0", waits),
	f("release.go:remove", "\t\t\trelease.Left = workload.Names\n", "\t\t\trelease.Left = nil\n", waits),
	f("release.go:remove", "case workload.Staying > 0 && !release.OutOfServiceTaint:", "case false:", "TestStep_PodAfterProof_IsProvenAgain"),
	f("release.go:remove", "release.TerminatingAt, release.ProvenAt, s.r.Since = nil, nil, s.time()", "release.ProvenAt = nil", "TestStep_PodAfterProof_IsProvenAgain"),
	f("release.go:remove", "case release.Scope == fencingv1.ScopeStorage:", "case false:", storage),
	f("release.go:remove", "case !s.o.Node.OutOfService:", "case true:", inOrder),
	f("release.go:notReleased", "s.o.Node.State == NodePresent && !s.silent()", "false", waits),
	f("release.go:unfences", "|| s.otherBoot() ", "", storage),
	f("release.go:unfences", " || s.confirmedOff()", "", storage),
	f("release.go:confirmedOff", "s.o.ConfirmedOff == s.r.Node.UID", `s.o.ConfirmedOff != ""`, acked),
	f("scope.go:toRelease", "spec.Release.Policy != fencingv1.ReleaseNone && ", "", inOrder),
	f("scope.go:NeedsWorkload", "r.Evidence.Class == fencingv1.EvidenceStorageIsolation", "false", "TestNeedsWorkload_NamesPods"),
	f("scope.go:NeedsWorkload", " && r.Drained == nil", "", "TestNeedsWorkload_NamesPods"),

	f("off.go:isolated", " && s.o.Spec.Release.Policy != fencingv1.ReleaseNone", "", "TestNeedsWorkload_NamesPods"),
	f("off.go:switchOff", "if s.confirmedOff() {", "if false {", "TestStep_ConfirmedAfterOff_PersonSwitchesOn"),
	f("off.go:switchOff", "s.dumps(name) && m.Ran == nil", "s.dumps(name)", dump),
	f("off.go:switchOff", "if s.dumps(level[0]) {", "if false {", dump),
	f("off.go:commit", "s.nodeReady() && s.r.Drained == nil", "s.nodeReady()", "TestStep_DrainedNode_IsSwitchedOffWhileReady"),
	f("action.go:settle", " && s.r.Drained == nil", "", "TestStep_DrainedNode_IsSwitchedOffWhileReady"),
	f("action.go:begin", " && !s.dumps(m.Name)", "", dump),
	f("action.go:toSwitchOn", "always && m.PowerBefore == fencingv1.PowerOff", "always && false", "TestStep_PowerOn_IsAsRequested"),
	f("action.go:toSwitchOn", "use == fencingv1.StepPowerManagement && s.o.Spec.PowerOn == fencingv1.PowerOnNever", "false", "TestStep_PowerOn_IsAsRequested"),
	f("admission.go:blocked", " && o.Spec.Drain == nil", "", drained),
	f("drain.go:whileReady", "s.r.Drained != nil, ", "", drained),
	f("drain.go:whileReady", ", !drains && len(s.o.Plan.Levels) == 0", "", "TestStep_Devices_ActionsAreExact"),
	f("drain.go:whileReady", "case !drains:", "case true:", drained),
	f("drain.go:whileReady", "case s.r.Step == fencingv1.StepIsolation:", "case true:", "TestStep_ReadyAgain_IsDrained"),
	f("drain.go:drain", "overdue := !s.now.Before(until)", "overdue := s.now.After(until)", drained),
	f("drain.go:drain", "workload.Pods == 0", "workload.Staying == 0", drained),
	f("drain.go:drain", "overdue && drain.AfterTimeout == fencingv1.ContinueFence", "overdue", drained),
	f("drain.go:drain", "\t\t\ts.r.PodsLeft = workload.Names\n", "\t\t\ts.r.PodsLeft = nil\n", drained),
	f("recovery.go:switchOn", "acknowledged && (!s.known(m.Name) || s.exhausted(m))", "acknowledged && false", "TestStep_ConfirmedAfterOff_PersonSwitchesOn"),
	f("recovery.go:staysAsItIs", "s.o.Spec.PowerOn == fencingv1.PowerOnNever && SwitchedOff(s.r)", "false", "TestStep_PowerOn_IsAsRequested"),
	f("recovery.go:staysAsItIs", " || m.OnSucceeded != nil", "", "TestStep_PowerOn_IsAsRequested"),
	f("recovery.go:staysAsItIs", " && (s.r.Evidence == nil || s.r.Evidence.Class != fencingv1.EvidenceKernelDump)", "", dump),
	f("recovery.go:keptAsItWas", "s.nodeReady() && s.unfences() && ", "s.nodeReady() && ", storage),
	f("recovery.go:undo", "case use == fencingv1.StepIsolation && !s.unfences(),", "case", storage),
	f("recovery.go:undo", "!s.unfences() && s.o.Node.State == NodeUnreadable", "false", storage),
	f("recovery.go:runRecovery", "s.r.Rejoined == nil || ", "", "TestStep_Recovery_RunsBeforeWorkload"),
	f("recovery.go:runRecovery", "s.lenient() || ", "", "TestStep_Recovery_RunsBeforeWorkload"),
	f("recovery.go:runRecovery", "!slices.ContainsFunc(s.r.Methods, used)", "false && !slices.ContainsFunc(s.r.Methods, used)", "TestStep_Recovery_RunsBeforeWorkload"),
	f("recovery.go:runRecovery", "case m.Ran != nil:", "case false:", "TestStep_Recovery_RunsBeforeWorkload"),
	f("recovery.go:failed", " && s.r.Evidence == nil && s.r.Rejoined == nil", " && false", acked),
	f("recovery.go:restart", "s.r.Evidence.Class == fencingv1.EvidenceKernelDump", "false", dump),
	f("recovery.go:restart", "case toRelease(s.r, s.o.Spec):", "case false:", "TestStep_ReleaseFails_IsContinued"),
}
