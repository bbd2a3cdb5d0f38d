// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// aggregated returns the rules that kube-controller-manager gives to the manager for requests: from these ClusterRoles, and from those of the
// release and of components.
func aggregated(t *testing.T, roles []rbacv1.ClusterRole, components ...string) []rbacv1.PolicyRule {
	t.Helper()
	into := rbacv1.ClusterRole{}
	for _, object := range render(t, components...) {
		if object.GetKind() != "ClusterRole" {
			continue
		}
		role := rbacv1.ClusterRole{}
		strict(t, object, &role)
		if roles = append(roles, role); role.Name == "remedy-system-remediators" {
			into = role
		}
	}
	g := NewWithT(t)
	g.Expect(into.AggregationRule).ToNot(BeNil())
	var rules []rbacv1.PolicyRule
	for i := range into.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&into.AggregationRule.ClusterRoleSelectors[i])
		g.Expect(err).ToNot(HaveOccurred())
		for _, role := range roles {
			if selector.Matches(apilabels.Set(role.Labels)) {
				rules = append(rules, role.Rules...)
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
	g.Expect(aggregated(t, []rbacv1.ClusterRole{operator})).ToNot(ContainElement(operator.Rules[0]))
	g.Expect(aggregated(t, []rbacv1.ClusterRole{operator}, "medik8s-aggregation")).To(ContainElement(operator.Rules[0]), "as documented")
}

// The manager has the permissions for the remediators of medik8s, and no others.
func TestPermissions_Remediators_AreThoseOfMedik8s(t *testing.T) {
	g := NewWithT(t)
	rules := aggregated(t, nil)
	var wanted []rbacv1.PolicyRule
	for _, kind := range remediator.Medik8s() {
		wanted = append(wanted, kind.Rules()...)
	}
	g.Expect(rules).To(ConsistOf(wanted))
}
