// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// stepBuckets are seconds: a device answers within seconds, and a machine boots in minutes.
var stepBuckets = []float64{1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 2400}

// Metrics are the metrics of fences. No label names a Node.
type Metrics struct {
	ended, actions, repeats *prometheus.CounterVec
	leftOff, released       prometheus.Counter
	duration                *prometheus.HistogramVec
	active                  prometheus.Gauge
	blocked                 *prometheus.GaugeVec

	mu sync.Mutex
	// waiting is the reason for which each NodeFence is not admitted; empty if it is.
	waiting map[client.ObjectKey]string
}

// NewMetrics creates the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		ended:   counter("remedy_fences_total", "Fences that have ended, by template, result and evidence.", "template", "result", "evidence"),
		actions: counter("remedy_fence_actions_total", "Actions of devices that have ended.", "profile", "method", "action", "result"),
		repeats: counter("remedy_fence_repeats_total", "Fences of a Node that was fenced before within repeatPeriod.", "template"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "remedy_fence_step_duration_seconds", Help: "How long phases of steps of fences took.", Buckets: stepBuckets,
		}, []string{"step", "phase"}),
		leftOff: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "remedy_fences_left_off_total", Help: "Fences that have ended with a Node that may be off.",
		}),
		released: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "remedy_fence_released_pods_total", Help: "Pods that were terminating when a Node was proven off, of releases that have ended.",
		}),
		active: prometheus.NewGauge(prometheus.GaugeOpts{Name: "remedy_fences_active", Help: "Fences that are admitted and have not ended."}),
		blocked: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "remedy_fence_blocked", Help: "Fences that are not admitted, by the reason.",
		}, []string{"reason"}),
		waiting: map[client.ObjectKey]string{},
	}
	for _, collector := range []prometheus.Collector{m.ended, m.actions, m.repeats, m.leftOff, m.released, m.duration, m.active, m.blocked} {
		if err := registerer.Register(collector); err != nil {
			return nil, errors.Wrap(err, "failed to register the metrics of fences")
		}
	}
	return m, nil
}

// observe records what has changed between two records of a NodeFence.
func (m *Metrics) observe(fence *fencingv1.NodeFence, before *fencingv1.NodeFenceStatus, now time.Time) {
	after := &fence.Status
	if before.Since != nil && (after.Step != before.Step || after.Phase != before.Phase) {
		m.duration.WithLabelValues(string(before.Step), string(before.Phase)).Observe(max(0, now.Sub(before.Since.Time).Seconds()))
	}
	if done := after.Action; done != nil && done.Ended && (before.Action == nil || !before.Action.Ended) {
		result := fencingv1.JobUnknown
		if len(after.Jobs) > 0 && after.Jobs[len(after.Jobs)-1].Result != "" {
			result = after.Jobs[len(after.Jobs)-1].Result
		}
		m.actions.WithLabelValues(after.Node.ProfileName, string(done.Method), string(done.Action), string(result)).Inc()
	}
	m.released.Add(float64(max(0, released(after)-released(before))))
	if after.Phase == fencingv1.PhaseFinal && before.Phase != fencingv1.PhaseFinal {
		evidence := ""
		if after.Evidence != nil {
			evidence = string(after.Evidence.Class)
		}
		if len(leftOff(after)) > 0 {
			m.leftOff.Inc()
		}
		m.ended.WithLabelValues(template(fence), string(after.Result), evidence).Inc()
	}
}

// setState counts a NodeFence as active or blocked. reason is why it is not admitted; empty if that is being decided.
func (m *Metrics) setState(key client.ObjectKey, status *fencingv1.NodeFenceStatus, reason string) {
	if status.Phase == fencingv1.PhaseFinal {
		m.forget(key)
		return
	}
	if !waits(status) {
		reason = ""
	} else if reason == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting[key] = reason
	m.count()
}

// forget no longer counts a NodeFence.
func (m *Metrics) forget(key client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.waiting, key)
	m.count()
}

func (m *Metrics) count() {
	active := 0
	m.blocked.Reset()
	for _, reason := range m.waiting {
		if reason == "" {
			active++
		} else {
			m.blocked.WithLabelValues(reason).Inc()
		}
	}
	m.active.Set(float64(active))
}

// template is the template of a NodeFence; empty if it was created by hand.
func template(fence *fencingv1.NodeFence) string {
	return fence.Annotations[clusterv1.TemplateClonedFromNameAnnotation]
}
