// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

func percent(text string) *intstr.IntOrString { v := intstr.FromString(text); return &v }
func number(n int32) *intstr.IntOrString      { v := intstr.FromInt32(n); return &v }

// Every example with a number in the proposals is a row here, with the document it is from.
func TestLimit_Values_AreRounded(t *testing.T) {
	machines, nodes := intstr.FromString("100%"), intstr.FromString("49%")
	tests := []struct {
		why    string
		limits Limits
		of     int
		yes    []int
		no     []int
	}{
		{why: "003: 40% of 25 is 10", limits: Limits{MaxUnhealthy: percent("40%")}, of: 25, yes: []int{0, 10}, no: []int{11, 25}},
		{why: "003: 40% of 6 is 2, rounded down", limits: Limits{MaxUnhealthy: percent("40%")}, of: 6, yes: []int{2}, no: []int{3}},
		{why: "003: maxUnhealthy 2, whatever is checked", limits: Limits{MaxUnhealthy: number(2)}, of: 1000, yes: []int{2}, no: []int{3}},
		{why: "003: [3-5] of 10", limits: Limits{Range: &Range{3, 5}}, of: 10, yes: []int{3, 4, 5}, no: []int{2, 6}},
		{
			why: "000: a range wins over maxUnhealthy", limits: Limits{Range: &Range{3, 5}, MaxUnhealthy: number(1)}, of: 10, yes: []int{3},
			no: []int{1},
		},
		{why: "003: 100% of the control plane", limits: Limits{MaxUnhealthy: percent("100%")}, of: 3, yes: []int{3}},
		{why: "001, 002: 49% is the default of Nodes", limits: Limits{Default: nodes}, of: 100, yes: []int{49}, no: []int{50}},
		{why: "001, 002: 49% of 2 rounds to none", limits: Limits{Default: nodes}, of: 2, yes: []int{0}, no: []int{1}},
		{why: "001: 30% of 10", limits: Limits{MaxUnhealthy: percent("30%")}, of: 10, yes: []int{3}, no: []int{4}},
		{why: "no limit is the default of Machines", limits: Limits{Default: machines}, of: 7, yes: []int{7}},
		{why: "33% of 3 rounds to none", limits: Limits{MaxUnhealthy: percent("33%")}, of: 3, yes: []int{0}, no: []int{1}},
		{why: "0 lets nothing be remediated, and nothing is", limits: Limits{MaxUnhealthy: number(0)}, of: 3, yes: []int{0}, no: []int{1}},
		{why: "51% of 10 must be healthy: 6, rounded up", limits: Limits{MinHealthy: percent("51%")}, of: 10, yes: []int{4}, no: []int{5}},
		{why: "75% of 10 must be healthy: 8", limits: Limits{MinHealthy: percent("75%")}, of: 10, yes: []int{2}, no: []int{3}},
		{why: "3 must be healthy, of 5", limits: Limits{MinHealthy: number(3)}, of: 5, yes: []int{2}, no: []int{3}},
		{why: "3 must be healthy, and there are only 2", limits: Limits{MinHealthy: number(3)}, of: 2, no: []int{0, 1, 2}},
		{why: "of no targets none is too many", limits: Limits{MaxUnhealthy: percent("40%")}, of: 0, yes: []int{0}, no: []int{1}},
		{why: "what is no number is no allowance", limits: Limits{MaxUnhealthy: percent("40")}, of: 10, yes: []int{0}, no: []int{1}},
		{why: "nor is it a small minimum", limits: Limits{MinHealthy: percent("many")}, of: 10, yes: []int{0}, no: []int{1}},
		{why: "nor is a negative one", limits: Limits{MinHealthy: number(-1)}, of: 10, yes: []int{0}, no: []int{1}},
		{why: "nor is more than everything", limits: Limits{MaxUnhealthy: percent("140%")}, of: 10, yes: []int{0}, no: []int{1}},
		{why: "nor is less than nothing", limits: Limits{MaxUnhealthy: number(-1)}, of: 10, yes: []int{0}, no: []int{1}},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			limit := test.limits.For(test.of)
			for _, sick := range test.yes {
				g.Expect(limit.Allows(sick)).To(BeTrue(), "%d unhealthy", sick)
				g.Expect(limit.Left(sick)).To(Equal(limit.Max - sick))
			}
			for _, sick := range test.no {
				g.Expect(limit.Allows(sick)).To(BeFalse(), "%d unhealthy", sick)
				g.Expect(limit.Left(sick)).To(BeZero())
			}
		})
	}
}

