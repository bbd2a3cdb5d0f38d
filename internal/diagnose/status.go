// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// CheckStatus is one line about a check. Numbers are nil if the check does not report them.
type CheckStatus struct {
	Kind        string `json:"kind"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	Cluster     string `json:"cluster"`
	Targets     *int32 `json:"targets,omitempty"`
	Healthy     *int32 `json:"healthy,omitempty"`
	Unhealthy   *int32 `json:"unhealthy,omitempty"`
	Remediating *int32 `json:"remediating,omitempty"`
	Blocked     *int32 `json:"blocked,omitempty"`
	// Ready is the status of the condition Ready, or of RemediationAllowed for an in-tree check. Paused checks have the reason Paused.
	Ready   string `json:"ready"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`

	created time.Time
}

// StatusColumns are the names of the columns of CheckStatus.Row.
var StatusColumns = []string{
	"NAMESPACE",
	"KIND",
	"NAME",
	"CLUSTER",
	"TARGETS",
	"HEALTHY",
	"UNHEALTHY",
	"REMEDIATING",
	"BLOCKED",
	"READY",
	"REASON",
	"AGE",
}

// Row returns the values of the columns.
func (s *CheckStatus) Row(now time.Time) []string {
	row := []string{s.Namespace, s.Kind, s.Name, s.Cluster}
	for _, n := range []*int32{s.Targets, s.Healthy, s.Unhealthy, s.Remediating, s.Blocked} {
		if n == nil {
			row = append(row, "-")
		} else {
			row = append(row, strconv.Itoa(int(*n)))
		}
	}
	return append(row, s.Ready, s.Reason, duration.HumanDuration(now.Sub(s.created)))
}

// attention orders checks: those that need a person, then those with unhealthy targets.
func (s *CheckStatus) attention() int {
	positive := func(n *int32) bool { return n != nil && *n > 0 }
	switch {
	case s.Ready == string(metav1.ConditionFalse):
		return 0
	case s.Ready != string(metav1.ConditionTrue):
		return 1
	case positive(s.Blocked):
		return 2
	case positive(s.Remediating), positive(s.Unhealthy):
		return 3
	case s.Reason == remedyv1.PausedReason:
		return 4
	}
	return 5
}

// Statuses returns the checks of a namespace, or of all namespaces if it is empty: first those that need attention. unread is why the
// in-tree checks are missing; empty if they are not.
func (c *Cluster) Statuses(ctx context.Context, namespace string) (all []CheckStatus, unread string, err error) {
	ctx, done := context.WithTimeout(ctx, requestTimeout)
	defer done()
	ours, inTree := &remedyv1.MachineHealthCheckList{}, &clusterv1.MachineHealthCheckList{}
	if err := c.client.List(ctx, ours, client.InNamespace(namespace)); err != nil {
		return nil, "", readError(err, "the MachineHealthChecks")
	}
	for i := range ours.Items {
		all = append(all, statusOf(&ours.Items[i]))
	}
	if err := c.client.List(ctx, inTree, client.InNamespace(namespace)); err != nil {
		unread = readError(err, inTreeKind).Error()
	}
	for i := range inTree.Items {
		all = append(all, statusOf(&inTree.Items[i]))
	}
	slices.SortFunc(all, func(a, b CheckStatus) int {
		return cmp.Or(
			cmp.Compare(a.attention(), b.attention()),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Kind, b.Kind),
		)
	})
	return all, unread, nil
}

// Watch calls changed for each change of a MachineHealthCheck of Remedy, until the context ends.
func (c *Cluster) Watch(ctx context.Context, namespace string, changed func(*CheckStatus) error) error {
	changes, err := c.client.Watch(ctx, &remedyv1.MachineHealthCheckList{}, client.InNamespace(namespace))
	if err != nil {
		return readError(err, "the changes of MachineHealthChecks")
	}
	defer changes.Stop()
	last := map[client.ObjectKey]CheckStatus{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-changes.ResultChan():
			if !open {
				return errors.New("the API server ended the watch: run the command again")
			}
			check, is := event.Object.(*remedyv1.MachineHealthCheck)
			if !is || event.Type == watch.Deleted {
				continue
			}
			s := statusOf(check)
			key := client.ObjectKeyFromObject(check)
			if was, known := last[key]; known && slices.Equal(was.Row(s.created), s.Row(s.created)) {
				continue
			}
			last[key] = s
			if err := changed(&s); err != nil {
				return err
			}
		}
	}
}

// statusOf returns the line about a check.
func statusOf(object client.Object) CheckStatus {
	s := CheckStatus{Namespace: object.GetNamespace(), Name: object.GetName(), created: object.GetCreationTimestamp().Time}
	var conditions []metav1.Condition
	summary := remedyv1.ReadyCondition
	switch check := object.(type) {
	case *remedyv1.MachineHealthCheck:
		status := &check.Status
		s.Kind, s.Cluster, conditions = ourKind, check.Spec.ClusterName, status.Conditions
		s.Targets, s.Healthy, s.Unhealthy = status.ExpectedMachines, status.CurrentHealthy, status.Unhealthy
		s.Remediating, s.Blocked = status.Remediating, status.Blocked
	case *clusterv1.MachineHealthCheck:
		s.Kind, s.Cluster, conditions = inTreeKind, check.Spec.ClusterName, check.Status.Conditions
		s.Targets, s.Healthy = check.Status.ExpectedMachines, check.Status.CurrentHealthy
		summary = clusterv1.MachineHealthCheckRemediationAllowedCondition
		if adopted(check) {
			s.Kind += " (adopted)"
		}
	}
	s.Ready = string(metav1.ConditionUnknown)
	if ready := meta.FindStatusCondition(conditions, summary); ready != nil {
		s.Ready, s.Reason, s.Message = string(ready.Status), ready.Reason, ready.Message
	} else {
		s.Message = "No controller has reported on this check yet"
	}
	// A paused check keeps its other conditions.
	if _, inTree := object.(*clusterv1.MachineHealthCheck); !inTree && meta.IsStatusConditionTrue(conditions, remedyv1.PausedCondition) {
		s.Reason = remedyv1.PausedReason
	}
	return s
}
