// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// NextStep is the step that follows what has been tried in this attempt: the lowest that is higher, or one in the same place with
// another template, as that one has not been tried. False if there is none; Tried then was the last, and a new attempt begins with the first.
func NextStep(steps []Step, tried StepID) (Step, bool) {
	var next Step
	found := false
	for _, step := range steps {
		untried := tried == StepID{} || step.ID.Order > tried.Order || step.ID.Order == tried.Order && step.ID != tried
		if untried && (!found || step.ID.Order < next.ID.Order) {
			next, found = step, true
		}
	}
	return next, found
}

// exhausted is what is remembered when every step of an attempt has been tried: one failure more, and a longer wait.
func exhausted(attempt int, p *Policy, now time.Time) Ledger {
	return Ledger{Failures: attempt, NotBefore: now.Add(p.Backoff.After(attempt))}
}

// afterGivingUp is what is remembered once a request's step is given up. It has been noted before if we were stopped between that note and
// the deletion of the request: then it stays, so that one failure never counts twice.
func afterGivingUp(ledger Ledger, request *Request, p *Policy, now time.Time) Ledger {
	if givenUp(&ledger, request) {
		return ledger
	}
	if _, more := NextStep(p.Steps, request.Step); more {
		ledger.Tried = request.Step
		return ledger
	}
	return exhausted(request.Attempt, p, now)
}

// givenUp says whether the ledger knows already that a request's step was given up.
func givenUp(ledger *Ledger, request *Request) bool {
	return ledger.Failures >= request.Attempt || ledger.Tried == request.Step
}

// believable is a ledger without a wait that we would never have noted: one from a clock that was ahead, or from a time of a higher limit.
func believable(ledger Ledger, p *Policy, now time.Time) Ledger {
	if longest := now.Add(p.Backoff.Limit); ledger.NotBefore.After(longest) {
		ledger.NotBefore = longest
	}
	return ledger
}

// named finds a step that the check still names.
func named(steps []Step, id StepID) (Step, bool) {
	for _, step := range steps {
		if step.ID == id && !step.Owner {
			return step, true
		}
	}
	return Step{}, false
}
