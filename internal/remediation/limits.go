// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Limits say how many targets may be sick before remediation stops. At most one of MinHealthy, and Range or MaxUnhealthy, is given;
// where none is, Default counts as MaxUnhealthy.
type Limits struct {
	MaxUnhealthy *intstr.IntOrString
	MinHealthy   *intstr.IntOrString
	Range        *Range
	Default      intstr.IntOrString
}

// Range is the range within which the number of sick targets must lie, both ends included.
type Range struct {
	Least, Most int
}

// ParseRange reads a range such as [3-5].
func ParseRange(text string) (Range, error) {
	inner, found := strings.CutPrefix(text, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	least, most, split := strings.Cut(inner, "-")
	if !found || !closed || !split {
		return Range{}, fmt.Errorf("%q must be two numbers in brackets, the lower one first, such as [3-5]", text)
	}
	low, errLow := strconv.ParseUint(least, 10, 31)
	high, errHigh := strconv.ParseUint(most, 10, 31)
	if errLow != nil || errHigh != nil || low > high {
		return Range{}, fmt.Errorf("%q must be two numbers in brackets, the lower one first, such as [3-5]", text)
	}
	return Range{Least: int(low), Most: int(high)}, nil
}

// Limit is what the limits come to for a number of targets.
type Limit struct {
	// Field and Value say what it follows from.
	Field, Value string
	// Least and Most are the numbers of sick targets between which remediation is allowed. Most is negative where there are
	// fewer targets than must be healthy.
	Least, Most int
}

// For works out the limit for n targets:
//
//	unhealthyRange [a-b]   from a to b, whatever n is; it wins over maxUnhealthy
//	minHealthy   p%        up to n - ceil(p*n/100)     51% of 10: ceil(5.1) = 6 must be healthy, so up to 4 may be sick
//	maxUnhealthy p%        up to floor(p*n/100)        40% of 25: floor(10) = 10; 40% of 6: floor(2.4) = 2
//
// Both roundings are the careful ones: they never allow a target more than the percentage says.
func (l Limits) For(n int) Limit {
	switch {
	case l.Range != nil:
		value := fmt.Sprintf("[%d-%d]", l.Range.Least, l.Range.Most)
		return Limit{Field: "unhealthyRange", Value: value, Least: l.Range.Least, Most: l.Range.Most}
	case l.MinHealthy != nil:
		return Limit{Field: "minHealthy", Value: l.MinHealthy.String(), Most: n - roundedUp(*l.MinHealthy, n)}
	case l.MaxUnhealthy != nil:
		return Limit{Field: "maxUnhealthy", Value: l.MaxUnhealthy.String(), Most: roundedDown(*l.MaxUnhealthy, n)}
	default:
		return Limit{Field: "maxUnhealthy", Value: l.Default.String(), Most: roundedDown(l.Default, n)}
	}
}

// Allows says whether anything may be remediated while so many targets are sick.
func (l Limit) Allows(sick int) bool {
	return l.Least <= sick && sick <= l.Most
}

// Left is how many more targets could become sick until remediation stops; 0 where it is not allowed.
func (l Limit) Left(sick int) int {
	if !l.Allows(sick) {
		return 0
	}
	return l.Most - sick
}

// Slots is how many targets may be under remediation at the same time, of n: a percentage is rounded up, and never to nothing, as a check
// that may do nothing is what mode: Observe is for. 10% of 25 is ceil(2.5) = 3; 10% of 3 is ceil(0.3) = 1. Nor is it ever more than MostAtOnce.
// False means: as many as there are.
func Slots(maxInFlight *intstr.IntOrString, n int) (int, bool) {
	if maxInFlight == nil {
		return 0, false
	}
	if _, _, ok := split(*maxInFlight); !ok {
		return 1, true
	}
	return min(max(1, roundedUp(*maxInFlight, n)), MostAtOnce), true
}

// MostAtOnce is how many places there are at the most where places are limited. Who is in one has to be remembered on the check, whose annotations
// have room for so many, however long their names are.
const MostAtOnce = 400

// roundedDown is a number, or floor(p*n/100). What is neither counts as 0, the careful end for a limit; admission refuses it.
func roundedDown(value intstr.IntOrString, n int) int {
	number, percent, ok := split(value)
	if !ok || !percent {
		return number
	}
	return number * n / 100
}

// roundedUp is a number, or ceil(p*n/100). What is neither counts as all of them, the careful end for a minimum.
func roundedUp(value intstr.IntOrString, n int) int {
	number, percent, ok := split(value)
	switch {
	case !ok:
		return n
	case !percent:
		return number
	default:
		return (number*n + 99) / 100
	}
}

// split takes a number or a percentage apart.
func split(value intstr.IntOrString) (number int, percent, ok bool) {
	if value.Type == intstr.Int {
		return max(0, value.IntValue()), false, value.IntValue() >= 0
	}
	digits, found := strings.CutSuffix(value.StrVal, "%")
	parsed, err := strconv.ParseUint(digits, 10, 31)
	if !found || err != nil || parsed > 100 {
		return 0, false, false
	}
	return int(parsed), true, true
}
