// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
)

// maxEvents is how many targets events are about in one pass. The log and the status tell about all.
const maxEvents = 50

// tellNews logs a line for each decision that has changed, and tells events: on the check, and on the Machine that they are about.
func (v *visit) tellNews(ctx context.Context, news []report.News) {
	log := ctrl.LoggerFrom(ctx)
	for i := range news {
		n := &news[i]
		log.Info("Decided", n.Trace.Fields()...)
		if n.Recovered {
			v.r.Metrics.HealthyAgain(metrics.Kind(kindOf(v.check)), v.now.Sub(n.SickSince))
		}
		if i >= maxEvents {
			continue
		}
		m := v.seen.machines[n.Target]
		for _, e := range n.Events {
			v.r.Events.Eventf(v.check, m, e.Type, e.Reason, action, "%s", e.Message)
			v.r.Events.Eventf(m, v.check, e.Type, e.Reason, action, "%s", e.Message)
		}
	}
}

// tellConditions tells what has changed for the check as a whole, when that stands in its status.
func (v *visit) tellConditions(ctx context.Context, before, after []metav1.Condition) {
	for _, e := range explain.ConditionEvents(before, after) {
		ctrl.LoggerFrom(ctx).Info("A condition has changed", "type", e.Type, "reason", e.Reason, "message", e.Message)
		v.r.Events.Eventf(v.check, nil, e.Type, e.Reason, action, "%s", e.Message)
	}
}

// action is what all events are about.
const action = "Remediate"

// count keeps the metrics of the check.
func (v *visit) count(pass *explain.Pass, ended []report.Ending) {
	check := metrics.Check{Kind: metrics.Kind(kindOf(v.check)), Namespace: v.check.Namespace, Name: v.check.Name}
	observed := metrics.ObservationOf(pass, v.check.Status.Conditions)
	v.r.Metrics.Observe(check, &observed)
	for i := range pass.Planned.Decisions {
		switch pass.Planned.Decisions[i].Action { //nolint:exhaustive // the others start nothing
		case remediation.MakeRequest:
			v.r.Metrics.Started(check, metrics.Template)
		case remediation.GiveMark:
			v.r.Metrics.Started(check, metrics.Owner)
		}
		for _, a := range pass.Planned.Decisions[i].Asked {
			if a.Again && a.Held {
				v.r.Metrics.ConfirmAborted(a.Guard)
			}
		}
	}
	for i := range ended {
		strategy := metrics.Template
		if ended[i].ByOwner {
			strategy = metrics.Owner
		}
		v.r.Metrics.Ended(check, strategy, metrics.OutcomeOf(ended[i].Outcome))
	}
}
