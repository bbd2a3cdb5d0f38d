// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Kind is what a reason explains.
type Kind string

// The kinds of reasons.
const (
	Gate       Kind = "gate"            // The health of a target is not evaluated, or the target is unhealthy at once.
	Rule       Kind = "rule"            // A target is unhealthy, or becomes unhealthy at a deadline.
	Unknown    Kind = "unknown"         // No gate and no rule applies to a target that is not known to be healthy.
	Guard      Kind = "guard"           // No remediation is started.
	Preflight  Kind = "preflight check" // The preflight check stops an action.
	Unfinished Kind = "unfinished"      // A remediation that was started, or its start, does not succeed.
	Ending     Kind = "ending"          // A remediation ends.
	Condition  Kind = "condition"       // A condition of a check has this reason.
	EventOnly  Kind = "event"           // Only events have this reason.
)

// Reason is a reason with its documentation and its sentence.
type Reason struct {
	Kind Kind
	Name string
	// Means is the meaning in a sentence or two. BasedOn names the data behind it; conditions and events have none. Remedy is what a person
	// can do.
	Means, BasedOn, Remedy string
	// Conditions have this reason.
	Conditions []string
	// actionNeeded: it lasts until a person acts.
	actionNeeded bool
	// The first is the sentence about a target; for an ending it is a clause. The second is the sentence of a guard that does not block, about
	// what it has seen.
	sentence, passed func(*subject) string
}

// subject is what a sentence is about. Gates have a verdict, rules a finding and the name of the Node, guards an answer and a step.
type subject struct {
	verdict *health.Verdict
	finding *health.Finding
	node    string
	remediation.Answer
	step remediation.StepID
	// policy is nil if it is not known. controlPlane: the target is in a control plane.
	policy       *remediation.Policy
	controlPlane bool
}

func newReason[R ~string](kind Kind, reason R, says func(*subject) string, means, basedOn, remedy string) Reason {
	return Reason{Kind: kind, Name: string(reason), sentence: says, Means: means, BasedOn: basedOn, Remedy: remedy}
}

func (w Reason) needsAction() Reason { w.actionNeeded = true; return w }

func (w Reason) whenPassed(says func(*subject) string) Reason { w.passed = says; return w }

// fixed is a sentence that is always the same.
func fixed(sentence string) func(*subject) string { return func(*subject) string { return sentence } }

var allReasons = slices.Concat(gates, rules, unknowns, guards, preflightReasons, unfinished, endings, conditionReasons, eventReasons)

// Reasons returns every reason. Gates, rules and guards are in the order of evaluation.
func Reasons() []Reason { return slices.Clone(allReasons) }

type reasonKey struct {
	kind   Kind
	reason string
}

var reasonsByKey = func() map[reasonKey]*Reason {
	all := map[reasonKey]*Reason{}
	for i := range allReasons {
		all[reasonKey{allReasons[i].Kind, allReasons[i].Name}] = &allReasons[i]
	}
	return all
}()

// find returns a reason as the first of these kinds that it has; nil if it has none of them.
func find[R ~string](reason R, kinds ...Kind) *Reason {
	for _, kind := range kinds {
		if w := reasonsByKey[reasonKey{kind, string(reason)}]; w != nil {
			return w
		}
	}
	return nil
}

// Advice is what a person can do about a reason why remediation is blocked; empty if the reason is unknown.
func Advice(reason remedyv1.BlockedReason) string {
	if w := find(reason, Guard, Unfinished, Preflight, Ending, Gate); w != nil {
		return w.Remedy
	}
	return ""
}

// sentence is the sentence of a reason of one of these kinds.
func sentence[R ~string](reason R, s *subject, kinds ...Kind) string {
	if w := find(reason, kinds...); w != nil {
		return w.sentence(s)
	}
	return string(reason)
}
