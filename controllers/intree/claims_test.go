// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// The in-tree controller is responsible for the Machines of a check until the check no longer exists, unless the check was handed over or
// no in-tree controller runs. Another instance can have adopted a check that this instance does not adopt. The pause of the check shows it,
// not the flags of this instance.
func TestClaim_Check_IsInTreeUntilHandover(t *testing.T) {
	check := func(deleting, pauses, confirmed bool) *clusterv1.MachineHealthCheck {
		c := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
		if deleting {
			c.Finalizers, c.DeletionTimestamp = []string{remedyv1.CleanupFinalizer}, &metav1.Time{Time: time.Now()}
		}
		if pauses {
			c.Annotations = map[string]string{clusterv1.PausedAnnotation: remedyv1.Pause}
		}
		if confirmed {
			c.Status.Conditions = pausedByAnnotation()
		}
		return c
	}
	tests := []struct {
		name             string
		policy           AdoptionPolicy
		watchFilter      string
		check            *clusterv1.MachineHealthCheck
		inTree, deleting bool
	}{
		{"deleted, not paused", AdoptionPolicy{All: true}, "", check(true, false, false), true, false},
		{"deleted, pause not confirmed", AdoptionPolicy{All: true}, "", check(true, true, false), true, false},
		{"deleted, handed over", AdoptionPolicy{All: true}, "", check(true, true, true), false, true},
		{"deleted, exclusive", AdoptionPolicy{Replace: true}, "", check(true, false, false), false, true},
		{"adopted by another instance", AdoptionPolicy{}, "mine", check(false, true, true), false, false},
		{"to be released by this instance", AdoptionPolicy{}, "", check(false, true, true), true, false},
		{"of another instance, pause not confirmed", AdoptionPolicy{}, "mine", check(false, true, false), true, false},
		{"of another instance, not paused", AdoptionPolicy{}, "mine", check(false, false, true), true, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			adoption := &Adoption{Environment: &healthcheck.Environment{WatchFilter: test.watchFilter}, AdoptionPolicy: test.policy}
			claim := adoption.claimOf(test.check, nil)
			foreign := claim.Rank == remediation.ForeignCheck
			g.Expect([]any{claim.InTree, claim.Deleting, foreign}).To(Equal([]any{test.inTree, test.deleting, test.inTree}))
			if test.check.DeletionTimestamp != nil {
				g.Expect(claim.Check).ToNot(Equal(requests.Check{}), "the claim names the check, so its requests are found")
			}
		})
	}
}

// pausedByAnnotation are the conditions that the in-tree controller sets on a check with the paused annotation.
func pausedByAnnotation() []metav1.Condition {
	message := "it has the annotation " + clusterv1.PausedAnnotation
	return []metav1.Condition{{Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, Message: message}}
}

// unreadable is a cache that cannot be read.
type unreadable struct{ client.Reader }

func (unreadable) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no index")
}

// The checks that an event concerns cannot be read, so they are not reconciled because of it. The log has the cause.
func TestSelections_ChecksUnread_IsLogged(t *testing.T) {
	g := NewWithT(t)
	var lines []string
	ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	a := &Adoption{Environment: &healthcheck.Environment{Cache: unreadable{}}}
	g.Expect(a.selections(ctx, client.ObjectKey{Namespace: "a", Name: "c"})).To(BeEmpty())
	g.Expect(lines).To(ConsistOf(And(ContainSubstring("a/c"), ContainSubstring("no index"))))
}
