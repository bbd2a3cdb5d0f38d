// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// question is how the Node of a Machine is asked for.
func question(m *clusterv1.Machine) workload.Target {
	return workload.Target{Name: m.Status.NodeRef.Name, ProviderID: m.Spec.ProviderID}
}

// healthTarget is what a verdict on a Machine rests on. Its facts are put where there is a place for them.
func (s *seen) healthTarget(i int, facts *health.MachineFacts) health.Target {
	m, asked := s.machines[i], question(s.machines[i])
	*facts = health.MachineFacts{
		CreatedAt:           m.CreationTimestamp.Time,
		Deleting:            !m.DeletionTimestamp.IsZero(),
		ControlPlane:        util.IsControlPlaneMachine(m),
		InfrastructureReady: milestone(m.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition),
		ProviderID:          m.Spec.ProviderID,
		Failure:             failure(m),
		NodeGoneSince:       cmp.Or(notes.NodeGoneSince(m.Annotations), s.absences[m.UID]),
		Conditions:          m.Status.Conditions,
	}
	return health.Target{
		Name:    m.Name,
		Node:    s.readings[i].Facts(&asked),
		Machine: facts,
		Wishes: health.Wishes{
			Paused:          annotations.HasPaused(m),
			SkipRemediation: annotations.HasSkipRemediation(m),
			Remediate:       annotations.HasRemediateMachine(m),
		},
	}
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
	var said []string
	if reason := older.FailureReason; reason != nil && *reason != "" { //nolint:staticcheck // as above
		said = append(said, string(*reason))
	}
	if message := older.FailureMessage; message != nil && *message != "" { //nolint:staticcheck // as above
		said = append(said, *message)
	}
	return strings.Join(said, ": ")
}

// target is what matters about a Machine beyond its health.
func (s *seen) target(i int) remediation.Target {
	m, node := s.machines[i], s.readings[i].Node
	t := remediation.Target{
		Name:          m.Name,
		Node:          m.Status.NodeRef.Name,
		ControlPlane:  util.IsControlPlaneMachine(m),
		Owner:         remediatingOwner(m),
		Mark:          s.mark(m),
		Ledger:        notes.Ledger(m.Annotations),
		NodeGoneSince: notes.NodeGoneSince(m.Annotations),
		NameTaken:     s.taken[m.Name],
		ThawedAt:      s.thaws[m.UID],
		Leaving:       departure(m, node),
	}
	carer, title := s.carer(m, node)
	t.CoveredBy, t.CoveredUntil, t.CoveredElsewhere = title, carer.Until, title != "" && carer.Rank != remediation.MachineHealthCheck
	if !m.DeletionTimestamp.IsZero() {
		t.DeletingSince = m.DeletionTimestamp.Time
	}
	if node != nil {
		t.Excluded = node.Labels[remedyv1.ExcludeLabel] == "true"
		_, t.Confirmed = node.Annotations[remedyv1.ConfirmedHealthyAnnotation]
		if t.DeletingSince.IsZero() && !node.DeletionTimestamp.IsZero() {
			t.DeletingSince = node.DeletionTimestamp.Time
		}
	}
	if found := s.requestFor(m); found != nil {
		t.Request = found.Request(s.naming)
	}
	return t
}

// remediatingOwner is the controller of a Machine, as kind/name. A MachinePool never replaces single Machines.
func remediatingOwner(m *clusterv1.Machine) string {
	owner := metav1.GetControllerOfNoCopy(m)
	if owner == nil || owner.Kind == "MachinePool" {
		return ""
	}
	return owner.Kind + "/" + owner.Name
}

// departure is a sign that a Machine is about to go by itself.
func departure(m *clusterv1.Machine, node *corev1.Node) remediation.Departure {
	if _, marked := m.Annotations[clusterv1.DeleteMachineAnnotation]; marked {
		return remediation.Departure{Sign: "the annotation " + clusterv1.DeleteMachineAnnotation}
	}
	if node == nil {
		return remediation.Departure{}
	}
	taint := workload.DepartureTaint(node)
	if taint == nil {
		return remediation.Departure{}
	}
	d := remediation.Departure{Sign: "the taint " + taint.Key}
	switch seconds, err := strconv.ParseInt(taint.Value, 10, 64); {
	case taint.TimeAdded != nil:
		d.Since = taint.TimeAdded.Time
	// The autoscaler writes the time into the value.
	case err == nil && seconds > 0:
		d.Since = time.Unix(seconds, 0).UTC()
	}
	return d
}
