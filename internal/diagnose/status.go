// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// CheckStatus is one line about a check. Numbers are nil if the check does not report them.
type CheckStatus struct {
	Kind string `json:"kind"`
	// Namespace is empty for a NodeHealthCheck, and Cluster for one without clusterRef.
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name"`
	Cluster     string `json:"cluster,omitempty"`
	Targets     *int32 `json:"targets,omitempty"`
	Healthy     *int32 `json:"healthy,omitempty"`
	Unhealthy   *int32 `json:"unhealthy,omitempty"`
	Remediating *int32 `json:"remediating,omitempty"`
	Blocked     *int32 `json:"blocked,omitempty"`
	// Mode is Enforce or Observe: the mode of the check, or that of the manager if it reports that. Allowed is the status of the condition
	// RemediationAllowed.
	Mode    remedyv1.Mode `json:"mode,omitempty"`
	Allowed string        `json:"allowed,omitempty"`
	// Ready is the status of the condition Ready. An in-tree check has that of Adopted if that is False for a reason that needs a person,
	// and that of RemediationAllowed if it is not adopted. Paused checks have the reason Paused.
	Ready   string `json:"ready"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`

	Created time.Time `json:"-"`
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
	"MODE",
	"ALLOWED",
	"READY",
	"REASON",
	"AGE",
}

// Title is the kind and the name of the check.
func (s *CheckStatus) Title() string {
	if s.Namespace == "" {
		return s.Kind + " " + s.Name
	}
	return s.Kind + " " + s.Namespace + "/" + s.Name
}

// Row returns the values of the columns.
func (s *CheckStatus) Row(now time.Time) []string {
	row := []string{cmp.Or(s.Namespace, "-"), s.Kind, s.Name, cmp.Or(s.Cluster, "-")}
	for _, n := range []*int32{s.Targets, s.Healthy, s.Unhealthy, s.Remediating, s.Blocked} {
		if n == nil {
			row = append(row, "-")
		} else {
			row = append(row, strconv.Itoa(int(*n)))
		}
	}
	return append(row, cmp.Or(string(s.Mode), "-"), cmp.Or(s.Allowed, "-"), s.Ready, s.Reason, duration.HumanDuration(now.Sub(s.Created)))
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

// Statuses returns the checks of a namespace, or all checks if it is empty: first those that need attention. A NodeHealthCheck is in no
// namespace: it belongs to the namespace of its Cluster. unread are why the checks of some kinds are missing.
func (c *Cluster) Statuses(ctx context.Context, namespace string) (all []CheckStatus, unread []string, err error) {
	ctx, done := context.WithTimeout(ctx, requestTimeout)
	defer done()
	ours, inTree, ofNodes := &remedyv1.MachineHealthCheckList{}, &clusterv1.MachineHealthCheckList{}, &remedyv1.NodeHealthCheckList{}
	if err := c.client.List(ctx, ours, client.InNamespace(namespace)); err != nil {
		return nil, nil, readError(err, "the MachineHealthChecks")
	}
	for i := range ours.Items {
		all = append(all, statusOf(&ours.Items[i]))
	}
	if err := c.client.List(ctx, inTree, client.InNamespace(namespace)); err != nil && !meta.IsNoMatchError(err) {
		unread = append(unread, readError(err, inTreeKind).Error())
	}
	for i := range inTree.Items {
		all = append(all, statusOf(&inTree.Items[i]))
	}
	if err := c.client.List(ctx, ofNodes); err != nil {
		unread = append(unread, readError(err, "the NodeHealthChecks").Error())
	}
	for i := range ofNodes.Items {
		if belongsTo(&ofNodes.Items[i], namespace) {
			all = append(all, statusOf(&ofNodes.Items[i]))
		}
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

// belongsTo reports whether the Cluster of a NodeHealthCheck is in a namespace. Every check belongs to the empty one.
func belongsTo(check *remedyv1.NodeHealthCheck, namespace string) bool {
	ref := check.Spec.ClusterRef
	return namespace == "" || ref != nil && ref.Namespace == namespace
}

// statusOf returns the line about a check.
func statusOf(object client.Object) CheckStatus {
	s := CheckStatus{Namespace: object.GetNamespace(), Name: object.GetName(), Created: object.GetCreationTimestamp().Time}
	var conditions []metav1.Condition
	switch check := object.(type) {
	case *remedyv1.MachineHealthCheck:
		status := &check.Status
		s.Kind, s.Cluster, conditions = ourKind, check.Spec.ClusterName, status.Conditions
		s.Targets, s.Healthy, s.Unhealthy = status.ExpectedMachines, status.CurrentHealthy, status.Unhealthy
		s.Remediating, s.Blocked, s.Mode = status.Remediating, status.Blocked, check.Spec.Mode
	case *remedyv1.NodeHealthCheck:
		status := &check.Status
		s.Kind, conditions = nodeKind, status.Conditions
		if ref := check.Spec.ClusterRef; ref != nil {
			s.Cluster = ref.Namespace + "/" + ref.Name
		}
		s.Targets, s.Healthy, s.Unhealthy = status.ObservedNodes, status.HealthyNodes, status.Unhealthy
		s.Remediating, s.Blocked, s.Mode = status.Remediating, status.Blocked, check.Spec.Mode
	case *clusterv1.MachineHealthCheck:
		s.Kind, s.Cluster, conditions = inTreeKind, check.Spec.ClusterName, check.Status.Conditions
		s.Targets, s.Healthy = check.Status.ExpectedMachines, check.Status.CurrentHealthy
		if adopted(check) {
			s.Kind += " (adopted)"
		}
	}
	s.Ready = string(metav1.ConditionUnknown)
	if ready := summary(object, conditions); ready != nil {
		s.Ready, s.Reason, s.Message = string(ready.Status), ready.Reason, ready.Message
	} else {
		s.Message = "No controller has reported on this check yet"
	}
	if allowed := meta.FindStatusCondition(conditions, remedyv1.RemediationAllowedCondition); allowed != nil {
		s.Allowed = string(allowed.Status)
	}
	if observes(conditions) {
		s.Mode = remedyv1.ObserveMode
	}
	// A paused check keeps its other conditions. One that is adopted is always paused for the in-tree controller.
	inTree, isInTree := object.(*clusterv1.MachineHealthCheck)
	if meta.IsStatusConditionTrue(conditions, remedyv1.PausedCondition) && (!isInTree || !adopted(inTree)) {
		s.Reason = remedyv1.PausedReason
	}
	return s
}

// summary returns the condition that reports whether a person has to act on a check; nil if there is none. An in-tree check that Remedy
// does not reconcile has no condition Ready.
func summary(check client.Object, conditions []metav1.Condition) *metav1.Condition {
	ready := meta.FindStatusCondition(conditions, remedyv1.ReadyCondition)
	if _, inTree := check.(*clusterv1.MachineHealthCheck); !inTree {
		return ready
	}
	if state := meta.FindStatusCondition(conditions, remedyv1.AdoptedCondition); state != nil && state.Status == metav1.ConditionFalse &&
		state.Reason != remedyv1.OnlyObservedReason && state.Reason != remedyv1.PausedByOthersReason {
		return state
	}
	if ready != nil {
		return ready
	}
	return meta.FindStatusCondition(conditions, clusterv1.MachineHealthCheckRemediationAllowedCondition)
}

// observes reports whether the check or the manager only observes.
func observes(conditions []metav1.Condition) bool {
	return slices.ContainsFunc(conditions, func(c metav1.Condition) bool {
		return c.Reason == remedyv1.ObserveModeReason || c.Reason == remedyv1.OnlyObservedReason
	})
}
