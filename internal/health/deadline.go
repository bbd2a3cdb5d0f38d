// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// deadline makes a finding of a trouble that began at since and has to last: it is met from the very moment on at which it has lasted that long.
func deadline(f Finding, since time.Time, lasting time.Duration, now time.Time) Finding {
	f.Since, f.Lasting = since, max(lasting, 0)
	f.Due = since.Add(f.Lasting)
	f.Met = !now.Before(f.Due)
	return f
}

// earliest is the earlier of two times, of which either may be unknown.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// latest is the later of two times.
func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// began is when a condition got its status. Where nobody wrote it down, it was not before its object was there: that is the most that
// can be said, and without it the trouble would seem to have lasted since the beginning of time.
func began(transition, created time.Time) time.Time {
	if transition.IsZero() {
		return created
	}
	return transition
}
