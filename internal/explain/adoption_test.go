// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/adoption"
)

func TestTakenOver_States_HaveReason(t *testing.T) {
	g := NewWithT(t)
	reasons := map[adoption.State]string{
		adoption.Adopted: remedyv1.AdoptedReason, adoption.Waiting: remedyv1.WaitingForHandoverReason,
		adoption.PauseConflict: remedyv1.PauseConflictReason, adoption.Paused: remedyv1.PausedByOthersReason,
	}
	for state, reason := range reasons {
		c := Instance{}.Adopted(state)
		g.Expect(c).ToNot(BeNil())
		g.Expect([]any{c.Type, c.Reason, c.Status == metav1.ConditionTrue}).To(Equal([]any{
			remedyv1.AdoptedCondition, reason,
			state == adoption.Adopted,
		}))
		g.Expect(c.Message).ToNot(BeEmpty())
	}
	g.Expect(Instance{Observes: true}.Adopted(adoption.InTree)).To(BeNil(), "the in-tree controller reconciles it")
}

func TestTakenOver_Observing_IsFalse(t *testing.T) {
	g := NewWithT(t)
	c := Instance{Observes: true}.Adopted(adoption.Adopted)
	g.Expect([]any{c.Type, c.Status, c.Reason}).To(Equal([]any{
		remedyv1.AdoptedCondition, metav1.ConditionFalse,
		remedyv1.OnlyObservedReason,
	}))
	g.Expect(Instance{Observes: true}.Adopted(adoption.Waiting)).To(Equal(Instance{}.Adopted(adoption.Waiting)))
}

func TestNotCleanedUp_Error_IsInMessage(t *testing.T) {
	g := NewWithT(t)
	c := Instance{}.NotCleanedUp(errors.New("no right to patch them"))
	g.Expect([]any{c.Type, c.Status, c.Reason}).To(Equal([]any{
		remedyv1.AdoptedCondition, metav1.ConditionFalse,
		remedyv1.NotCleanedUpReason,
	}))
	g.Expect(c.Message).To(ContainSubstring("no right to patch them"))
}

// The message names the manager, for people only.
func TestAdopted_WatchFilter_IsInMessage(t *testing.T) {
	g := NewWithT(t)
	i := Instance{Filter: "x"}
	for _, c := range []*metav1.Condition{
		i.Adopted(adoption.Adopted), i.Adopted(adoption.Waiting), i.NotCleanedUp(errors.New("some (reason)")),
	} {
		g.Expect(c.Message).To(HaveSuffix(" (by the manager with --watch-filter=x)"))
	}
	g.Expect(Instance{}.Adopted(adoption.Adopted).Message).ToNot(ContainSubstring("--watch-filter"))
}

// The message of a condition is bounded, and thousands of Machines may have the same error.
func TestNotCleanedUp_LongError_IsCut(t *testing.T) {
	g := NewWithT(t)
	c := Instance{Filter: "x"}.NotCleanedUp(errors.New(strings.Repeat("é", 40000)))
	g.Expect(len(c.Message)).To(BeNumerically("<", 32768))
	g.Expect(utf8.ValidString(c.Message)).To(BeTrue())
	g.Expect(c.Message).To(HaveSuffix("--watch-filter=x)"))
}
