// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// storm is the storm as it is now. It begins when more targets are sick than the limit allows, and is over when the limit has been kept
// again for the whole cool-down. Too few sick targets for a range are no storm.
func (s Storm) next(gate Gate, p *Policy, check *Check, now time.Time) Storm {
	tooMany := gate.Sick > gate.Limit.Most
	switch {
	case check.Frozen:
		return s
	case p.StormCooldown <= 0 || p.Observe:
		return Storm{}
	// Nobody knows how many are sick in a cluster that cannot be read: no storm begins by that, and none ends.
	case check.Unreachable || check.FirstLook:
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

// active says whether there is one.
func (s Storm) active() bool {
	return !s.Since.IsZero()
}

// ends is when it will be over if the limit is kept; zero as long as that is not so.
func (s Storm) ends(p *Policy) time.Time {
	if s.CooldownSince.IsZero() {
		return time.Time{}
	}
	return s.CooldownSince.Add(p.StormCooldown)
}

// noted is a time that was noted down, or now. A note from a clock that was ahead would make everybody wait for that clock.
func noted(note, now time.Time) time.Time {
	if note.IsZero() || note.After(now) {
		return now
	}
	return note
}
