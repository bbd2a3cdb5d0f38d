// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// TestWhoLooksAfterACheckThatIsAboutToGo: Cluster API's own controller does until it is gone, unless it has left it to us, or does not run.
func TestWhoLooksAfterACheckThatIsAboutToGo(t *testing.T) {
	going := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{
		Name: "x", Finalizers: []string{remedyv1.CleanupFinalizer}, DeletionTimestamp: &metav1.Time{Time: time.Now()},
	}}
	asked := going.DeepCopy()
	asked.Annotations = map[string]string{clusterv1.PausedAnnotation: remedyv1.Pause}
	paused := asked.DeepCopy()
	paused.Status.Conditions = theirWord()
	tests := []struct {
		why    string
		checks TakesOver
		check  *clusterv1.MachineHealthCheck
		theirs bool
	}{
		{"nobody has left it to us", TakesOver{All: true}, going, true},
		{"its controller has not seen yet that it is left to us", TakesOver{All: true}, asked, true},
		{"it was left to us", TakesOver{All: true}, paused, false},
		{"nobody else is there", TakesOver{Exclusive: true}, going, false},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			adoption := &Adoption{Environment: &healthcheck.Environment{}, TakesOver: test.checks}
			claim := adoption.claimOf(test.check, nil)
			foreign := claim.Rank == remediation.ForeignMachineHealthCheck
			g.Expect([]any{claim.InTree, claim.Deleting, foreign}).To(Equal([]any{test.theirs, !test.theirs, test.theirs}))
			g.Expect(claim.Check).ToNot(Equal(requests.Check{}), "what it has under way is known")
		})
	}
}

// theirWord is what Cluster API's own controller says of a check that it leaves to whoever has paused it.
func theirWord() []metav1.Condition {
	message := "it has the annotation " + clusterv1.PausedAnnotation
	return []metav1.Condition{{Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, Message: message}}
}

// TestAnotherInstanceMayHaveBeenAskedForWhatThisOneWasNot: who looks after its checks stands on them, and not in a flag of ours.
func TestAnotherInstanceMayHaveBeenAskedForWhatThisOneWasNot(t *testing.T) {
	check := &clusterv1.MachineHealthCheck{}
	check.Name, check.Annotations = "x", map[string]string{clusterv1.PausedAnnotation: remedyv1.Pause}
	waiting := check.DeepCopy()
	check.Status.Conditions = theirWord()
	free := check.DeepCopy()
	free.Annotations = nil
	tests := []struct {
		why            string
		check          *clusterv1.MachineHealthCheck
		others, theirs bool
	}{
		{"another instance has it", check, true, false},
		{"it is ours to give back", check, false, true},
		{"nobody has left it to anybody yet", waiting, true, true},
		{"nobody has paused it", free, true, true},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			adoption := &Adoption{Environment: &healthcheck.Environment{}}
			if test.others {
				adoption.WatchFilter = "mine"
			}
			claim := adoption.claimOf(test.check, nil)
			NewWithT(t).Expect([]any{claim.InTree, claim.Rank == remediation.ForeignMachineHealthCheck}).To(Equal([]any{test.theirs, test.theirs}))
		})
	}
}
