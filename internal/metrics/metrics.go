// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"time"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Metrics are the metrics of the process. Methods can be called concurrently. Those about one check are called by the worker that
// reconciles it, and after Forget only if the check exists again.
type Metrics struct {
	checks            *checks
	evaluations       *prometheus.CounterVec
	failures          *prometheus.CounterVec
	heartbeatsIgnored prometheus.Counter
	eventsDropped     prometheus.Counter
	preflightFailures *prometheus.CounterVec
	decisionLatency   *prometheus.HistogramVec
	unhealthyDuration *prometheus.HistogramVec
}

// nativeReset is the minimum time before a native histogram with too many buckets is reset.
const nativeReset = time.Hour

// Decisions take milliseconds; alerts are for those that take longer than a second.
var latencyBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

// A target is unhealthy for minutes if it is replaced, and for days if remediation fails.
var durationBuckets = []float64{30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21600, 86400}

// New creates the metrics and registers them, usually with the registry of controller-runtime.
func New(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		checks:            newChecks(),
		evaluations:       prometheus.NewCounterVec(evaluations.counterOptions(), evaluations.labels),
		failures:          prometheus.NewCounterVec(failures.counterOptions(), failures.labels),
		heartbeatsIgnored: prometheus.NewCounter(heartbeatsIgnored.counterOptions()),
		eventsDropped:     prometheus.NewCounter(eventsDropped.counterOptions()),
		preflightFailures: prometheus.NewCounterVec(preflightFailures.counterOptions(), preflightFailures.labels),
		decisionLatency:   prometheus.NewHistogramVec(decisionLatency.histogramOptions(latencyBuckets), decisionLatency.labels),
		unhealthyDuration: prometheus.NewHistogramVec(unhealthyDuration.histogramOptions(durationBuckets), unhealthyDuration.labels),
	}
	// Counters start at 0: an increase from no series to 1 is none for Prometheus.
	for _, trigger := range Triggers() {
		m.evaluations.WithLabelValues(string(trigger))
	}
	for _, kind := range Kinds() {
		m.failures.WithLabelValues(string(kind))
	}
	for _, reason := range remediation.PreflightGuards() {
		m.preflightFailures.WithLabelValues(string(reason))
	}
	for _, collector := range []prometheus.Collector{
		m.checks, m.evaluations, m.failures, m.heartbeatsIgnored, m.eventsDropped, m.preflightFailures, m.decisionLatency, m.unhealthyDuration,
	} {
		if err := registerer.Register(collector); err != nil {
			return nil, errors.Wrap(err, "failed to register metrics")
		}
	}
	return m, nil
}

// Observe replaces the last observation of a check, which is not changed after that. Counters stay.
func (m *Metrics) Observe(check Check, o *Observation) { m.checks.observe(check, o) }

// Started counts a remediation that was started.
func (m *Metrics) Started(check Check, strategy Strategy) { m.checks.count(check, strategy, Started) }

// Ended counts a remediation that has ended.
func (m *Metrics) Ended(check Check, strategy Strategy, outcome Outcome) {
	m.checks.count(check, strategy, outcome)
}

// Forget removes every series of a check.
func (m *Metrics) Forget(check Check) { m.checks.forget(check) }

// Evaluated counts a reconcile of a check. late is the time since it was due, or since its cause was observed, whichever is later.
func (m *Metrics) Evaluated(kind Kind, trigger Trigger, late time.Duration) {
	trigger = oneOf(trigger, Triggers())
	m.evaluations.WithLabelValues(string(trigger)).Inc()
	m.decisionLatency.WithLabelValues(string(oneOf(kind, Kinds())), string(trigger)).Observe(seconds(late))
}

// Failed counts a reconcile in which a read or a write failed.
func (m *Metrics) Failed(kind Kind) { m.failures.WithLabelValues(string(oneOf(kind, Kinds()))).Inc() }

// HealthyAgain records for how long a target was unhealthy.
func (m *Metrics) HealthyAgain(kind Kind, unhealthy time.Duration) {
	m.unhealthyDuration.WithLabelValues(string(oneOf(kind, Kinds()))).Observe(seconds(unhealthy))
}

// HeartbeatIgnored counts an update of a Node that causes no reconcile.
func (m *Metrics) HeartbeatIgnored() { m.heartbeatsIgnored.Inc() }

// EventDropped counts an event that was not recorded.
func (m *Metrics) EventDropped() { m.eventsDropped.Inc() }

// PreflightFailed counts an action that a preflight check has stopped.
func (m *Metrics) PreflightFailed(reason remediation.Reason) {
	m.preflightFailures.WithLabelValues(string(oneOf(reason, remediation.PreflightGuards()))).Inc()
}

// seconds is never negative, even if the clock was set back.
func seconds(d time.Duration) float64 { return max(0, d.Seconds()) }

func oneOf[T ~string](value T, all []T) T {
	if slices.Contains(all, value) {
		return value
	}
	return other
}
