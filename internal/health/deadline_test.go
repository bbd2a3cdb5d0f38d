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
