// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// next is the storm at this time. It begins when more targets are unhealthy than the limit allows, and ends when the limit was kept for the
// whole cool-down. Too few unhealthy targets for unhealthyRange are not a storm.
func (s Storm) next(gate Gate, p *Policy, check *Check, now time.Time) Storm {
	tooMany := gate.Unhealthy > gate.Limit.Most
	switch {
	case check.Paused:
		return s
	case p.StormCooldown <= 0 || p.Observe:
		return Storm{}
	// The number of unhealthy targets is unknown, so no storm begins or ends.
	case check.Unreachable || check.Reconnecting:
		return Storm{Since: s.Since}
	case tooMany:
		return Storm{Since: noted(s.Since, now)}
	case s.Since.IsZero():
		return Storm{}
	}
	cooling := Storm{Since: s.Since, CooldownSince: noted(s.CooldownSince, now)}
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

// noted is a recorded time, or now if there is none, or if it is from a clock that was ahead.
func noted(note, now time.Time) time.Time {
	if note.IsZero() || note.After(now) {
		return now
	}
	return note
}
