// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
)

// Entry is one thing that has happened to a Machine, or will happen.
type Entry struct {
	Time    *metav1.Time `json:"time,omitempty"`
	Check   string       `json:"check,omitempty"`
	Message string       `json:"message"`
}

// HistoryOf returns what the checks of its Cluster and the Machine itself record about its remediations, the oldest first. A Machine that
// was replaced no longer exists: its name is enough then.
func (c *Cluster) HistoryOf(ctx context.Context, s Subject) ([]Entry, error) {
	m, err := c.machineOf(ctx, s)
	if err != nil && (s.Node || !notFound(err)) {
		return nil, err
	}
	name := s.Name
	var all []Entry
	if err == nil {
		name = m.Name
		all = fromMachine(m)
	}
	ours := &remedyv1.MachineHealthCheckList{}
	ctx, done := context.WithTimeout(ctx, requestTimeout)
	defer done()
	if err := c.client.List(ctx, ours, client.InNamespace(s.Namespace)); err != nil {
		return nil, readError(err, "the MachineHealthChecks of namespace "+s.Namespace)
	}
	for i := range ours.Items {
		all = append(all, fromCheck(&ours.Items[i], name)...)
	}
	if len(all) == 0 && err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b Entry) int { return at(a.Time).Compare(at(b.Time)) })
	return all, nil
}

// fromCheck returns what the status of a check reports about a Machine.
func fromCheck(check *remedyv1.MachineHealthCheck, machine string) []Entry {
	title := ourKind + " " + client.ObjectKeyFromObject(check).String()
	var all []Entry
	for i := range check.Status.RecentRemediations {
		r := &check.Status.RecentRemediations[i]
		if r.Target != machine {
			continue
		}
		step := ""
		if r.Step != nil {
			step = fmt.Sprintf(" of step %d", *r.Step)
		}
		all = append(all, Entry{&r.StartTime, title, "Remediation" + step + " started"},
			Entry{&r.CompletionTime, title, "Remediation" + step + " ended: " + string(r.Outcome)})
	}
	for i := range check.Status.UnhealthyTargets {
		t := &check.Status.UnhealthyTargets[i]
		if t.Name != machine {
			continue
		}
		all = append(all, Entry{t.SinceTime, title, string(t.Reason) + ": " + joined(string(t.Decision), string(t.BlockedReason), t.Message)})
	}
	return all
}

// fromMachine returns what the annotations of a Machine record.
func fromMachine(m *clusterv1.Machine) []Entry {
	var all []Entry
	by := notes.ResponsibleCheck(m.Annotations)
	history := notes.History(m.Annotations)
	if history.Failures > 0 {
		text := fmt.Sprintf("%d remediation attempts have failed since the Machine was healthy", history.Failures)
		if history.Failures == 1 {
			text = "1 remediation attempt has failed since the Machine was healthy"
		}
		all = append(all, Entry{nil, by, text})
	}
	if !history.NotBefore.IsZero() {
		all = append(all, Entry{&metav1.Time{Time: history.NotBefore}, by, "The next attempt is possible from this time on"})
	}
	if !m.DeletionTimestamp.IsZero() {
		all = append(all, Entry{m.DeletionTimestamp, "", "The deletion of the Machine was requested"})
	}
	return all
}

// at orders entries: those without a time come first.
func at(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
