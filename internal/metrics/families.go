// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// family is one metric with all its series.
type family struct {
	name   string
	kind   string
	labels []string
	help   string
	// more is what the documentation adds.
	more string
	// lasts: its series do not belong to a check, and stay.
	lasts bool
}

// The kinds of metrics.
const (
	gauge     = "gauge"
	counter   = "counter"
	histogram = "histogram"
)

// ofCheck are the labels that name a check, and more.
func ofCheck(more ...string) []string { return append([]string{"kind", "namespace", "name"}, more...) }

// The families, in the order in which the documentation tells of them.
var (
	targets = family{
		name: "remedy_targets", kind: gauge, labels: ofCheck("state"), help: "Targets of a check, by state.",
		more: "Every target is in exactly one state, and every state has a series, also at 0. `unhealthy` are those that are not under remediation, `remediating` those that are, whatever their health. Targets that the check does not look after any more, and at which something of it is left, count as `skipped` or `remediating`.",
	}
	blockedTargets = family{
		name: "remedy_blocked_targets", kind: gauge, labels: ofCheck("reason"), help: "Targets of a check that are held, by the reason.",
		more: "A reason that holds nothing has no series. [Reasons](reasons.md) says what each means and what to do about it.",
	}
	remediationAllowed = family{
		name: "remedy_remediation_allowed", kind: gauge, labels: ofCheck(), help: "1 if a check may start remediations, 0 if not.",
		more: "It says the same as the condition `RemediationAllowed`.",
	}
	sickTargets = family{
		name: "remedy_sick_targets", kind: gauge, labels: ofCheck(), help: "Targets of a check that count against its limit.",
		more: "For Machines that is everything that is not known to be healthy. No series where nothing could be counted.",
	}
	sickTargetsLimit = family{
		name: "remedy_sick_targets_limit", kind: gauge, labels: ofCheck(), help: "Sick targets up to which a check remediates.",
		more: "It is what `status.limit` shows, of as many targets as there are now.",
	}
	stormActive = family{
		name: "remedy_storm_active", kind: gauge, labels: ofCheck(), help: "1 while too many targets of a check are or were sick a short while ago, 0 if not.",
		more: "Always 0 for a check without `stormCooldownDuration`.",
	}
	checkCondition = family{
		name: "remedy_check_condition", kind: gauge, labels: ofCheck("condition"), help: "1 if a condition of a check is True, 0 if not.",
		more: "`Paused` is the only one that is well at 0. A condition that the check does not have has no series.",
	}
	remediations = family{
		name: "remedy_remediations_total", kind: counter, labels: ofCheck("strategy", "outcome"), help: "Remediations of a check, by who was asked and what became of it.",
		more: "`started` counts when one begins, the others when it ends. Each step of an escalation is one. A check that may use a strategy has all its series from the beginning, at 0.",
	}
	evaluations = family{
		name: "remedy_evaluations_total", kind: counter, labels: []string{"trigger"}, help: "Passes over checks, by what caused them.", lasts: true,
	}
	failures = family{
		name: "remedy_failed_evaluations_total", kind: counter, labels: []string{"kind"}, lasts: true,
		help: "Passes over checks in which something could not be read or written.",
		more: "Everything else in such a pass was done, and what has failed is tried again, ever more seldom. The log says what it was.",
	}
	heartbeatsIgnored = family{
		name: "remedy_heartbeats_ignored_total", kind: counter, help: "Updates of Nodes that no check has to look at.", lasts: true,
		more: "It should grow with the number of Nodes while `remedy_evaluations_total` does not.",
	}
	confirmAborts = family{
		name: "remedy_confirm_aborts_total", kind: counter, labels: []string{"reason"}, help: "Acts that a last, live look has stopped, by the reason.", lasts: true,
		more: "Some are normal: a Node recovers in the last moment. Many mean that what is cached lags behind.",
	}
	decisionLatency = family{
		name: "remedy_decision_latency_seconds", kind: histogram, labels: []string{"kind", "trigger"}, lasts: true,
		help: "Time from when a decision was due, or its cause was seen, to the decision.",
	}
	unhealthyDuration = family{
		name: "remedy_unhealthy_duration_seconds", kind: histogram, labels: []string{"kind"}, lasts: true,
		help: "Time from when targets were found unhealthy to when they were healthy again.",
	}
)

// families are all of them.
func families() []*family {
	return []*family{
		&targets, &blockedTargets, &remediationAllowed, &sickTargets, &sickTargetsLimit, &stormActive, &checkCondition, &remediations,
		&evaluations, &failures, &heartbeatsIgnored, &confirmAborts, &decisionLatency, &unhealthyDuration,
	}
}

// values are what a label can be; nil for a name, of which there are as many as checks.
func values(label string) []string {
	switch label {
	case "kind":
		return texts(Kinds())
	case "state":
		return texts(states())
	case "condition":
		return conditions()
	case "strategy":
		return texts(Strategies())
	case "outcome":
		return texts(Outcomes())
	case "trigger":
		return texts(Triggers())
	}
	return nil
}

func texts[T ~string](all []T) []string {
	made := make([]string, len(all))
	for i := range all {
		made[i] = string(all[i])
	}
	return made
}

func (f *family) desc() *prometheus.Desc { return prometheus.NewDesc(f.name, f.help, f.labels, nil) }

func (f *family) counterOptions() prometheus.CounterOpts {
	return prometheus.CounterOpts{Name: f.name, Help: f.help}
}

// histogramOptions make a native histogram, which has the same buckets everywhere, and the given classic ones for those who scrape without them.
func (f *family) histogramOptions(buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: f.name, Help: f.help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: nativeReset,
	}
}
