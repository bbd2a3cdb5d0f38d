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
const guardTable = `	{Paused, anything, guardPaused},
	{CheckDeleting, anything, guardCheckDeleting},
	{ClusterNotFound, anything, guardClusterNotFound},
	{ClusterDeleting, anything, guardClusterDeleting},
	{ManagedByOtherCheck, anything, guardManagedByOtherCheck},
	// The target and its owner.
	{StuckDeleting, anything, guardStuckDeleting},
	{Terminating, anything, guardTerminating},
	{Excluded, anything, guardExcluded},
	{NoRemediatingOwner, marks, guardNoRemediatingOwner},
	{OwnerRefuses, marks, guardOwnerRefuses},
	// Temporary, for all targets.
	{PauseRequested, anything, guardPauseRequested},
	{ClusterUnreachable, anything, guardClusterUnreachable},
	{TooManyUnhealthy, anything, guardTooManyUnhealthy},
	{TooFewUnhealthy, anything, guardTooFewUnhealthy},
	{InStorm, anything, guardInStorm},
	// Temporary, for this target.
	{AnnotationNotRemoved, requests, guardAnnotationNotRemoved},
	{EscalationExhausted, requests, guardEscalationExhausted},
	{InBackoff, requests, guardInBackoff},
	{TemplateNotResolved, requests, guardTemplateNotResolved},
	{RequestNameConflict, requests, guardRequestNameConflict},
	{NodeLeaseHeld, requests, guardNodeLeaseHeld},
	// The control plane.
	{ControlPlaneBusy, requests, guardControlPlaneBusy},
	{QuorumUnknown, requests, guardQuorumUnknown},
	{SingleControlPlane, requests, guardSingleControlPlane},
	{QuorumAtRisk, requests, guardQuorumAtRisk},
	{MaxInFlight, anything, guardMaxInFlight},
	// The last one, so that an observing check reports what else would block.
	{ObserveMode, anything, guardObserveMode},
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
