//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

func r(file, from, to, test string) mutant {
	return mutantIn("internal/remediation", file, from, to, test)
}

const limit = "TestLimit_Values_AreRounded"

var remediation = []mutant{
	r("limits.go", "low > high", "low < high", "TestParseRange_Text_IsParsedOrRejected"),
	r("limits.go", "case l.Range != nil:", "case l.Range != nil && l.MaxUnhealthy == nil:", limit),
	r("limits.go", "n - roundedUp(*l.MinHealthy, n)", "n - roundedDown(*l.MinHealthy, n)", limit),
	r("limits.go", "Max: roundedDown(most, n)", "Max: roundedUp(most, n)", limit),
	r("limits.go", "most := l.Default", "most := intstr.FromInt32(int32(n))", limit),
	r("limits.go", "l.Min <= unhealthy", "l.Min < unhealthy", limit),
	r("limits.go", "unhealthy <= l.Max", "unhealthy < l.Max", limit),
	r("limits.go", "if !l.Allows(unhealthy) {", "if l.Allows(unhealthy) {", limit),
	r("limits.go", "max(1, roundedUp(*maxInFlight, n))", "roundedUp(*maxInFlight, n)", "TestSlots_MaxInFlight_IsRoundedUp"),
	r("limits.go", "number * n / 100", "(number*n + 99) / 100", "TestPercentages_Rounding_MatchesKubernetes"),
	r("limits.go", "(number*n + 99) / 100", "number * n / 100", "TestPercentages_Rounding_MatchesKubernetes"),
	r("limits.go", "\tcase !ok:\n\t\treturn n\n", "\tcase !ok:\n\t\treturn 0\n", limit),
	r("limits.go", "min(max(1, roundedUp(*maxInFlight, n)), HighestMaxInFlight)", "max(1, roundedUp(*maxInFlight, n))", "TestSlots_MaxInFlight_IsRoundedUp"),
	r("limits.go", "parsed > 100", "parsed > 1000", limit),
	r("limits.go", "value.IntValue() >= 0", "true", limit),
	r("guards_control_plane.go", "n/2+1", "n/2", "TestKeepsQuorum_Members_NeedMajority"),
	r("guards_control_plane.go", "n/2+1", "(n+1)/2", "TestKeepsQuorum_Members_NeedMajority"),
	r("escalation.go", "failures <= 0", "failures < 0", "TestBackoff_Failures_DoubleUpToLimit"),
	r("escalation.go", "wait > b.Limit/2", "wait > b.Limit", "TestBackoff_Failures_DoubleUpToLimit"),
	r("escalation.go", "wait *= 2", "wait += b.Initial", "TestBackoff_Failures_DoubleUpToLimit"),
	r("escalation.go", "min(wait, b.Limit)", "wait", "TestBackoff_Failures_DoubleUpToLimit"),
}
