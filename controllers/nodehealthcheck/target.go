// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// Facts are what is known of a Node. Its health does not depend on its Machine.
func (source) Facts(_ *healthcheck.Check, t *healthcheck.Target, _ *health.MachineFacts) (health.Target, remediation.Target) {
	node := t.Object.(*corev1.Node)
	_, skipped := node.Annotations[remedyv1.SkipRemediationAnnotation]
	_, remediate := node.Annotations[remedyv1.RemediateNodeAnnotation]
	// A request would have the Machine of another server as its owner.
	remediate = remediate && workload.ReadErrorReasonOf(t.Reading.Err) != workload.DifferentProviderID
	h := health.Target{
		Name:        node.Name,
		Node:        t.Reading.Facts(&t.NodeTarget),
		Annotations: health.Annotations{Paused: annotations.HasPaused(node), SkipRemediation: skipped, Remediate: remediate},
	}
	r := remediation.Target{
		Name: node.Name, Node: node.Name,
		ControlPlane: t.ControlPlane,
		History:      notes.History(node.Annotations),
		Terminating:  departure(t.Machine, node),
		Excluded:     node.Labels[remedyv1.ExcludeLabel] == "true",
	}
	_, r.Confirmed = node.Annotations[remedyv1.ConfirmedHealthyAnnotation]
	if !node.DeletionTimestamp.IsZero() {
		r.NodeDeletingSince = health.KnownTime(node.DeletionTimestamp.Time, node.CreationTimestamp.Time)
	}
	if t.Machine != nil && !t.Machine.DeletionTimestamp.IsZero() {
		r.DeletingSince = t.Machine.DeletionTimestamp.Time
	}
	return h, r
}

// departure is a sign that a Node will be deleted.
func departure(machine *clusterv1.Machine, node *corev1.Node) remediation.Departure {
	if machine != nil {
		if _, marked := machine.Annotations[clusterv1.DeleteMachineAnnotation]; marked {
			return remediation.Departure{Sign: "the annotation " + clusterv1.DeleteMachineAnnotation + " of its Machine"}
		}
	}
	return healthcheck.Departure(node)
}
