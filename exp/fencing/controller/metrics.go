// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	active, failed          prometheus.Gauge
	// oldestOff has one series, or none.
	blocked, oldestOff *prometheus.GaugeVec

	mu     sync.Mutex
	fences map[client.ObjectKey]fenceState
}

// fenceState is what the gauges need of a NodeFence that has not ended.
type fenceState struct {
	// waiting is the reason for which it is not admitted; empty if it is.
	waiting string
	failed  bool
	// off is when it switched its Node off; nil if it has not, or if the Node is on again.
	off *metav1.Time
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
		failed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "remedy_fences_failed", Help: "Fences that have failed, and whose NodeFence is not withdrawn.",
		}),
		oldestOff: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "remedy_fence_oldest_off_start_time_seconds",
			Help: "Time since when a Node is off that was switched off and is not on again, in seconds since 1970, for the oldest one.",
		}, nil),
		fences: map[client.ObjectKey]fenceState{},
	}
	for _, collector := range []prometheus.Collector{
		m.ended, m.actions, m.repeats, m.leftOff, m.released, m.duration, m.active, m.failed, m.blocked, m.oldestOff,
	} {
		if err := registerer.Register(collector); err != nil {
			return nil, errors.Wrap(err, "failed to register the metrics of fences")
		}
	}
	return m, nil
}

// observe records what has changed between two records of a NodeFence.
func (m *Metrics) observe(fence *fencingv1.NodeFence, before *fencingv1.NodeFenceStatus, now time.Time) {
	after := &fence.Status
	if before.Since != nil && fence.Spec.Mode != fencingv1.CheckDevices && (after.Step != before.Step || after.Phase != before.Phase) {
		m.duration.WithLabelValues(string(before.Step), string(before.Phase)).Observe(max(0, now.Sub(before.Since.Time).Seconds()))
	}
	if done := after.Action; done != nil && done.Ended && (before.Action == nil || !before.Action.Ended) {
		result := fencingv1.JobUnknown
		if len(after.Jobs) > 0 && after.Jobs[len(after.Jobs)-1].Result != "" {
			result = after.Jobs[len(after.Jobs)-1].Result
		}
		m.actions.WithLabelValues(after.Node.ProfileName, string(done.Method), string(done.Action), string(result)).Inc()
	}
	if fence.Spec.Mode == fencingv1.CheckDevices {
		// It fences nothing.
		return
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

// setState counts a NodeFence, unless it only checks devices. reason is why it is not admitted; empty if that is being decided.
func (m *Metrics) setState(fence *fencingv1.NodeFence, reason string) {
	key, status := client.ObjectKeyFromObject(fence), &fence.Status
	if status.Phase == fencingv1.PhaseFinal || fence.Spec.Mode == fencingv1.CheckDevices {
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
	m.fences[key] = fenceState{waiting: reason, failed: status.Result == fencingv1.ResultFailed, off: offSince(status)}
	m.count()
}

// offSince is when a fence switched its Node off; nil if it has not, or if the Node is on again.
func offSince(s *fencingv1.NodeFenceStatus) *metav1.Time {
	var since *metav1.Time
	for i := range s.Methods {
		m := &s.Methods[i]
		off := m.Step == fencingv1.StepPowerManagement && m.OffRequested != nil && m.OnSucceeded == nil && s.Rejoined == nil
		if off && (since == nil || m.OffRequested.Before(since)) {
			since = m.OffRequested
		}
	}
	return since
}

// forget no longer counts a NodeFence.
func (m *Metrics) forget(key client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.fences, key)
	m.count()
}

func (m *Metrics) count() {
	active, failed := 0, 0
	var oldest *metav1.Time
	m.blocked.Reset()
	for _, fence := range m.fences {
		if fence.waiting == "" {
			active++
		} else {
			m.blocked.WithLabelValues(fence.waiting).Inc()
		}
		if fence.failed {
			failed++
		}
		if fence.off != nil && (oldest == nil || fence.off.Before(oldest)) {
			oldest = fence.off
		}
	}
	m.active.Set(float64(active))
	m.failed.Set(float64(failed))
	if m.oldestOff.Reset(); oldest != nil {
		m.oldestOff.WithLabelValues().Set(float64(oldest.Unix()))
	}
}

// template is the template of a NodeFence; empty if it was created by hand.
func template(fence *fencingv1.NodeFence) string {
	return fence.Annotations[clusterv1.TemplateClonedFromNameAnnotation]
}
