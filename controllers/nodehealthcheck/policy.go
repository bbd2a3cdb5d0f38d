// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// healthPolicy is what makes a Node unhealthy.
func healthPolicy(spec *remedyv1.NodeHealthCheckSpec) health.Policy {
	policy := health.Policy{}
	for _, c := range spec.UnhealthyConditions {
		policy.NodeConditions = append(policy.NodeConditions, health.ConditionCheck{
			Type: string(c.Type), Status: string(c.Status), Lasting: c.Duration.Duration.Duration,
		})
	}
	return policy
}

// remediationPolicy is how unhealthy Nodes are remediated.
func remediationPolicy(spec *remedyv1.NodeHealthCheckSpec, naming requests.Naming) remediation.Policy {
	return remediation.Policy{
		Limits:            healthcheck.Limits(&spec.Limits, remedyv1.DefaultMaxUnhealthyNodes()),
		Counting:          remediation.CountUnhealthy,
		MaxInFlight:       spec.MaxInFlight,
		StormCooldown:     healthcheck.Duration(spec.StormCooldownDuration, 0),
		HealthyDelay:      healthcheck.Duration(spec.HealthyDelay, 0),
		RecoveryConfirmed: spec.Recovery == remedyv1.ConfirmedRecovery,
		Observe:           spec.Mode == remedyv1.ObserveMode,
		Steps:             steps(spec, naming),
		Backoff: remediation.Backoff{
			Initial: healthcheck.Duration(spec.Backoff.Initial, remedyv1.DefaultBackoffInitial),
			Limit:   healthcheck.Duration(spec.Backoff.Limit, remedyv1.DefaultBackoffLimit),
		},
	}
}

// steps are those of the check: one template, or several.
func steps(spec *remedyv1.NodeHealthCheckSpec, naming requests.Naming) []remediation.Step {
	if spec.RemediationTemplate != nil {
		return []remediation.Step{{ID: naming.StepID(0, reference(spec.RemediationTemplate))}}
	}
	all := make([]remediation.Step, 0, len(spec.EscalatingRemediations))
	for i := range spec.EscalatingRemediations {
		each := &spec.EscalatingRemediations[i]
		all = append(all, remediation.Step{
			ID: naming.StepID(each.Order, reference(&each.RemediationTemplate)), Timeout: each.Timeout.Duration.Duration,
			Conditions: healthcheck.Causes(each.Conditions),
		})
	}
	return all
}
