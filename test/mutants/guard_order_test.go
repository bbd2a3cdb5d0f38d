//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

import (
	"slices"
	"strings"
)

const (
	sayIn  = "TestGuard_StepInScope_IsBlocked"
	before = "TestGuards_SeveralBlock_FirstIsReported"
)

// The table of guards, as it stands there.
const guardTable = `	{Paused, allActions, guardPaused},
	{CheckDeleting, allActions, guardCheckDeleting},
	{ClusterNotFound, allActions, guardClusterNotFound},
	{ClusterDeleting, allActions, guardClusterDeleting},
	{ManagedByOtherCheck, allActions, guardManagedByOtherCheck},
	// The target and its owner.
	{StuckDeleting, allActions, guardStuckDeleting},
	{Terminating, allActions, guardTerminating},
	{NoStepForCondition, allActions, guardNoStepForCondition},
	{Excluded, allActions, guardExcluded},
	{NoRemediatingOwner, ownerSteps, guardNoRemediatingOwner},
	{OwnerRefuses, ownerSteps, guardOwnerRefuses},
	// Temporary, for all targets.
	{PauseRequested, allActions, guardPauseRequested},
	{ClockSkew, allActions, guardClockSkew},
	{ReconnectGracePeriod, allActions, guardReconnectGracePeriod},
	{ClusterUnreachable, allActions, guardClusterUnreachable},
	{TooManyUnhealthy, allActions, guardTooManyUnhealthy},
	{TooFewUnhealthy, allActions, guardTooFewUnhealthy},
	{InStorm, allActions, guardInStorm},
	// Temporary, for this target.
	{AnnotationNotRemoved, requestSteps, guardAnnotationNotRemoved},
	{EscalationExhausted, requestSteps, guardEscalationExhausted},
	{InBackoff, requestSteps, guardInBackoff},
	{TemplateNotResolved, requestSteps, guardTemplateNotResolved},
	{NoMachine, requestSteps, guardNoMachine},
	{RequestNameConflict, requestSteps, guardRequestNameConflict},
	{NodeLeaseHeld, requestSteps, guardNodeLeaseHeld},
	// The control plane.
	{ControlPlaneBusy, requestSteps, guardControlPlaneBusy},
	{QuorumUnknown, requestSteps, guardQuorumUnknown},
	{SingleControlPlane, requestSteps, guardSingleControlPlane},
	{QuorumAtRisk, requestSteps, guardQuorumAtRisk},
	{MaxInFlight, allActions, guardMaxInFlight},
	// The last one, so that an observing check reports what else would block.
	{ObserveMode, allActions, guardObserveMode},
`

// guardMutants are the table without each of its rows, and with each row in the place of the next one.
func guardMutants() []mutant {
	lines := strings.SplitAfter(strings.TrimSuffix(guardTable, "\n"), "\n")
	lines[len(lines)-1] += "\n"
	var all []mutant
	last := -1
	for i, line := range lines {
		if strings.HasPrefix(line, "\t//") {
			continue
		}
		all = append(all, r("guards.go", line, "", sayIn))
		if last >= 0 && !neverBoth(lines[last], line) {
			between := strings.Join(lines[last+1:i], "")
			all = append(all, r("guards.go", lines[last]+between+line, line+between+lines[last], orderTest(lines[last])))
		}
		last = i
	}
	return all
}

// neverBoth reports whether at most one of two neighbors blocks, so that their order does not matter.
func neverBoth(one, other string) bool {
	return slices.ContainsFunc([][2]string{{"{ClusterNotFound,", "{ClusterDeleting,"}, {"{TooManyUnhealthy,", "{TooFewUnhealthy,"}, {"{QuorumUnknown,", "{SingleControlPlane,"}}, func(pair [2]string) bool {
		return strings.Contains(one, pair[0]) && strings.Contains(other, pair[1])
	})
}

// orderTest is the test that sees a row in the place of the next one. Some rows are special cases of the next one.
func orderTest(row string) string {
	for _, special := range []string{"{StuckDeleting,", "{EscalationExhausted,", "{SingleControlPlane,"} {
		if strings.Contains(row, special) {
			return sayIn
		}
	}
	return before
}
