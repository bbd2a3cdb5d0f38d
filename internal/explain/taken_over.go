// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/takeover"
)

// Instance is one of ours, as far as checks of Cluster API tell of it.
type Instance struct {
	// Filter is the value of its --watch-filter.
	Filter string
	// Observes: it only observes.
	Observes bool
}

// TakenOver is what a check of Cluster API says about who takes care of it; nil if it has nothing to do with us. Who only observes takes care of nothing.
func (i Instance) TakenOver(state takeover.State) *metav1.Condition {
	said, known := takenOver[state]
	if state == takeover.Ours && i.Observes {
		return i.says(metav1.ConditionFalse, remedyv1.OnlyObservedReason, "Cluster API's own controller leaves this check to us, and this manager only observes: nobody remediates "+
			"its Machines. Start the manager without --mode=Observe, or run 'kubectl remedy release'")
	}
	if !known {
		return nil
	}
	status := metav1.ConditionFalse
	if state == takeover.Ours {
		status = metav1.ConditionTrue
	}
	return i.says(status, said.reason, said.message)
}

// mostOfWhy is how much is told of what went wrong: thousands of Machines may all say the same.
const mostOfWhy = 1000

// NotCleanedUp is what a check of Cluster API says that was given back, and of which not everything of ours could be taken away.
func (i Instance) NotCleanedUp(why error) *metav1.Condition {
	text := []rune(why.Error())
	if len(text) > mostOfWhy {
		text = append(text[:mostOfWhy], '…')
	}
	return i.says(metav1.ConditionFalse, remedyv1.NotCleanedUpReason,
		"This check was given back to Cluster API's own controller, which takes care of it. Not all of our notes could be taken away, and that is tried again: "+string(text))
}

// saidBy comes before the filter of the instance that says something, at the end.
const saidBy = " (said with --watch-filter="

func (i Instance) says(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
	if i.Filter != "" {
		message += saidBy + i.Filter + ")"
	}
	c := condition(remedyv1.TakenOverCondition, status, reason, message)
	return &c
}

// FilterOf is the filter of the instance that has said something; empty if that has none.
func FilterOf(said *metav1.Condition) string {
	at := strings.LastIndex(said.Message, saidBy)
	if at < 0 {
		return ""
	}
	return strings.TrimSuffix(said.Message[at+len(saidBy):], ")")
}

type saidOfState struct{ reason, message string }

var takenOver = map[takeover.State]saidOfState{
	takeover.Ours: {remedyv1.TakenOverReason, "Cluster API's own controller leaves this check to us. To give it back, remove the annotation " + remedyv1.TakeOverAnnotation +
		", or run 'kubectl remedy release'"},
	takeover.Waiting: {remedyv1.WaitingForHandoverReason, "Cluster API's own controller has not said yet, in the condition Paused, that it leaves this check to us. " +
		"Nothing is done before it does: see that it runs, and that its --watch-filter selects the check. Where it is not to run at all, --core-machinehealthchecks=Exclusive is meant for that"},
	takeover.Contested: {remedyv1.ContestedReason, "Somebody has taken our pause away three times within ten minutes, so that we have let go for an hour. Cluster API's own controller takes care of it. " +
		"Let whoever writes the annotations of the check, as a rule a GitOps tool, ignore cluster.x-k8s.io/paused"},
	takeover.Paused: {remedyv1.PausedByOthersReason, "The check or its Cluster is paused by somebody else. Nobody takes care of it"},
}
