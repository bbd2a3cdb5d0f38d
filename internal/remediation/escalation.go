// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"slices"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// StepsFor are the steps for the causes of a verdict. Those of a target that is neither unhealthy nor suspect are unknown, and it keeps every
// step.
func StepsFor(steps []Step, v *health.Verdict) []Step {
	if v.Kind != health.Unhealthy && v.Kind != health.Suspect {
		return steps
	}
	return slices.DeleteFunc(slices.Clone(steps), func(step Step) bool { return !step.isFor(v) })
}

// isFor reports whether one of the causes of a verdict is one that the step is for. That of a suspect is what will make it unhealthy first.
func (step *Step) isFor(v *health.Verdict) bool {
	return len(step.Conditions) == 0 || slices.ContainsFunc(v.Findings, func(f health.Finding) bool {
		counts := f.Met || v.Kind == health.Suspect && !f.Due.After(v.Until)
		return counts && slices.ContainsFunc(step.Conditions, func(c Cause) bool {
			return c.Type == f.Condition && (c.Status == "" || c.Status == f.Status) && (len(c.Reasons) == 0 || slices.Contains(c.Reasons, f.Cause))
		})
	})
}

// PossibleSteps are the steps of which one is the next, by its cause: those after the one that was tried, up to the first one for every cause.
func PossibleSteps(steps []Step, tried StepID) (possible []Step) {
	for step, found := NextStep(steps, tried); found; step, found = NextStep(steps, step.ID) {
		possible = append(possible, step)
		if len(step.Conditions) == 0 {
			break
		}
	}
	return possible
}

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
func afterGivingUp(history History, request *Request, v *health.Verdict, p *Policy, now time.Time) History {
	if givenUp(&history, request) {
		return history
	}
	if _, more := NextStep(StepsFor(p.Steps, v), request.Step); more {
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
