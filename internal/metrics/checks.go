// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// checks collects the metrics of checks. Series are created from the last observation when Prometheus scrapes, so no series is left over
// from an earlier reconcile, and no scrape returns half of an observation.
type checks struct {
	descs   map[*family]*prometheus.Desc
	reasons map[string]bool

	lock  sync.Mutex
	known map[Check]*record
}

// record has the metrics of one check.
type record struct {
	// last is the last observation; nil before the first one. It is replaced, and never changed.
	last   *Observation
	counts map[count]float64
}

type count struct {
	strategy Strategy
	outcome  Outcome
}

func newChecks() *checks {
	c := &checks{descs: map[*family]*prometheus.Desc{}, reasons: reasons(), known: map[Check]*record{}}
	for _, f := range families() {
		if !f.lasts {
			c.descs[f] = f.desc()
		}
	}
	return c
}

func (c *checks) observe(check Check, o *Observation) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.of(check).last = o
}

func (c *checks) count(check Check, strategy Strategy, outcome Outcome) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.of(check).counts[count{oneOf(strategy, Strategies()), oneOf(outcome, Outcomes())}]++
}

func (c *checks) forget(check Check) {
	c.lock.Lock()
	defer c.lock.Unlock()
	delete(c.known, bounded(check))
}

// bounded replaces an unknown kind.
func bounded(check Check) Check {
	check.Kind = oneOf(check.Kind, Kinds())
	return check
}

// of returns the record of a check, and creates it if there is none. The caller holds the lock.
func (c *checks) of(check Check) *record {
	check = bounded(check)
	known := c.known[check]
	if known == nil {
		known = &record{counts: map[count]float64{}}
		c.known[check] = known
	}
	return known
}

// Describe implements prometheus.Collector.
func (c *checks) Describe(into chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		into <- desc
	}
}

// Collect implements prometheus.Collector. It sends after it has released the lock: a slow scrape does not delay a reconcile.
func (c *checks) Collect(into chan<- prometheus.Metric) {
	for _, s := range c.series() {
		into <- s
	}
}

func (c *checks) series() []prometheus.Metric {
	c.lock.Lock()
	defer c.lock.Unlock()
	made := &series{checks: c}
	for check, known := range c.known {
		made.check = check
		made.observed(known.last)
		made.counted(known)
	}
	return made.all
}

// series collects the series of one check after the other.
type series struct {
	*checks
	check Check
	all   []prometheus.Metric
}

func (s *series) add(f *family, value float64, more ...string) {
	kind := prometheus.GaugeValue
	if f.kind == counter {
		kind = prometheus.CounterValue
	}
	labels := append([]string{string(s.check.Kind), s.check.Namespace, s.check.Name}, more...)
	s.all = append(s.all, prometheus.MustNewConstMetric(s.descs[f], kind, value, labels...))
}

// observed adds the gauges.
func (s *series) observed(o *Observation) {
	if o == nil {
		return
	}
	for _, state := range explain.States() {
		s.add(&targets, float64(o.States[state]), string(state))
	}
	unknown := 0
	for reason, n := range o.Blocked {
		switch {
		case n == 0:
		case s.reasons[reason]:
			s.add(&blockedTargets, float64(n), reason)
		default:
			unknown += n
		}
	}
	if unknown > 0 {
		s.add(&blockedTargets, float64(unknown), other)
	}
	if o.LimitState != nil {
		s.add(&notHealthyTargets, float64(o.LimitState.Unhealthy))
		// A limit below zero requires more healthy targets than exist.
		s.add(&notHealthyTargetsLimit, float64(max(0, o.LimitState.Limit)))
		s.add(&stormActive, number(o.LimitState.Storm))
	}
	if !o.OldestRequest.IsZero() {
		s.add(&oldestRequest, float64(o.OldestRequest.Unix()))
	}
	s.conditions(o.Conditions)
}

func (s *series) conditions(all []metav1.Condition) {
	allowed := false
	for _, name := range conditions() {
		i := slices.IndexFunc(all, func(c metav1.Condition) bool { return c.Type == name })
		if i < 0 || all[i].Status == metav1.ConditionUnknown {
			continue
		}
		value := all[i].Status == metav1.ConditionTrue
		s.add(&checkCondition, number(value), name)
		allowed = allowed || value && name == remedyv1.RemediationAllowedCondition
	}
	s.add(&remediationAllowed, number(allowed))
}

// counted adds the counters: those that have counted something, and those of the strategies of the check.
func (s *series) counted(known *record) {
	for _, strategy := range append(Strategies(), other) {
		may := known.last != nil && slices.Contains(known.last.Strategies, strategy)
		for _, outcome := range append(Outcomes(), other) {
			n, counted := known.counts[count{strategy, outcome}]
			if counted || may && outcome != other {
				s.add(&remediations, n, string(strategy), string(outcome))
			}
		}
	}
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Observation is the result of one reconcile of a check. A missing value has no series, or is 0 if there always is a series.
type Observation struct {
	// States has the number of targets in each state.
	States map[explain.State]int
	// Blocked has the number of blocked targets for each reason.
	Blocked map[string]int
	// LimitState is nil if the targets could not be counted, for example if the Cluster does not exist.
	LimitState *LimitState
	// OldestRequest is when the oldest request was started; zero if there is none.
	OldestRequest time.Time
	// Conditions are those of the check.
	Conditions []metav1.Condition
	// Strategies are those of the steps of the check.
	Strategies []Strategy
}

// LimitState has the number of unhealthy targets and the limit.
type LimitState struct {
	Unhealthy, Limit int
	Storm            bool
}

// ObservationOf returns the observation of a reconcile. It allocates nothing for a target.
func ObservationOf(p *explain.Evaluation, status *remedyv1.CheckStatus) Observation {
	o := Observation{States: map[explain.State]int{}, Blocked: map[string]int{}, Conditions: status.Conditions}
	if p == nil || p.Planned == nil {
		return o
	}
	add := func(v *health.Verdict, d *remediation.Decision, r *remediation.Request) {
		if r != nil {
			o.OldestRequest = health.Earliest(o.OldestRequest, r.Started)
		}
		o.States[explain.StateOf(v, d)]++
		reason := d.Block.Reason
		if v != nil && v.Kind == health.Unhealthy {
			reason = d.BlockedReason()
		}
		if reason != "" {
			o.Blocked[string(reason)]++
		}
	}
	for i := range p.Planned.Decisions {
		add(&p.Assessment.Verdicts[i], &p.Planned.Decisions[i], p.Situation.Targets[i].Request)
	}
	for i := range p.Planned.Orphans {
		add(nil, &p.Planned.Orphans[i], p.Situation.Orphans[i].Request)
	}
	// Targets that were unhealthy before an outage are only in the status.
	if kept := int(ptr.Deref(status.Blocked, 0)) - p.Planned.Counts.Blocked; kept > 0 {
		o.Blocked[string(explain.KeptReason(p))] += kept
	}
	state := &p.Planned.LimitState
	o.LimitState = &LimitState{Unhealthy: state.Unhealthy, Limit: state.Limit.Max, Storm: !p.Planned.Storm.Since.IsZero()}
	if p.Policy != nil {
		for i := range p.Policy.Steps {
			if s := StrategyOf(&p.Policy.Steps[i]); !slices.Contains(o.Strategies, s) {
				o.Strategies = append(o.Strategies, s)
			}
		}
	}
	return o
}
