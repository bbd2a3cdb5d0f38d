// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"cmp"
	"time"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// healthPolicy is what makes a Machine unhealthy.
func healthPolicy(spec *remedyv1.MachineHealthCheckSpec) health.Policy {
	policy := health.Policy{
		NodeStartupTimeout: duration(spec.NodeStartupTimeout, remedyv1.DefaultNodeStartupTimeout),
		NodeGoneTimeout:    duration(spec.NodeGoneTimeout, 0),
	}
	for _, c := range spec.UnhealthyConditions {
		policy.NodeConditions = append(policy.NodeConditions, health.ConditionCheck{
			Type: string(c.Type), Status: string(c.Status), Lasting: c.Timeout.Duration.Duration,
		})
	}
	for _, c := range spec.UnhealthyMachineConditions {
		policy.MachineConditions = append(policy.MachineConditions, health.ConditionCheck{
			Type: string(c.Type), Status: string(c.Status), Lasting: c.Timeout.Duration.Duration,
		})
	}
	return policy
}

// remediationPolicy is how unhealthy Machines are remediated.
func remediationPolicy(namespace string, spec *remedyv1.MachineHealthCheckSpec, naming requests.Naming) remediation.Policy {
	return remediation.Policy{
		Limits:            limits(&spec.Limits),
		Counting:          remediation.CountNotHealthy,
		MaxInFlight:       spec.MaxInFlight,
		StormCooldown:     duration(spec.StormCooldownDuration, 0),
		HealthyDelay:      duration(spec.HealthyDelay, 0),
		RecoveryConfirmed: spec.Recovery == remedyv1.ConfirmedRecovery,
		ReportsHealth:     true,
		Observe:           spec.Mode == remedyv1.ObserveMode,
		Steps:             steps(namespace, spec, naming),
		Backoff: remediation.Backoff{
			Initial: duration(spec.Backoff.Initial, remedyv1.DefaultBackoffInitial),
			Limit:   duration(spec.Backoff.Limit, remedyv1.DefaultBackoffLimit),
		},
		// An owner has as long as a Node has to join.
		ReplacementTimeout: cmp.Or(duration(spec.NodeStartupTimeout, remedyv1.DefaultNodeStartupTimeout), remedyv1.DefaultNodeStartupTimeout),
	}
}

func limits(l *remedyv1.Limits) remediation.Limits {
	all := remediation.Limits{MaxUnhealthy: l.MaxUnhealthy, MinHealthy: l.MinHealthy, Default: remedyv1.DefaultMaxUnhealthyMachines()}
	if l.UnhealthyRange != "" {
		// Admission lets nothing else through; but a check of Cluster API may have a range that no number lies in.
		all.Range = &remediation.Range{Least: 1}
		if r, err := remediation.ParseRange(l.UnhealthyRange); err == nil {
			all.Range = &r
		}
	}
	return all
}

// steps are those of the check: one template, several, or the owner.
func steps(namespace string, spec *remedyv1.MachineHealthCheckSpec, naming requests.Naming) []remediation.Step {
	switch {
	case spec.RemediationTemplate != nil:
		return []remediation.Step{{ID: naming.StepID(0, reference(namespace, spec.RemediationTemplate))}}
	case len(spec.EscalatingRemediations) == 0:
		return []remediation.Step{{Owner: true}}
	}
	all := make([]remediation.Step, 0, len(spec.EscalatingRemediations))
	for i := range spec.EscalatingRemediations {
		each := &spec.EscalatingRemediations[i]
		step := remediation.Step{ID: remediation.StepID{Order: each.Order}, Owner: each.Owner != nil, Timeout: duration(each.Timeout, 0)}
		if each.RemediationTemplate != nil {
			step.ID = naming.StepID(each.Order, reference(namespace, each.RemediationTemplate))
		}
		all = append(all, step)
	}
	return all
}

func duration(d *remedyv1.Duration, absent time.Duration) time.Duration {
	if d == nil {
		return absent
	}
	return d.Duration.Duration
}
