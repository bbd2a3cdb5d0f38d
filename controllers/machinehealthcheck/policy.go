// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"cmp"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// healthPolicy is what makes a Machine unhealthy.
func healthPolicy(spec *remedyv1.MachineHealthCheckSpec) health.Policy {
	policy := health.Policy{
		NodeStartupTimeout: healthcheck.Duration(spec.NodeStartupTimeout, remedyv1.DefaultNodeStartupTimeout),
		NodeGoneTimeout:    healthcheck.Duration(spec.NodeGoneTimeout, 0),
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
		Limits:            healthcheck.Limits(&spec.Limits, remedyv1.DefaultMaxUnhealthyMachines()),
		Counting:          remediation.CountNotHealthy,
		MaxInFlight:       spec.MaxInFlight,
		StormCooldown:     healthcheck.Duration(spec.StormCooldownDuration, 0),
		HealthyDelay:      healthcheck.Duration(spec.HealthyDelay, 0),
		RecoveryConfirmed: spec.Recovery == remedyv1.ConfirmedRecovery,
		ReportsHealth:     true,
		Observe:           spec.Mode == remedyv1.ObserveMode,
		Steps:             steps(namespace, spec, naming),
		Backoff: remediation.Backoff{
			Initial: healthcheck.Duration(spec.Backoff.Initial, remedyv1.DefaultBackoffInitial),
			Limit:   healthcheck.Duration(spec.Backoff.Limit, remedyv1.DefaultBackoffLimit),
		},
		// An owner has as long as a Node has to join.
		ReplacementTimeout: cmp.Or(
			healthcheck.Duration(spec.NodeStartupTimeout, remedyv1.DefaultNodeStartupTimeout),
			remedyv1.DefaultNodeStartupTimeout,
		),
	}
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
		step := remediation.Step{
			ID:         remediation.StepID{Order: each.Order},
			Owner:      each.Owner != nil,
			Timeout:    healthcheck.Duration(each.Timeout, 0),
			Conditions: healthcheck.Causes(each.Conditions),
		}
		if each.RemediationTemplate != nil {
			step.ID = naming.StepID(each.Order, reference(namespace, each.RemediationTemplate))
		}
		all = append(all, step)
	}
	return all
}
