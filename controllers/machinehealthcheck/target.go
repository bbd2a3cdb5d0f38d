// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
)

// Facts are what is known of a Machine and its Node.
func (Source) Facts(check *healthcheck.Check, t *healthcheck.Target, facts *health.MachineFacts) (health.Target, remediation.Target) {
	m := t.Machine
	*facts = health.MachineFacts{
		CreatedAt:           m.CreationTimestamp.Time,
		Deleting:            !m.DeletionTimestamp.IsZero(),
		ControlPlane:        t.ControlPlane,
		InfrastructureReady: clusterapi.Milestone(m.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition),
		ProviderID:          m.Spec.ProviderID,
		Failure:             failure(m),
		NodeGoneSince:       notes.NodeGoneSince(m.Annotations),
		Conditions:          m.Status.Conditions,
	}
	h := health.Target{
		Name:    m.Name,
		Node:    t.Reading.Facts(&t.NodeTarget),
		Machine: facts,
		Annotations: health.Annotations{
			Paused:          annotations.HasPaused(m),
			SkipRemediation: annotations.HasSkipRemediation(m),
			Remediate:       annotations.HasRemediateMachine(m),
		},
	}
	return h, remediationFacts(check, t)
}

// remediationFacts are what is known of a Machine beyond its health.
func remediationFacts(check *healthcheck.Check, t *healthcheck.Target) remediation.Target {
	m, node := t.Machine, t.Reading.Node
	r := remediation.Target{
		Name:             m.Name,
		Node:             m.Status.NodeRef.Name,
		ControlPlane:     t.ControlPlane,
		Owner:            clusterapi.RemediatingOwner(m),
		OwnerRemediation: report.OwnerRemediation(m, check.MarkedBy()),
		History:          notes.History(m.Annotations),
		NodeGoneSince:    notes.NodeGoneSince(m.Annotations),
		Terminating:      departure(m, node),
	}
	if !m.DeletionTimestamp.IsZero() {
		r.DeletingSince = m.DeletionTimestamp.Time
	}
	if node != nil {
		r.Excluded = node.Labels[remedyv1.ExcludeLabel] == "true"
		_, r.Confirmed = node.Annotations[remedyv1.ConfirmedHealthyAnnotation]
		if !node.DeletionTimestamp.IsZero() {
			r.NodeDeletingSince = health.KnownTime(node.DeletionTimestamp.Time, node.CreationTimestamp.Time)
		}
	}
	return r
}

// failure is what a provider has written into the deprecated fields for that; empty if nothing.
func failure(m *clusterv1.Machine) string {
	if m.Status.Deprecated == nil {
		return ""
	}
	older := m.Status.Deprecated.V1Beta1 //nolint:staticcheck // providers that set it mean it
	if older == nil {
		return ""
	}
	var parts []string
	if reason := older.FailureReason; reason != nil && *reason != "" { //nolint:staticcheck // as above
		parts = append(parts, string(*reason))
	}
	if message := older.FailureMessage; message != nil && *message != "" { //nolint:staticcheck // as above
		parts = append(parts, *message)
	}
	return strings.Join(parts, ": ")
}

// departure is a sign that a Machine will be deleted.
func departure(m *clusterv1.Machine, node *corev1.Node) remediation.Departure {
	if _, marked := m.Annotations[clusterv1.DeleteMachineAnnotation]; marked {
		return remediation.Departure{Sign: "the annotation " + clusterv1.DeleteMachineAnnotation}
	}
	return healthcheck.Departure(node)
}
