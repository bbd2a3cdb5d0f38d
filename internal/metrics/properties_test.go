// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
)

// held are the reasons that can be drawn, and one that there is not.
func held() []string { return append(slices.Sorted(maps.Keys(reasons())), "made up", "made up too") }

func drawObservation(t *rapid.T) *Observation {
	o := &Observation{
		States:     rapid.MapOf(rapid.SampledFrom(explain.States()), rapid.IntRange(0, 1000)).Draw(t, "states"),
		Blocked:    rapid.MapOf(rapid.SampledFrom(held()), rapid.IntRange(0, 1000)).Draw(t, "blocked"),
		Strategies: rapid.SliceOfDistinct(rapid.SampledFrom(append(Strategies(), "unknown strategy")), rapid.ID).Draw(t, "strategies"),
	}
	if rapid.Bool().Draw(t, "counted") {
		o.LimitState = &LimitState{
			Unhealthy: rapid.IntRange(0, 1000).Draw(t, "unhealthy"), Limit: rapid.IntRange(-5, 1000).Draw(t, "limit"),
			Storm: rapid.Bool().Draw(t, "storm"),
		}
	}
	for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(append(conditions(), "Other")), rapid.ID).Draw(t, "conditions") {
		status := rapid.SampledFrom([]metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}).Draw(t,
			"status")
		o.Conditions = append(o.Conditions, is(name, status))
	}
	return o
}

func drawCheck(t *rapid.T) Check {
	return Check{
		Kind:      rapid.SampledFrom(append(Kinds(), "Foo", "Bar")).Draw(t, "kind"),
		Namespace: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "namespace"), Name: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name"),
	}
}

// life has the observations and remediations of a check since it was created.
type life struct {
	last *Observation
	done []count
}

// The metrics are those of a process that has observed only the last state of each existing check, and its remediations since it was
// created.
func TestMetrics_AnyHistory_ExportOnlyLastObservation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m, registry := newMetrics(t)
		lives := map[Check]*life{}
		of := func(check Check) *life {
			check = bounded(check)
			if lives[check] == nil {
				lives[check] = &life{}
			}
			return lives[check]
		}
		for range rapid.IntRange(0, 40).Draw(rt, "steps") {
			check := drawCheck(rt)
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0:
				m.Forget(check)
				delete(lives, bounded(check))
			case 1:
				strategy := rapid.SampledFrom(append(Strategies(), "unknown strategy")).Draw(rt, "strategy")
				outcome := rapid.SampledFrom(append(Outcomes(), "unknown outcome")).Draw(rt, "outcome")
				of(check).done = append(of(check).done, count{strategy, outcome})
				if outcome == Started {
					m.Started(check, strategy)
				} else {
					m.Ended(check, strategy, outcome)
				}
			default:
				o := drawObservation(rt)
				m.Observe(check, o)
				of(check).last = o
			}
		}
		fresh, other := newMetrics(t)
		for check, l := range lives {
			for _, c := range l.done {
				fresh.Ended(check, c.strategy, c.outcome)
			}
			if l.last != nil {
				fresh.Observe(check, l.last)
			}
		}
		if got, want := exposition(t, registry), exposition(t, other); got != want {
			rt.Fatalf("left over from earlier reconciles:\n%s\ninstead of\n%s", got, want)
		}
	})
}

// The number of series of a check is bounded, and that of all other series does not depend on checks.
func TestMetrics_UnknownValues_AreBounded(t *testing.T) {
	g := NewWithT(t)
	all := &Observation{LimitState: &LimitState{}, Strategies: Strategies(), Blocked: map[string]int{}, OldestRequest: time.Unix(1, 0)}
	for _, reason := range held() {
		all.Blocked[reason] = 1
	}
	for _, name := range conditions() {
		all.Conditions = append(all.Conditions, is(name, metav1.ConditionTrue))
	}
	series := func(checks int) int {
		m, registry := newMetrics(t)
		for i := range checks {
			check := Check{MachineHealthCheck, "somewhere", fmt.Sprintf("check-%d", i)}
			m.Observe(check, all)
			for _, strategy := range append(Strategies(), "unknown strategy", "another strategy") {
				for _, outcome := range append(Outcomes(), "unknown outcome", "another outcome") {
					m.Ended(check, strategy, outcome)
				}
			}
		}
		for i := range 1000 {
			unknown := fmt.Sprint(i)
			m.Evaluated(Kind(unknown), Trigger(unknown), 0)
			m.HealthyAgain(Kind(unknown), 0)
			m.PreflightFailed("made up")
		}
		n := 0
		for _, f := range gather(t, registry) {
			n += len(f.GetMetric())
		}
		return n
	}
	// States, conditions, five numbers; reasons and outcomes with one series each for unknown values.
	most := len(explain.States()) + len(conditions()) + 5 + len(reasons()) + 1 + (len(Strategies())+1)*(len(Outcomes())+1)
	g.Expect(series(10) - series(0)).To(Equal(10 * most))
	g.Expect(series(0)).To(BeNumerically("<", 40), "the rest is the same for any number of checks")
}

func TestObservationOf_HealthyTargets_DoNotAllocate(t *testing.T) {
	g := NewWithT(t)
	cost := func(n int) float64 {
		pass := passOver(n)
		return testing.AllocsPerRun(10, func() { _ = ObservationOf(pass, &remedyv1.CheckStatus{}) })
	}
	g.Expect(cost(1000)).To(Equal(cost(10)))
}
