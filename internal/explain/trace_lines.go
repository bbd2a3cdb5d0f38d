// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// unasked are lines of those that were not asked at all.
func unasked[T ~string](all []T) []Line {
	lines := make([]Line, 0, len(all))
	for _, name := range all {
		lines = append(lines, Line{Name: string(name), Answer: NotAsked})
	}
	return lines
}

// gateLines are what the gates must have said, as the verdict tells: one that closes gives it its reason, and one that lets a target
// through has a rule of the same name that is met.
func gateLines(f *Facts) []Line {
	v := f.Verdict
	lines := unasked(health.Gates())
	for i := range lines {
		line := &lines[i]
		reason := health.Reason(line.Name)
		switch {
		case v.Kind == health.Unhealthy && found(v, reason):
			line.Answer = LetThrough
		case closes(f, reason):
			line.Answer = Closed
		default:
			line.Answer = Passed
			continue
		}
		if word := wordOfGate(reason); word != nil {
			line.Says = word.says(v)
		}
		break
	}
	return lines
}

// closes says whether it was this gate that kept a target from being judged.
func closes(f *Facts, gate health.Reason) bool {
	switch f.Verdict.Kind {
	case health.Undetermined, health.Skipped, health.Healthy:
		return f.Verdict.Reason == gate
	case health.Suspect, health.Unhealthy:
	}
	return false
}

func found(v *health.Verdict, rule health.Reason) bool {
	for i := range v.Findings {
		if v.Findings[i].Rule == rule && v.Findings[i].Met {
			return true
		}
	}
	return false
}

// ruleLines are what the rules said, each finding on a line of its own.
func ruleLines(f *Facts) []Line {
	v := f.Verdict
	if barred(f) {
		return unasked(health.Rules())
	}
	var lines []Line
	for _, rule := range health.Rules() {
		before := len(lines)
		for i := range v.Findings {
			if v.Findings[i].Rule != rule {
				continue
			}
			answer := Due
			if v.Findings[i].Met {
				answer = Met
			}
			lines = append(lines, Line{Name: string(rule), Answer: answer, Says: capital(finding(&v.Findings[i], f.Node))})
		}
		if len(lines) == before {
			lines = append(lines, Line{Name: string(rule), Answer: Nothing})
		}
	}
	return lines
}

// barred says whether a gate kept the target from being judged.
func barred(f *Facts) bool {
	for _, gate := range health.Gates() {
		if closes(f, gate) {
			return true
		}
	}
	return false
}

// guardLines are what the guards said when the plan was made, and what they said of a last look, if there was one.
func guardLines(f *Facts) (guards, looks []Line) {
	planned, looked := split(f)
	guards = asked(remediation.Guards(), planned, Guard, f.Decision.Step)
	if len(looked) > 0 {
		looks = asked(remediation.LastLooks(), looked, LastLook, f.Decision.Step)
	}
	return guards, looks
}

// asked puts the answers beside the guards. Those that were passed over have no say in a step of this kind; those after the one that held, and
// all of them where nothing new was to be started, were not asked.
func asked(names []remediation.Reason, answers []remediation.Answer, kind Kind, step remediation.StepID) []Line {
	lines := unasked(names)
	next, held := 0, false
	for i := range lines {
		line := &lines[i]
		switch {
		case len(answers) == 0 || held:
		case next < len(answers) && string(answers[next].Guard) == line.Name:
			answered(line, &answers[next], kind, step)
			held = answers[next].Held
			next++
		default:
			line.Answer = OfNoConcern
		}
	}
	return lines
}

func answered(line *Line, answer *remediation.Answer, kind Kind, step remediation.StepID) {
	line.Answer = Passed
	word := wordOfHold(answer.Guard, kind)
	switch {
	case answer.Held:
		line.Answer = Held
		if word != nil {
			line.Says = word.held(&saw{*answer, step})
		}
	case word != nil && word.passed != nil:
		line.Says = word.passed(&saw{*answer, step})
	}
}

// split tells what was asked when the plan was made from what was asked again just before the act.
func split(f *Facts) (planned, looked []remediation.Answer) {
	all := f.Decision.Asked
	for i := range all {
		if all[i].Again {
			return all[:i], all[i:]
		}
	}
	return all, nil
}
