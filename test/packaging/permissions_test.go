// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// aggregation returns the ClusterRole that the manager has for requests, with the rules that kube-controller-manager adds to it from these
// ClusterRoles and those of the components.
func aggregation(t *testing.T, roles []rbacv1.ClusterRole, components ...string) []rbacv1.PolicyRule {
	t.Helper()
	aggregated := rbacv1.ClusterRole{}
	for _, object := range render(t, components...) {
		if object.GetKind() != "ClusterRole" {
			continue
		}
		role := rbacv1.ClusterRole{}
		strict(t, object, &role)
		if roles = append(roles, role); role.Name == "remedy-system-remediators" {
			aggregated = role
		}
	}
	NewWithT(t).Expect(aggregated.AggregationRule).ToNot(BeNil())
	var rules []rbacv1.PolicyRule
	for _, selector := range aggregated.AggregationRule.ClusterRoleSelectors {
		for i := range roles {
			for key, value := range selector.MatchLabels {
				if roles[i].Labels[key] == value {
					rules = append(rules, roles[i].Rules...)
				}
			}
		}
	}
	return rules
}

// The operator of medik8s can have the label of its remediators on its own role, which can write ClusterRoles.
func TestPermissions_RoleOfMedik8sOperator_IsNotTheManagers(t *testing.T) {
	g := NewWithT(t)
	operator := rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles", "clusterrolebindings"}, Verbs: []string{"*"}},
	}}
	operator.Labels = map[string]string{remedyv1.AggregateToRemediationLabel: "true"}
	g.Expect(aggregation(t, []rbacv1.ClusterRole{operator})).ToNot(ContainElement(operator.Rules[0]))
	g.Expect(aggregation(t, []rbacv1.ClusterRole{operator}, "medik8s-aggregation")).To(ContainElement(operator.Rules[0]), "as documented")
}

// The manager has the permissions for the remediators of medik8s, and no others.
func TestPermissions_Remediators_AreThoseOfMedik8s(t *testing.T) {
	g := NewWithT(t)
	rules := aggregation(t, nil)
	var wanted []rbacv1.PolicyRule
	for _, kind := range append(remediator.Kinds(), remediator.NewKind("customized-user-remediation.medik8s.io", "v1alpha1", "CustomizedUserRemediation")) {
		if kind != remediator.Metal3 {
			wanted = append(wanted, kind.Rules()...)
		}
	}
	g.Expect(rules).To(ConsistOf(wanted))
}
