// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"maps"
	"slices"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// Kind is what NodeHealthChecks are called, in annotations, messages and metrics.
const Kind = string(metrics.NodeHealthCheck)

// CheckOf is a NodeHealthCheck as it is reconciled.
func CheckOf(check *remedyv1.NodeHealthCheck) *healthcheck.Check {
	spec, templates := &check.Spec, references(&check.Spec)
	naming := requests.Naming(templates)
	return &healthcheck.Check{
		ID:            requests.Check{Kind: Kind, Name: check.Name},
		Object:        check,
		Cluster:       clusterKey(spec),
		Paused:        annotations.HasPaused(check),
		Status:        check.Status.CheckStatus,
		Templates:     templates,
		Naming:        naming,
		Selector:      healthcheck.Compiled(check, func() (labels.Selector, error) { return selector(spec) }),
		Health:        healthPolicy(spec),
		Policy:        remediationPolicy(spec, naming),
		PauseRequests: spec.PauseRequests,
		Claim:         remediation.Claim{Rank: remediation.NodeHealthCheck, Name: check.Name},
		Place:         place(spec),
		InFlight:      slices.Sorted(maps.Keys(check.Status.InFlightRemediations)),
	}
}

// clusterKey is the cluster of the Nodes.
func clusterKey(spec *remedyv1.NodeHealthCheckSpec) client.ObjectKey {
	if spec.ClusterRef == nil {
		return workload.ManagementCluster
	}
	return client.ObjectKey{Namespace: spec.ClusterRef.Namespace, Name: spec.ClusterRef.Name}
}

// place is where the requests are.
func place(spec *remedyv1.NodeHealthCheckSpec) requests.Place {
	switch {
	case spec.ClusterRef == nil:
		return requests.InOneCluster
	case spec.TemplateLocation == remedyv1.WorkloadLocation:
		return requests.InWorkload
	}
	return requests.InManagement
}

// selector selects Nodes. Without one in the spec, it selects those that do not belong to the control plane.
func selector(spec *remedyv1.NodeHealthCheckSpec) (labels.Selector, error) {
	if spec.Selector != nil {
		return spec.Selector.Labels()
	}
	workers := &metav1.LabelSelector{}
	for _, label := range workload.ControlPlaneLabels {
		absent := metav1.LabelSelectorRequirement{Key: label, Operator: metav1.LabelSelectorOpDoesNotExist}
		workers.MatchExpressions = append(workers.MatchExpressions, absent)
	}
	return metav1.LabelSelectorAsSelector(workers)
}

// references are the templates that a check names.
func references(spec *remedyv1.NodeHealthCheckSpec) []requests.Reference {
	var all []requests.Reference
	if spec.RemediationTemplate != nil {
		all = append(all, reference(spec.RemediationTemplate))
	}
	for i := range spec.EscalatingRemediations {
		all = append(all, reference(&spec.EscalatingRemediations[i].RemediationTemplate))
	}
	return all
}

func reference(t *remedyv1.NodeTemplateReference) requests.Reference {
	return requests.Reference{APIVersion: t.APIVersion, Kind: t.Kind, Namespace: t.Namespace, Name: t.Name}
}

// store reads and writes NodeHealthChecks.
type store struct {
	*healthcheck.Environment
}

// Kind is what the checks are called.
func (store) Kind() string { return Kind }

// Object is an empty check.
func (store) Object() client.Object { return &remedyv1.NodeHealthCheck{} }

// Find reads a check and its Cluster, which is nil if it does not exist, or if the check names none.
func (s store) Find(ctx context.Context, reader client.Reader, key client.ObjectKey) (*healthcheck.Check, *clusterv1.Cluster, error) {
	object := &remedyv1.NodeHealthCheck{}
	if err := reader.Get(ctx, key, object); err != nil {
		return nil, nil, errors.Wrap(err, "failed to read the check")
	}
	check := CheckOf(object)
	if check.Cluster == workload.ManagementCluster {
		return check, nil, nil
	}
	if s.NoClusterAPI.Load() {
		// The Cluster may exist, so nothing is cleaned up.
		return nil, nil, errors.New("Cluster API is not served, so the Cluster of the check cannot be read; install or upgrade Cluster API")
	}
	cluster, err := healthcheck.ClusterOf(ctx, reader, check.Cluster)
	return check, cluster, err
}

// WriteStatus writes the status of a check, unless it has it already.
func (s store) WriteStatus(
	ctx context.Context, check *healthcheck.Check, status *remedyv1.CheckStatus, evaluation *explain.Evaluation,
) (*healthcheck.Check, error) {
	before := check.Object.(*remedyv1.NodeHealthCheck)
	after := before.DeepCopy()
	after.Status.CheckStatus = *status
	if evaluation.Context.NodesUnknown {
		// Without the number of Nodes there is no limit.
		after.Status.Limit = before.Status.Limit
	}
	Count(&after.Status, evaluation)
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return check, nil
	}
	if err := s.Client.Status().Patch(ctx, after, client.MergeFrom(before)); err != nil {
		return nil, errors.Wrap(err, "failed to write the status of the check")
	}
	return CheckOf(after), nil
}

// maxInFlight is how many requests a status lists.
const maxInFlight = 1000

// Count sets what only checks of Nodes report. It stays as it is while the check is paused, and while the Nodes cannot be read and are not
// known.
func Count(status *remedyv1.NodeHealthCheckStatus, evaluation *explain.Evaluation) {
	if evaluation.Situation.Check.Paused || evaluation.Context.NodesUnknown {
		return
	}
	before := status.InFlightRemediations
	status.ObservedNodes = explain.Number(evaluation.Assessment.Counts.Expected)
	status.HealthyNodes = explain.Number(evaluation.Planned.Counts.Healthy)
	status.InFlightRemediations = nil
	add := func(name string, r *remediation.Request) {
		if r == nil || len(status.InFlightRemediations) == maxInFlight {
			return
		}
		if status.InFlightRemediations == nil {
			status.InFlightRemediations = map[string]metav1.Time{}
		}
		status.InFlightRemediations[name] = metav1.NewTime(r.Started.UTC()).Rfc3339Copy()
	}
	if evaluation.Context.UnlistableRequests != "" {
		// Requests that cannot be read may still exist.
		status.InFlightRemediations = maps.Clone(before)
	}
	for i := range evaluation.Situation.Targets {
		add(evaluation.Situation.Targets[i].Name, evaluation.Situation.Targets[i].Request)
	}
	for i := range evaluation.Situation.Orphans {
		add(evaluation.Situation.Orphans[i].Name, evaluation.Situation.Orphans[i].Request)
	}
}
