// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

var update = flag.Bool("update", false, "write docs/metrics.md and the golden file")

func newMetrics(t testing.TB) (*Metrics, *prometheus.Registry) {
	t.Helper()
	// A pedantic registry refuses series that were not described, or are there twice.
	registry := prometheus.NewPedanticRegistry()
	m, err := New(registry)
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return m, registry
}

func gather(t testing.TB, registry *prometheus.Registry) []*dto.MetricFamily {
	t.Helper()
	all, err := registry.Gather()
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return all
}

// exposition is what Prometheus reads.
func exposition(t testing.TB, registry *prometheus.Registry) string {
	t.Helper()
	var b bytes.Buffer
	for _, f := range gather(t, registry) {
		_, err := expfmt.MetricFamilyToText(&b, f)
		NewWithT(t).Expect(err).ToNot(HaveOccurred())
	}
	return b.String()
}

func is(condition string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: condition, Status: status}
}

var (
	workers = Check{MachineHealthCheck, "team-a", "workers"}
	nodes   = Check{NodeHealthCheck, "", "nodes"}
)

// everything is a registry in which each metric has been used.
func everything(t testing.TB) *prometheus.Registry {
	t.Helper()
	m, registry := newMetrics(t)
	m.Observe(workers, &Observation{
		States:     map[explain.State]int{explain.Healthy: 7, explain.Unhealthy: 2, explain.Remediating: 1},
		Blocked:    map[string]int{"TooManyUnhealthy": 2, "made up": 1, "Paused": 0},
		LimitState: &LimitState{Unhealthy: 3, Limit: 2, Storm: true}, OldestRequest: time.Unix(1_700_000_000, 0),
		Conditions: []metav1.Condition{
			is(remedyv1.ReadyCondition, metav1.ConditionTrue), is(remedyv1.RemediationAllowedCondition, metav1.ConditionFalse),
			is(remedyv1.ClusterReachableCondition, metav1.ConditionUnknown), is("SomethingElse", metav1.ConditionTrue),
		},
		Strategies: []Strategy{Owner},
	})
	m.Started(workers, Owner)
	m.Started(workers, Template)
	m.Ended(workers, Template, TimedOut)
	m.Observe(nodes, &Observation{
		States: map[explain.State]int{explain.Healthy: 3}, LimitState: &LimitState{Limit: -1},
		Conditions: []metav1.Condition{is(remedyv1.RemediationAllowedCondition, metav1.ConditionTrue)}, Strategies: []Strategy{Template},
	})
	m.Evaluated(MachineHealthCheck, ByTimer, 3*time.Millisecond)
	m.Evaluated(MachineHealthCheck, "whim", -time.Hour)
	m.HealthyAgain(NodeHealthCheck, 7*time.Minute)
	m.HeartbeatIgnored()
	m.EventDropped()
	m.PreflightFailed(remediation.PreflightFailed)
	m.PreflightFailed("made up")
	return registry
}

func TestMetrics_Exposition_EqualsGoldenFile(t *testing.T) {
	g := NewWithT(t)
	const golden = "testdata/exposition.golden.txt"
	// The reasons of preflight checks belong to another package.
	made := regexp.MustCompile(`(?m)^remedy_preflight_failures_total.* 0\n`).ReplaceAllString(exposition(t, everything(t)), "")
	if *update {
		g.Expect(os.WriteFile(golden, []byte(made), 0o600)).To(Succeed())
		g.Expect(os.Chmod(golden, 0o644)).To(Succeed())
	}
	written, err := os.ReadFile(golden)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(made).To(Equal(string(written)), "run go test ./internal/metrics -update")
}

func TestMetrics_Promlint_HasNoProblems(t *testing.T) {
	g := NewWithT(t)
	problems, err := promlint.NewWithMetricFamilies(gather(t, everything(t))).Lint()
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(problems).To(BeEmpty())
}

// The documentation is generated from the table.
func TestMetrics_Families_AreInTheTable(t *testing.T) {
	g := NewWithT(t)
	table := map[string]*family{}
	for _, f := range families() {
		g.Expect(f.name).To(HavePrefix("remedy_"))
		g.Expect(f.lasts || f.labels[2] == "name").To(BeTrue(), f.name)
		table[f.name] = f
	}
	seen := gather(t, everything(t))
	g.Expect(seen).To(HaveLen(len(table)))
	for _, f := range seen {
		described := table[f.GetName()]
		g.Expect(described).ToNot(BeNil(), f.GetName())
		g.Expect(strings.ToLower(f.GetType().String())).To(Equal(described.kind))
		g.Expect(f.GetHelp()).To(Equal(described.help))
		for _, pair := range f.GetMetric()[0].GetLabel() {
			g.Expect(described.labels).To(ContainElement(pair.GetName()))
			g.Expect(pair.GetName()).ToNot(Or(Equal("node"), Equal("machine"), Equal("target")))
		}
	}
}

