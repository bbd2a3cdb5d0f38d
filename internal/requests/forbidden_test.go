// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"net/http"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// Lists are rejected, whatever the access review has answered.
func TestWatch_ListForbidden_IsRetriedWhenDue(t *testing.T) {
	s := newScene(t, "Reboot")
	s.provide()
	var refuses atomic.Bool
	refuses.Store(true)
	const answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`
	s.through(answering(http.MethodGet, "/reboots", &refuses, http.StatusForbidden, answer))
	c, soft := s.check("a"), s.reference()
	s.trouble(c, soft, remedyv1.ForbiddenReason, "Reboot: the API server rejects list or watch requests of the manager")
	_, err := s.requests.OfCheck(t.Context(), c, soft.RequestKind())
	s.Expect(err).To(HaveOccurred())
	refuses.Store(false)
	s.usable(c, soft)
}

// After a permission is removed, existing requests are still known, and no others are created instead.
func TestWatch_PermissionRemoved_KeepsRequests(t *testing.T) {
	s := settled(t)
	c, kind := s.check("a"), s.reference().RequestKind()
	s.create(c, Object{"m1", "uid-1"})
	s.grant(s.kind.Rules()[1])
	k := s.requests.kind(kindKey{kind, false})
	// The API server ends watches regularly, and verifies the permission for the next one.
	s.requests.stopWatch(t.Context(), k, k.facts, apierrors.NewForbidden(k.facts.resource.GroupResource(), "", nil))
	found, err := s.requests.OfCheck(t.Context(), c)
	s.Expect(namesOf(found)).To(Equal([]string{"m1"}))
	var unknown *NotKnownError
	s.Expect(errors.As(err, &unknown)).To(BeTrue(), "also for a kind that the check does not name any more")
	s.Expect(unknown.Problems).To(HaveKey(kind))
	s.grant(s.kind.Rules()...)
	s.Eventually(func() error {
		s.clock.Step(missingFor)
		_, err := s.requests.OfCheck(t.Context(), c)
		return err
	}).Should(Succeed())
}

// The annotation of a check names a kind, and the permissions of the manager cover all kinds of its group. It is watched only if a template
// names it.
func TestWatch_PermissionsForAllKinds_FollowsNoAnnotation(t *testing.T) {
	s := newScene(t, "Reboot")
	s.install(s.kind.CRDs()...)
	every := s.kind.Rules()
	for i := range every {
		every[i].Resources = []string{"*"}
	}
	s.grant(every...)
	s.template()
	c, kind := s.check("a"), s.reference().RequestKind()
	_, err := s.requests.OfCheck(t.Context(), c, kind)
	var unknown *NotKnownError
	s.Expect(errors.As(err, &unknown)).To(BeTrue())
	s.Expect(unknown.Problems).To(HaveKeyWithValue(kind, ContainSubstring("every resource of "+kind.Group)))
	s.usable(c, s.reference())
}
