// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// deadline completes a finding that began at since: it is met when it has lasted for lasting.
func deadline(f Finding, since time.Time, lasting time.Duration, now time.Time) Finding {
	f.Since, f.Lasting = since, max(lasting, 0)
	f.Due = since.Add(f.Lasting)
	f.Met = !now.Before(f.Due)
	return f
}

// Earliest is the earlier of two times, of which either may be zero for none.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// Latest is the later of two times.
func Latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// began is when a condition got its status. If that is unknown, or before earliest, it is when the object was created.
func began(transition, earliest, created time.Time) time.Time {
	if known := KnownTime(transition, earliest); !known.IsZero() {
		return known
	}
	return created
}

// KnownTime returns a time that another component has written about an object; zero if the time is unknown. A time before created is
// unknown, and a time outside 1970 to 9999 UTC, which no API server accepts in a status. Every such time passes this function.
func KnownTime(t, created time.Time) time.Time {
	if year := t.UTC().Year(); year < 1970 || year > 9999 || t.Before(created) {
		return time.Time{}
	}
	return t
}
