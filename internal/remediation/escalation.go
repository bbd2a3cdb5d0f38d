// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// NextStep is the step after the one that was tried last in this attempt: the one with the next order, or with the same order and another
// template. False if there is none: the attempt is over, and the next one begins with the first step.
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

// exhausted is the remediation history after every step of an attempt: one more failure, and a longer backoff.
func exhausted(attempt int, p *Policy, now time.Time) History {
	return History{Failures: attempt, NotBefore: now.Add(p.Backoff.After(attempt))}
}

// afterGivingUp is the remediation history after a step was given up. If the manager was stopped after it wrote that and before it deleted
// the request, the history stays as it is, so that a failure is counted once.
func afterGivingUp(history History, request *Request, p *Policy, now time.Time) History {
	if givenUp(&history, request) {
		return history
	}
	if _, more := NextStep(p.Steps, request.Step); more {
		history.Tried = request.Step
		return history
	}
	return exhausted(request.Attempt, p, now)
}

// givenUp reports whether the remediation history includes that the step of a request was given up.
func givenUp(history *History, request *Request) bool {
	return history.Failures >= request.Attempt || history.Tried == request.Step
}

// limitBackoff limits the backoff in a remediation history: it may be from a clock that was ahead, or from a time of a higher limit.
func limitBackoff(history History, p *Policy, now time.Time) History {
	if longest := now.Add(p.Backoff.Limit); history.NotBefore.After(longest) {
		history.NotBefore = longest
	}
	return history
}

// requestStep is the step of the check with this ID that creates requests.
func requestStep(steps []Step, id StepID) (Step, bool) {
	for _, step := range steps {
		if step.ID == id && !step.Owner {
			return step, true
		}
	}
	return Step{}, false
}

// Backoff is the wait between attempts.
type Backoff struct {
	Initial, Limit time.Duration
}

// After is the wait after this many failures in a row: the initial one, doubled with each further failure, up to the limit.
// With 1m and 10m: 1m, 2m, 4m, 8m, 10m, 10m ...
func (b Backoff) After(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	wait := b.Initial
	// Compared before it is doubled, so that it cannot overflow.
	for range failures - 1 {
		if wait > b.Limit/2 {
			return b.Limit
		}
		wait *= 2
	}
	return min(wait, b.Limit)
}
