// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package conform

import (
	"context"
	"slices"
	"strings"

	"github.com/pkg/errors"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// role looks for a ClusterRole whose permissions health checks get.
func (r *Remediator) role(ctx context.Context) (Result, string, error) {
	roles := &rbacv1.ClusterRoleList{}
	if err := r.Client.List(ctx, roles); err != nil {
		return "", "", errors.Wrap(err, "failed to list ClusterRoles")
	}
	var rules []rbacv1.PolicyRule
	for i := range roles.Items {
		if roles.Items[i].Labels[remedyv1.AggregateToManagerLabel] == "true" {
			rules = append(rules, roles.Items[i].Rules...)
		}
	}
	read := []string{"get", "list", "watch"}
	for _, needed := range []struct {
		kind  schema.GroupVersionKind
		verbs []string
	}{
		{r.Template.TemplateKind(), read}, {r.Template.RequestKind(), append(read, "create", "patch", "delete")},
	} {
		mapping, err := r.Client.RESTMapper().RESTMapping(needed.kind.GroupKind(), needed.kind.Version)
		if err != nil {
			return "", "", errors.Wrapf(err, "%s is not served", needed.kind)
		}
		missing := slices.DeleteFunc(slices.Clone(needed.verbs), func(verb string) bool {
			return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
				return allows(rule.Verbs, verb) && allows(rule.APIGroups, mapping.Resource.Group) &&
					allows(rule.Resources, mapping.Resource.Resource)
			})
		})
		if len(missing) > 0 {
			return Broken, "no ClusterRole with the label " + remedyv1.AggregateToManagerLabel + " allows " + strings.Join(missing, ", ") +
				" on " + mapping.Resource.GroupResource().String(), nil
		}
	}
	return Kept, "", nil
}

func allows(list []string, wanted string) bool {
	return slices.Contains(list, wanted) || slices.Contains(list, "*")
}
