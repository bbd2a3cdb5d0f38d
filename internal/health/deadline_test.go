// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestEarliestAndLatest_ZeroTime_IsIgnored(t *testing.T) {
	g := NewWithT(t)
	sooner, later := time.Unix(1, 0), time.Unix(2, 0)
	g.Expect(Earliest(later, sooner)).To(Equal(sooner))
	g.Expect(Earliest(sooner, later)).To(Equal(sooner))
	g.Expect(Earliest(time.Time{}, later)).To(Equal(later))
	g.Expect(Earliest(later, time.Time{})).To(Equal(later))
	g.Expect(Latest(later, sooner)).To(Equal(later))
	g.Expect(Latest(sooner, later)).To(Equal(later))
	g.Expect(Latest(time.Time{}, later)).To(Equal(later))
}

// A status with one of these times is rejected as a whole.
func TestKnownTime_OutsideOfAPI_IsUnknown(t *testing.T) {
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339, text)
		NewWithT(t).Expect(err).ToNot(HaveOccurred())
		return parsed
	}
	for text, known := range map[string]bool{
		"0000-01-01T00:00:00+14:00": false, // In UTC it is in the year -1.
		"1969-12-31T23:59:59Z":      false,
		"1970-01-01T00:00:00+01:00": false,
		"1970-01-01T00:00:00Z":      true,
		"9999-12-31T23:59:59Z":      true,
		"9999-12-31T23:59:59-14:00": false, // In UTC it is in the year 10000.
	} {
		NewWithT(t).Expect(KnownTime(at(text), time.Time{}).IsZero()).To(Equal(!known), text)
	}
	created := at("2026-01-01T00:00:00Z")
	NewWithT(t).Expect(KnownTime(created, created)).To(Equal(created))
	NewWithT(t).Expect(KnownTime(created.Add(-time.Second), created)).To(BeZero())
}
