// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// family is a metric with all its series.
type family struct {
	name   string
	kind   string
	labels []string
	help   string
	// more is added in the documentation.
	more string
	// lasts: its series belong to no check, and are never removed.
	lasts bool
}

// The kinds of metrics.
const (
	gauge     = "gauge"
	counter   = "counter"
	histogram = "histogram"
)

// ofCheck returns the labels that name a check, and more.
func ofCheck(more ...string) []string { return append([]string{"kind", "namespace", "name"}, more...) }

// The families, in the order of the documentation.
var (
	targets = family{
		name: "remedy_targets", kind: gauge, labels: ofCheck("state"), help: "Targets of a check, by state.",
		more: "Every target is in exactly one state, and every state has a series, also at 0. `unhealthy` targets are not being remediated; " +
			"`remediating` targets are, whatever their health. Targets that the check no longer selects, and that have not been cleaned up, " +
			"count as `skipped` or `remediating`.",
	}
	blockedTargets = family{
		name: "remedy_blocked_targets", kind: gauge, labels: ofCheck("reason"), help: "Targets of a check that are blocked, by the reason.",
		more: "A reason that blocks no target has no series. [Reasons](reasons.md) has the meaning of each reason, and what to do.",
	}
	remediationAllowed = family{
		name: "remedy_remediation_allowed", kind: gauge, labels: ofCheck(), help: "1 if a check may start remediations, 0 if not.",
		more: "1 if the condition `RemediationAllowed` is True; 0 also if it is Unknown.",
	}
	notHealthyTargets = family{
		name: "remedy_not_healthy_targets", kind: gauge, labels: ofCheck(), help: "Targets of a check that count against its limit.",
		more: "For Machines these are all that are not known to be healthy. No series if they could not be counted.",
	}
	notHealthyTargetsLimit = family{
		name: "remedy_not_healthy_targets_limit", kind: gauge, labels: ofCheck(), help: "Unhealthy targets up to which a check remediates.",
		more: "Same as `status.limit`, for the current number of targets.",
	}
	stormActive = family{
		name: "remedy_storm_active", kind: gauge, labels: ofCheck(),
		help: "1 while too many targets of a check are unhealthy, and during the cool-down after that, 0 if not.",
		more: "Always 0 for a check without `stormCooldownDuration`.",
	}
	oldestRequest = family{
		name: "remedy_oldest_request_start_time_seconds", kind: gauge, labels: ofCheck(),
		help: "Time at which the oldest existing request of a check was started, in seconds since 1970.",
		more: "Its age is `time()` minus this. No series without a request.",
	}
	checkCondition = family{
		name: "remedy_check_condition", kind: gauge, labels: ofCheck("condition"), help: "1 if a condition of a check is True, 0 if it is False.",
		more: "`Paused` is the only one that is 0 normally. A condition that is Unknown, or that the check does not have, has no series.",
	}
	remediations = family{
		name: "remedy_remediations_total", kind: counter, labels: ofCheck("strategy", "outcome"),
		help: "Remediations of a check, by strategy and outcome.",
		more: "`started` is counted when a remediation starts, the others when it ends. Each step of an escalation is one. A check that uses a " +
			"strategy has all its series from the start, at 0.",
	}
	evaluations = family{
		name: "remedy_evaluations_total", kind: counter, labels: []string{"trigger"}, help: "Reconciles of checks, by trigger.", lasts: true,
	}
	failures = family{
		name: "remedy_failed_evaluations_total", kind: counter, labels: []string{"kind"}, lasts: true,
		help: "Reconciles of checks in which a read or a write failed.",
		more: "The rest of such a reconcile is done, and the failed part is retried with backoff. The log has the error.",
	}
	heartbeatsIgnored = family{
		name: "remedy_heartbeats_ignored_total", kind: counter, help: "Updates of Nodes that cause no reconcile.", lasts: true,
		more: "It should grow with the number of Nodes while `remedy_evaluations_total` does not.",
	}
	eventsDropped = family{
		name: "remedy_events_dropped_total", kind: counter, help: "Events that were not recorded.", lasts: true,
		more: "Too many were waiting for the API server, or it has rejected them.",
	}
	preflightFailures = family{
		name: "remedy_preflight_failures_total", kind: counter, labels: []string{"reason"}, lasts: true,
		help: "Actions that a preflight check has stopped, by the reason.",
		more: "Some are normal: a Node recovers at the last moment. Many mean that caches lag behind.",
	}
	decisionLatency = family{
		name: "remedy_decision_latency_seconds", kind: histogram, labels: []string{"kind", "trigger"}, lasts: true,
		help: "Time from when a decision was due, or its cause was observed, to the decision.",
	}
	unhealthyDuration = family{
		name: "remedy_unhealthy_duration_seconds", kind: histogram, labels: []string{"kind"}, lasts: true,
		help: "Time from when targets became unhealthy to when they were healthy again.",
	}
)

// families returns all of them.
func families() []*family {
	return []*family{
		&targets, &blockedTargets, &remediationAllowed, &notHealthyTargets, &notHealthyTargetsLimit, &stormActive, &oldestRequest,
		&checkCondition, &remediations, &evaluations, &failures, &heartbeatsIgnored, &eventsDropped, &preflightFailures,
		&decisionLatency, &unhealthyDuration,
	}
}

func (f *family) desc() *prometheus.Desc { return prometheus.NewDesc(f.name, f.help, f.labels, nil) }

func (f *family) counterOptions() prometheus.CounterOpts {
	return prometheus.CounterOpts{Name: f.name, Help: f.help}
}

// histogramOptions are those of a native histogram, with classic buckets for scrapes without native histograms.
func (f *family) histogramOptions(buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: f.name, Help: f.help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: nativeReset,
	}
}
