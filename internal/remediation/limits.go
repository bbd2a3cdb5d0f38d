// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// Limits are how many targets may be unhealthy. MinHealthy excludes Range and MaxUnhealthy. Without any of them, Default is MaxUnhealthy.
type Limits struct {
	MaxUnhealthy *intstr.IntOrString
	MinHealthy   *intstr.IntOrString
	Range        *Range
	Default      intstr.IntOrString
}

// Range is an unhealthyRange. It includes both ends.
type Range struct {
	Min, Max int
}

// ParseRange reads a range such as [3-5].
func ParseRange(text string) (Range, error) {
	inner, found := strings.CutPrefix(text, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	least, most, _ := strings.Cut(inner, "-")
	low, errLow := strconv.ParseUint(least, 10, 31)
	high, errHigh := strconv.ParseUint(most, 10, 31)
	if !found || !closed || errLow != nil || errHigh != nil || low > high {
		return Range{}, fmt.Errorf("%q must be two numbers in brackets, the lower one first, such as [3-5]", text)
	}
	return Range{Min: int(low), Max: int(high)}, nil
}

// Limit is the effective limit for a number of targets.
type Limit struct {
	// Field and Value are the field of the check that it follows from.
	Field, Value string
	// Min and Max are the numbers of unhealthy targets between which remediation is allowed. Max is negative if there are fewer targets
	// than minHealthy requires.
	Min, Max int
}

// For is the limit for n targets:
//
//	unhealthyRange [a-b]   from a to b for any n; it overrides maxUnhealthy
//	minHealthy   p%        up to n - ceil(p*n/100)     51% of 10: ceil(5.1) = 6 must be healthy, so up to 4 may be unhealthy
//	maxUnhealthy p%        up to floor(p*n/100)        40% of 25: floor(10) = 10; 40% of 6: floor(2.4) = 2
//
// Both are rounded so that they never allow more than the percentage.
func (l Limits) For(n int) Limit {
	switch {
	case l.Range != nil:
		value := fmt.Sprintf("[%d-%d]", l.Range.Min, l.Range.Max)
		return Limit{Field: "unhealthyRange", Value: value, Min: l.Range.Min, Max: l.Range.Max}
	case l.MinHealthy != nil:
		return Limit{Field: "minHealthy", Value: l.MinHealthy.String(), Max: n - roundedUp(*l.MinHealthy, n)}
	}
	most := l.Default
	if l.MaxUnhealthy != nil {
		most = *l.MaxUnhealthy
	}
	return Limit{Field: "maxUnhealthy", Value: most.String(), Max: roundedDown(most, n)}
}

// Allows reports whether remediation is allowed with this many unhealthy targets.
func (l Limit) Allows(unhealthy int) bool {
	return l.Min <= unhealthy && unhealthy <= l.Max
}

// Left is how many more targets can become unhealthy until remediation stops; 0 where it is not allowed.
func (l Limit) Left(unhealthy int) int {
	if !l.Allows(unhealthy) {
		return 0
	}
	return l.Max - unhealthy
}

// LimitState is how many targets are unhealthy, and whether the limit allows remediation.
type LimitState struct {
	Limit     Limit
	Unhealthy int
	Allowed   bool
}

// limitState counts the unhealthy targets, and also returns how many are healthy.
func limitState(s *Situation, a *health.Assessment, p *Policy) (LimitState, int) {
	healthy, unhealthy := 0, 0
	for i := range s.Targets {
		switch {
		case CountsUnhealthy(s, a, p, i):
			unhealthy++
		case a.Verdicts[i].Kind == health.Healthy:
			healthy++
		}
	}
	limit := p.Limits.For(a.Counts.Expected)
	return LimitState{Limit: limit, Unhealthy: unhealthy, Allowed: limit.Allows(unhealthy)}, healthy
}

// CountsUnhealthy reports whether the limit counts a target as unhealthy.
//
//	Machines  all that are not known to be healthy. This includes suspects, and Machines that start or are being deleted.
//	Nodes     the unhealthy ones. Suspects do not count. minHealthy refers to the healthy ones, so with it all others count.
//
// A target with a request counts as unhealthy for both: of 10 targets, 2 that are unhealthy and a third that is healthy again and still has
// its request make 3.
func CountsUnhealthy(s *Situation, a *health.Assessment, p *Policy, i int) bool {
	kind := a.Verdicts[i].Kind
	switch {
	case kind == health.Skipped:
		return false
	case s.Targets[i].Request != nil:
		return true
	case p.Counting == CountNotHealthy || p.Limits.MinHealthy != nil && p.Limits.Range == nil:
		return kind != health.Healthy
	}
	return kind == health.Unhealthy
}

// block is what the guards of the limit report.
func (g *LimitState) block() Block {
	return Block{Details: Details{Cause: g.Limit.Field + "=" + g.Limit.Value, Count: g.Unhealthy, Min: g.Limit.Min, Max: g.Limit.Max}}
}

// Slots is the number of places that maxInFlight allows for n targets. A percentage is rounded up, to at least 1 and at most HighestMaxInFlight:
// 10% of 25 is ceil(2.5) = 3; 10% of 3 is ceil(0.3) = 1. False if there is no limit.
func Slots(maxInFlight *intstr.IntOrString, n int) (int, bool) {
	if maxInFlight == nil {
		return 0, false
	}
	if _, _, ok := split(*maxInFlight); !ok {
		return 1, true
	}
	return min(max(1, roundedUp(*maxInFlight, n)), HighestMaxInFlight), true
}

// HighestMaxInFlight is the highest maxInFlight: an annotation on the check has space for this many names of any length.
const HighestMaxInFlight = 400

// roundedDown is a number, or floor(p*n/100). An invalid value, which admission rejects, is 0.
func roundedDown(value intstr.IntOrString, n int) int {
	number, percent, ok := split(value)
	if !ok || !percent {
		return number
	}
	return number * n / 100
}

// roundedUp is a number, or ceil(p*n/100). An invalid value is n.
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

// split parses a number or a percentage.
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

// next is the storm at this time. It begins when more targets are unhealthy than the limit allows, and ends when the limit was kept for the
// whole cool-down. Too few unhealthy targets for unhealthyRange are not a storm.
func (s Storm) next(gate LimitState, p *Policy, check *Check, now time.Time) Storm {
	tooMany := gate.Unhealthy > gate.Limit.Max
	switch {
	case check.Paused:
		return s
	case p.StormCooldown <= 0 || p.Observe:
		return Storm{}
	case check.Renewing:
		return s
	// The number of unhealthy targets is unknown, so no storm begins or ends.
	case check.Unreachable || check.Reconnecting || check.Uninitialized:
		return Storm{Since: s.Since}
	case tooMany:
		return Storm{Since: recordedTime(s.Since, now)}
	case s.Since.IsZero():
		return Storm{}
	}
	cooling := Storm{Since: s.Since, CooldownSince: recordedTime(s.CooldownSince, now)}
	if !now.Before(cooling.ends(p)) {
		return Storm{}
	}
	return cooling
}

// ends is when the storm ends if the limit is kept; zero while it is not.
func (s Storm) ends(p *Policy) time.Time {
	if s.CooldownSince.IsZero() {
		return time.Time{}
	}
	return s.CooldownSince.Add(p.StormCooldown)
}

// recordedTime is a recorded time, or now if there is none, or if it is from a clock that was ahead.
func recordedTime(note, now time.Time) time.Time {
	if note.IsZero() || note.After(now) {
		return now
	}
	return note
}

// PauseRequested means: pauseRequests of the check block new remediations.
const PauseRequested Reason = "PauseRequested"

func guardPauseRequested(p *planner, _ *Target, _ *candidate) (bool, Block) {
	requests := p.s.Check.PauseRequests
	if len(requests) == 0 {
		return false, Block{}
	}
	return true, Block{Details: Details{Cause: slices.Min(requests), Count: len(requests)}}
}

// TooManyUnhealthy means: more targets are unhealthy than the limit allows.
const TooManyUnhealthy Reason = "TooManyUnhealthy"

func guardTooManyUnhealthy(p *planner, _ *Target, _ *candidate) (bool, Block) {
	gate := &p.plan.LimitState
	return gate.Unhealthy > gate.Limit.Max, gate.block()
}

// TooFewUnhealthy means: fewer targets are unhealthy than unhealthyRange requires.
const TooFewUnhealthy Reason = "TooFewUnhealthy"

func guardTooFewUnhealthy(p *planner, _ *Target, _ *candidate) (bool, Block) {
	gate := &p.plan.LimitState
	return gate.Unhealthy < gate.Limit.Min, gate.block()
}

// InStorm means: more targets were unhealthy than the limit allows, and the cool-down is not over.
const InStorm Reason = "Storm"

func guardInStorm(p *planner, _ *Target, _ *candidate) (bool, Block) {
	storm := p.plan.Storm
	return !storm.Since.IsZero(), Block{Until: storm.ends(p.policy), Details: Details{Since: storm.Since}}
}

// MaxInFlight means: maxInFlight is reached, and the target is queued.
const MaxInFlight Reason = "MaxInFlight"

func guardMaxInFlight(p *planner, t *Target, c *candidate) (bool, Block) {
	// The owner of a control plane replaces one Machine after the other, and needs all of them to be marked.
	if !p.plan.Limited || c.step.Owner && t.ControlPlane {
		return false, Block{}
	}
	return p.plan.Counts.InFlight >= p.plan.Slots, Block{Details: Details{Cause: p.holder.Target, Owner: p.holder.Owner, Count: p.plan.Counts.InFlight, Max: p.plan.Slots}}
}

// ObserveMode means: the check, or the manager, only observes.
const ObserveMode Reason = "ObserveMode"

func guardObserveMode(p *planner, _ *Target, _ *candidate) (bool, Block) {
	return p.policy.Observe, Block{}
}