func TestLimit_Field_IsReported(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Limits{Range: &Range{3, 5}}.For(10)).To(Equal(Limit{Field: "unhealthyRange", Value: "[3-5]", Min: 3, Max: 5}))
	g.Expect(Limits{MinHealthy: percent("51%")}.For(10)).To(Equal(Limit{Field: "minHealthy", Value: "51%", Max: 4}))
	g.Expect(Limits{MaxUnhealthy: number(2)}.For(10)).To(Equal(Limit{Field: "maxUnhealthy", Value: "2", Max: 2}))
	g.Expect(Limits{Default: intstr.FromString("49%")}.For(10)).To(Equal(Limit{Field: "maxUnhealthy", Value: "49%", Max: 4}))
}

// The arithmetic of the library is the reference; Slots and Limit round to the careful side.
func TestPercentages_Rounding_MatchesKubernetes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 100000).Draw(t, "n")
		value := intstr.FromString(rapid.SampledFrom([]string{"0%", "1%", "33%", "40%", "49%", "51%", "99%", "100%"}).Draw(t, "value"))
		down, err := intstr.GetScaledValueFromIntOrPercent(&value, n, false)
		if err != nil {
			t.Fatal(err)
		}
		up, err := intstr.GetScaledValueFromIntOrPercent(&value, n, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := roundedDown(value, n); got != down || got > n {
			t.Fatalf("%s of %d is %d, rounded down %d", value.String(), n, got, down)
		}
		if got := roundedUp(value, n); got != up || got > n {
			t.Fatalf("%s of %d is %d, rounded up %d", value.String(), n, got, up)
		}
	})
}

func TestLimit_MoreTargets_AllowAtLeastAsMany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, more := rapid.IntRange(0, 1000).Draw(t, "n"), rapid.IntRange(0, 1000).Draw(t, "more")
		p := percent(rapid.SampledFrom([]string{"0%", "10%", "49%", "100%"}).Draw(t, "p"))
		for _, limits := range []Limits{{MaxUnhealthy: p}, {MinHealthy: p}} {
			if limits.For(n+more).Max < limits.For(n).Max {
				t.Fatalf("%+v of %d and of %d", limits.For(n), n, n+more)
			}
		}
	})
}

func TestSlots_MaxInFlight_IsRoundedUp(t *testing.T) {
	g := NewWithT(t)
	for _, test := range []struct {
		value    *intstr.IntOrString
		n, slots int
	}{
		{number(1), 100, 1},
		{number(7), 3, 7},
		{percent("10%"), 25, 3},
		{percent("10%"), 3, 1},
		{percent("10%"), 0, 1},
		{percent("100%"), 4, 4},
		{percent("1%"), 101, 2},
		{percent("10%"), 10000, HighestMaxInFlight},
		{number(HighestMaxInFlight), 10000, HighestMaxInFlight},
		{number(HighestMaxInFlight + 1), 10000, HighestMaxInFlight},
	} {
		slots, limited := Slots(test.value, test.n)
		g.Expect(limited).To(BeTrue())
		g.Expect(slots).To(Equal(test.slots), "%s of %d", test.value.String(), test.n)
	}
	_, limited := Slots(nil, 10)
	g.Expect(limited).To(BeFalse())
}

func TestParseRange_Text_IsParsedOrRejected(t *testing.T) {
	g := NewWithT(t)
	got, err := ParseRange("[3-5]")
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(got).To(Equal(Range{3, 5}))
	got, err = ParseRange("[0-0]")
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(got).To(Equal(Range{}))
	for _, text := range []string{"", "[]", "[3]", "[3-]", "[-5]", "[5-3]", "3-5", "[3-5", "3-5]", "[a-b]", "[3-5-7]", "[ 3-5]", "[3-99999999999]"} {
		_, err := ParseRange(text)
		g.Expect(err).To(MatchError(ContainSubstring("such as [3-5]")), text)
	}
}

