// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// Kind is what MachineHealthChecks are called, in annotations, messages and metrics.
const Kind = string(metrics.MachineHealthCheck)

// CheckOf is a MachineHealthCheck as it is reconciled.
func CheckOf(check *remedyv1.MachineHealthCheck) *healthcheck.Check {
	return NewCheck(Kind, check, &check.Spec, healthcheck.Compiled(check, check.Spec.Selector.Labels), &check.Status.CheckStatus)
}

// NewCheck is a check of Machines, whichever kind of object it is.
func NewCheck(
	kind string, object client.Object, spec *remedyv1.MachineHealthCheckSpec, selector labels.Selector, status *remedyv1.CheckStatus,
) *healthcheck.Check {
	namespace, name := object.GetNamespace(), object.GetName()
	templates := references(namespace, spec)
	naming := requests.Naming(templates)
	return &healthcheck.Check{
		ID:        requests.Check{Kind: kind, Namespace: namespace, Name: name},
		Object:    object,
		Cluster:   client.ObjectKey{Namespace: namespace, Name: spec.ClusterName},
		Paused:    annotations.HasPaused(object),
		Status:    *status,
		Templates: templates, Naming: naming,
		Selector:      selector,
		Health:        healthPolicy(spec),
		Policy:        remediationPolicy(namespace, spec, naming),
		PauseRequests: spec.PauseRequests,
		Claim:         remediation.Claim{Rank: remediation.MachineHealthCheck, Namespace: namespace, Name: name},
	}
}

// references are the templates that a check names, in its namespace.
func references(namespace string, spec *remedyv1.MachineHealthCheckSpec) []requests.Reference {
	var all []requests.Reference
	add := func(t *remedyv1.MachineTemplateReference) {
		if t != nil {
			all = append(all, reference(namespace, t))
		}
	}
	add(spec.RemediationTemplate)
	for i := range spec.EscalatingRemediations {
		add(spec.EscalatingRemediations[i].RemediationTemplate)
	}
	return all
}

func reference(namespace string, t *remedyv1.MachineTemplateReference) requests.Reference {
	return requests.Reference{APIVersion: t.APIVersion, Kind: t.Kind, Namespace: namespace, Name: t.Name}
}

// store reads and writes MachineHealthChecks.
type store struct{ client client.Client }

// Kind is what the checks are called.
func (store) Kind() string { return Kind }

// Object is an empty check.
func (store) Object() client.Object { return &remedyv1.MachineHealthCheck{} }

// Find reads a check and its Cluster, which is nil if it does not exist.
func (store) Find(ctx context.Context, reader client.Reader, key client.ObjectKey) (*healthcheck.Check, *clusterv1.Cluster, error) {
	check := &remedyv1.MachineHealthCheck{}
	if err := reader.Get(ctx, key, check); err != nil {
		return nil, nil, errors.Wrap(err, "failed to read the check")
	}
	cluster, err := healthcheck.ClusterOf(ctx, reader, client.ObjectKey{Namespace: key.Namespace, Name: check.Spec.ClusterName})
	return CheckOf(check), cluster, err
}

// WriteStatus writes the status of a check, unless it has it already.
func (s store) WriteStatus(
	ctx context.Context, check *healthcheck.Check, status *remedyv1.CheckStatus, evaluation *explain.Evaluation,
) (*healthcheck.Check, error) {
	before := check.Object.(*remedyv1.MachineHealthCheck)
	after := before.DeepCopy()
	after.Status.CheckStatus = *status
	Count(&after.Status, evaluation)
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return check, nil
	}
	if err := s.client.Status().Patch(ctx, after, client.MergeFrom(before)); err != nil {
		return nil, errors.Wrap(err, "failed to write the status of the check")
	}
	return CheckOf(after), nil
}

// maxTargets is how many names a status lists.
const maxTargets = 1000

// Count sets what only checks of Machines report. While the check is paused, it stays as it is.
func Count(status *remedyv1.MachineHealthCheckStatus, evaluation *explain.Evaluation) {
	if evaluation.Situation.Check.Paused {
		return
	}
	status.ExpectedMachines = explain.Number(evaluation.Assessment.Counts.Expected)
	status.CurrentHealthy = explain.Number(evaluation.Planned.Counts.Healthy)
	status.Targets = nil
	for i := range evaluation.Snapshot.Targets {
		if len(status.Targets) == maxTargets {
			break
		}
		if evaluation.Assessment.Verdicts[i].Kind != health.Skipped {
			status.Targets = append(status.Targets, evaluation.Snapshot.Targets[i].Name)
		}
	}
}
