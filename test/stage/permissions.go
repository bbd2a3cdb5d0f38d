// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"slices"
	"sync"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// permissions is locked by a test that changes the permissions of the manager, because all tests share them.
var permissions sync.Mutex

// ChangePermissions changes the manager's permissions on remediation requests.
func ChangePermissions(ctx context.Context, admin client.Client, change func([]rbacv1.PolicyRule) []rbacv1.PolicyRule) error {
	permissions.Lock()
	defer permissions.Unlock()
	role := &rbacv1.ClusterRole{}
	if err := admin.Get(ctx, client.ObjectKey{Name: "remedy-system-remediators"}, role); err != nil {
		return err
	}
	before := client.MergeFrom(role.DeepCopy())
	role.Rules = change(role.Rules)
	return admin.Patch(ctx, role, before)
}

// Aggregate adds permissions to the manager as Kubernetes does for an aggregated ClusterRole. It returns when the API server applies
// them: a manager whose clock does not run asks only once.
func Aggregate(ctx context.Context, rules ...rbacv1.PolicyRule) error {
	return aggregate(ctx, Management, rules...)
}

func aggregate(ctx context.Context, management *testenv.Environment, rules ...rbacv1.PolicyRule) error {
	add := func(all []rbacv1.PolicyRule) []rbacv1.PolicyRule { return append(all, rules...) }
	if err := ChangePermissions(ctx, management.API, add); err != nil {
		return errors.Wrap(err, "failed to aggregate permissions")
	}
	return management.UntilAllowed(ctx, "", testenv.Manager.Name, &rules[0], true)
}

// Revoke removes the permissions on a kind and its group. It returns when the API server applies that.
func (s *Stage) Revoke(kind remediator.Kind) {
	s.T.Helper()
	s.Expect(ChangePermissions(s.Ctx, s.Admin, func(all []rbacv1.PolicyRule) []rbacv1.PolicyRule {
		return slices.DeleteFunc(all, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.APIGroups, kind.Group) })
	})).To(Succeed())
	s.Expect(Management.UntilAllowed(s.Ctx, "", testenv.Manager.Name, &kind.Rules()[0], false)).To(Succeed())
}
