// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// CreateInTreeCheck creates a MachineHealthCheck of Cluster API for all Machines.
func (s *Stage) CreateInTreeCheck(name string, changes ...func(*clusterv1.MachineHealthCheck)) *clusterv1.MachineHealthCheck {
	s.T.Helper()
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
	check.Spec.ClusterName = s.Cluster.Name
	check.Spec.Selector.MatchLabels = map[string]string{clusterv1.ClusterNameLabel: s.Cluster.Name}
	check.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{
		{Type: "Ready", Status: "Unknown", TimeoutSeconds: ptr.To[int32](300)},
	}
	for _, change := range changes {
		change(check)
	}
	s.Create(check)
	return check
}

// InTreeChecks are the MachineHealthChecks of Cluster API.
func (s *Stage) InTreeChecks() []clusterv1.MachineHealthCheck {
	s.T.Helper()
	list := &clusterv1.MachineHealthCheckList{}
	s.Expect(s.Admin.List(s.Ctx, list, client.InNamespace(s.Namespace))).To(Succeed())
	return list.Items
}

// SetInTreePaused sets the Paused condition of an in-tree check, as Cluster API's controller does.
func (s *Stage) SetInTreePaused(check *clusterv1.MachineHealthCheck, paused bool) {
	s.T.Helper()
	condition := metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotPausedReason}
	if paused {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.PausedReason
		condition.Message = "MachineHealthCheck has the " + clusterv1.PausedAnnotation + " annotation"
	}
	s.ChangeStatus(check, func() { meta.SetStatusCondition(&check.Status.Conditions, condition) })
}

// CompleteAdoption plays Cluster API's controller until a check is adopted.
func (s *Stage) CompleteAdoption(check *clusterv1.MachineHealthCheck) {
	s.T.Helper()
	s.SetInTreePaused(check, false)
	s.Eventually(Get(s, check)).Should(WithTransform(PausedAnnotation, Equal(remedyv1.Pause)))
	s.SetInTreePaused(check, true)
	s.Eventually(Get(s, check)).Should(WithTransform(InTreeCondition(remedyv1.AdoptedCondition), Equal("True "+remedyv1.AdoptedReason)))
}

// InTreeName distinguishes an in-tree check from a check of Remedy with the same name.
func InTreeName(check string) string { return "core/" + check }

// PausedAnnotation returns the value of the paused annotation.
func PausedAnnotation(check *clusterv1.MachineHealthCheck) string {
	return check.Annotations[clusterv1.PausedAnnotation]
}

// InTreeCondition returns the status and the reason of a condition of an in-tree check.
func InTreeCondition(kind string) func(*clusterv1.MachineHealthCheck) string {
	return func(check *clusterv1.MachineHealthCheck) string {
		if c := meta.FindStatusCondition(check.Status.Conditions, kind); c != nil {
			return string(c.Status) + " " + c.Reason
		}
		return ""
	}
}
