// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"slices"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

// Metrics are the metrics of checks. No label names a Node.
type Metrics struct{ reachable *prometheus.GaugeVec }

// NewMetrics creates the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{reachable: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "remedy_fence_device_reachable",
		Help: "1 if the devices of a method answered in the last checks of all Nodes of a FenceProfile, 0 if one did not.",
	}, []string{"namespace", "profile", "method"})}
	return m, errors.Wrap(registerer.Register(m.reachable), "failed to register the metrics of checks")
}

// set sets the series of a profile: all of them follow from its status, which is empty without an interval.
func (m *Metrics) set(p *fencingv1.FenceProfile) {
	m.forget(client.ObjectKeyFromObject(p))
	if !slices.ContainsFunc(p.Status.Nodes, func(n fencingv1.CheckedNode) bool { return asks(n.Reason) }) {
		return
	}
	for i := range p.Spec.Methods {
		if name := p.Spec.Methods[i].Name; asked(p, &p.Spec.Methods[i]) {
			m.reachable.WithLabelValues(p.Namespace, p.Name, string(name)).Set(1)
			if slices.ContainsFunc(p.Status.Nodes, func(n fencingv1.CheckedNode) bool { return slices.Contains(n.Unreachable, name) }) {
				m.reachable.WithLabelValues(p.Namespace, p.Name, string(name)).Set(0)
			}
		}
	}
}

// forget removes the series of a profile.
func (m *Metrics) forget(key client.ObjectKey) {
	m.reachable.DeletePartialMatch(prometheus.Labels{"namespace": key.Namespace, "profile": key.Name})
}

// asked reports whether a check asks the device of a method.
func asked(p *fencingv1.FenceProfile, method *fencingv1.FenceMethod) bool {
	switches := slices.ContainsFunc(p.Spec.PowerManagement, func(level fencingv1.PowerLevel) bool {
		return slices.Contains(level.Methods, method.Name)
	})
	return (switches || slices.Contains(p.Spec.Isolation, method.Name)) && method.Agent != profile.KernelDumpAgent
}