func TestForget_Check_RemovesAllSeries(t *testing.T) {
	g := NewWithT(t)
	m, registry := newMetrics(t)
	m.Observe(nodes, &Observation{})
	m.Started(nodes, Template)
	before := exposition(t, registry)
	m.Observe(workers, &Observation{Blocked: map[string]int{"Storm": 1}, LimitState: &LimitState{}, Strategies: Strategies()})
	m.Started(workers, Owner)
	g.Expect(exposition(t, registry)).To(ContainSubstring("workers"))
	m.Forget(workers)
	g.Expect(exposition(t, registry)).To(Equal(before))
	m.Forget(workers)

	m.Observe(workers, &Observation{Strategies: []Strategy{Owner}})
	g.Expect(exposition(t, registry)).To(ContainSubstring(`remedy_remediations_total{kind="MachineHealthCheck",`+
		`name="workers",namespace="team-a",outcome="started",strategy="owner"} 0`),
		"a new check of the same name starts at 0")
}

func TestObserve_ReasonNoLongerBlocks_HasNoSeries(t *testing.T) {
	g := NewWithT(t)
	m, registry := newMetrics(t)
	m.Observe(workers, &Observation{Blocked: map[string]int{"Storm": 3, "Backoff": 1}})
	g.Expect(exposition(t, registry)).To(ContainSubstring(`reason="Storm"} 3`))
	m.Observe(workers, &Observation{Blocked: map[string]int{"Backoff": 1}})
	g.Expect(exposition(t, registry)).To(And(ContainSubstring(`reason="Backoff"} 1`), Not(ContainSubstring("Storm\""))))
}

func TestNew_SameRegistry_Fails(t *testing.T) {
	g := NewWithT(t)
	_, registry := newMetrics(t)
	_, err := New(registry)
	g.Expect(err).To(MatchError(ContainSubstring("failed to register metrics")))
}

func TestObservationOf_Reconcile_CountsTargets(t *testing.T) {
	g := NewWithT(t)
	noted := []metav1.Condition{is(remedyv1.ReadyCondition, metav1.ConditionTrue)}
	requested := func(at int64) *remediation.Request { return &remediation.Request{Started: time.Unix(at, 0)} }
	pass := &explain.Evaluation{
		Situation: &remediation.Situation{
			Targets: []remediation.Target{{}, {Request: requested(7)}, {Request: requested(6)}, {}},
			Orphans: []remediation.Orphan{{}, {Request: requested(5)}},
		},
		Assessment: &health.Assessment{Verdicts: []health.Verdict{
			{Kind: health.Healthy},
			{Kind: health.Unhealthy},
			{Kind: health.Unhealthy},
			{Kind: health.Skipped},
		}},
		Policy: &remediation.Policy{Steps: []remediation.Step{{}, {}, {Owner: true}}},
		Planned: &remediation.Planned{
			Decisions:  []remediation.Decision{{}, {Block: remediation.Block{Reason: remediation.InStorm}}, {InFlight: true}, {}},
			Orphans:    []remediation.Decision{{}, {InFlight: true, Block: remediation.Block{Reason: remediation.Paused}}},
			LimitState: remediation.LimitState{Unhealthy: 2, Limit: remediation.Limit{Max: 4}},
			Storm:      remediation.Storm{Since: time.Unix(1, 0)},
		},
	}
	status := &remedyv1.CheckStatus{Conditions: noted, Blocked: ptr.To(int32(3))}
	pass.Planned.Counts.Blocked = 1
	g.Expect(ObservationOf(pass, status)).To(Equal(Observation{
		States:  map[explain.State]int{explain.Healthy: 1, explain.Unhealthy: 1, explain.Remediating: 2, explain.Skipped: 2},
		Blocked: map[string]int{"Storm": 1, "Paused": 1, "ReconnectGracePeriod": 2}, LimitState: &LimitState{Unhealthy: 2, Limit: 4, Storm: true},
		Conditions: noted, Strategies: []Strategy{Template, Owner}, OldestRequest: time.Unix(5, 0),
	}))
	t.Run("nothing was evaluated", func(t *testing.T) {
		NewWithT(t).Expect(ObservationOf(nil, status)).To(Equal(Observation{
			States: map[explain.State]int{}, Blocked: map[string]int{},
			Conditions: noted,
		}))
	})
}

func TestOutcomeOf_Outcomes_AreDistinct(t *testing.T) {
	g := NewWithT(t)
	seen := map[Outcome]bool{Started: true}
	for _, ended := range []remedyv1.RemediationOutcome{
		remedyv1.RecoveredOutcome, remedyv1.ReplacedOutcome, remedyv1.FailedOutcome, remedyv1.TimedOutOutcome, remedyv1.WithdrawnOutcome,
	} {
		outcome := OutcomeOf(ended)
		g.Expect(seen).ToNot(HaveKey(outcome))
		g.Expect(strings.ReplaceAll(string(outcome), "_", "")).To(Equal(strings.ToLower(string(ended))))
		seen[outcome] = true
	}
	for _, outcome := range Outcomes() {
		g.Expect(seen).To(HaveKey(outcome))
	}
}

// For the race detector.
func TestMetrics_ConcurrentUse_HasNoRace(t *testing.T) {
	m, registry := newMetrics(t)
	var all sync.WaitGroup
	for _, check := range []Check{workers, nodes} {
		all.Go(func() {
			for i := range 100 {
				m.Observe(check, &Observation{States: map[explain.State]int{explain.Healthy: i}})
				m.Started(check, Owner)
				if i%10 == 9 {
					m.Forget(check)
				}
			}
		})
	}
	for range 20 {
		exposition(t, registry)
	}
	all.Wait()
}