func FuzzParseRange(f *testing.F) {
	for _, seed := range []string{"[3-5]", "[5-3]", "[]", "[-", "[0-0]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := ParseRange(text); err == nil && (got.Min < 0 || got.Min > got.Max) {
			t.Fatalf("%q is %+v", text, got)
		}
	})
}

func FuzzLimits(f *testing.F) {
	f.Add("40%", int32(3), 10)
	f.Fuzz(func(t *testing.T, text string, n int32, of int) {
		of = max(0, of%1000000)
		for _, value := range []intstr.IntOrString{intstr.FromString(text), intstr.FromInt32(n)} {
			if most := (Limits{MaxUnhealthy: &value}).For(of).Max; most < 0 {
				t.Fatalf("%s of %d allows %d", value.String(), of, most)
			}
			if most := (Limits{MinHealthy: &value}).For(of).Max; most > of {
				t.Fatalf("of %d with %s healthy %d may be unhealthy", of, value.String(), most)
			}
			if slots, _ := Slots(&value, of); slots < 1 {
				t.Fatalf("%s of %d at once is %d", value.String(), of, slots)
			}
		}
	})
}

func TestKeepsQuorum_Members_NeedMajority(t *testing.T) {
	g := NewWithT(t)
	g.Expect(KeepsQuorum(1, 0)).To(BeFalse())
	g.Expect(KeepsQuorum(2, 1)).To(BeFalse(), "two members tolerate no loss")
	g.Expect(KeepsQuorum(3, 2)).To(BeTrue())
	g.Expect(KeepsQuorum(3, 1)).To(BeFalse())
	g.Expect(KeepsQuorum(4, 3)).To(BeTrue())
	g.Expect(KeepsQuorum(4, 2)).To(BeFalse(), "half is no majority")
	g.Expect(KeepsQuorum(5, 3)).To(BeTrue())
	g.Expect(KeepsQuorum(5, 2)).To(BeFalse())
	g.Expect(KeepsQuorum(0, 0)).To(BeFalse())
}

// What is allowed leaves a majority of all members answering.
func TestKeepsQuorum_AnySize_IsMajority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 99).Draw(t, "n")
		others := rapid.IntRange(0, n-1).Draw(t, "others")
		if KeepsQuorum(n, others) != (2*others > n) {
			t.Fatalf("%d healthy others of %d", others, n)
		}
	})
}

func TestBackoff_Failures_DoubleUpToLimit(t *testing.T) {
	g := NewWithT(t)
	b := Backoff{Initial: time.Minute, Limit: 10 * time.Minute}
	for failures, wait := range []time.Duration{0, 1 * time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute, 10 * time.Minute} {
		g.Expect(b.After(failures)).To(Equal(wait), "%d failures", failures)
	}
	g.Expect(b.After(1 << 30)).To(Equal(10 * time.Minute))
	g.Expect(b.After(-1)).To(BeZero())
	g.Expect(Backoff{Initial: 1 << 62, Limit: math.MaxInt64}.After(3)).To(Equal(time.Duration(math.MaxInt64)), "it does not overflow")
	g.Expect(Backoff{Initial: time.Hour, Limit: time.Minute}.After(1)).To(Equal(time.Minute), "the limit is the limit")
}

func TestBackoff_AnyFailures_GrowsUpToLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Backoff{
			Initial: time.Duration(rapid.Int64Range(1, 1<<62).Draw(t, "initial")),
			Limit:   time.Duration(rapid.Int64Range(1, 1<<62).Draw(t, "limit")),
		}
		n := rapid.IntRange(0, 200).Draw(t, "failures")
		if one, more := b.After(n), b.After(n+1); one < 0 || more < one || more > b.Limit {
			t.Fatalf("%v, then %v, with %+v", one, more, b)
		}
	})
}
