// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// notEvaluatedLines are lines of gates, rules or guards that were not evaluated.
func notEvaluatedLines[T ~string](all []T) []Line {
	lines := make([]Line, 0, len(all))
	for _, name := range all {
		lines = append(lines, Line{Name: string(name), Answer: NotEvaluated})
	}
	return lines
}

// gateLines are the results of the gates. They follow from the verdict: a closed gate is its reason, and a gate that lets a target through
// has a rule of the same name that is met.
func gateLines(v *health.Verdict) []Line {
	lines := notEvaluatedLines(health.Gates())
	for i := range lines {
		line := &lines[i]
		gate := health.Reason(line.Name)
		switch {
		case v.Kind == health.Unhealthy && slices.ContainsFunc(v.Findings, func(f health.Finding) bool { return f.Rule == gate && f.Met }):
			line.Answer = LetThrough
		case closed(v, gate):
			line.Answer = Closed
		default:
			line.Answer = Passed
			continue
		}
		line.Message = sentence(gate, &subject{verdict: v}, Gate)
		break
	}
	return lines
}

// closed reports whether a gate prevented the rules from being evaluated.
func closed(v *health.Verdict, gate health.Reason) bool {
	return v.Kind != health.Suspect && v.Kind != health.Unhealthy && v.Reason == gate
}

// ruleLines are the results of the rules, with one line for each finding.
func ruleLines(v *health.Verdict, f *Facts) []Line {
	if slices.ContainsFunc(health.Gates(), func(gate health.Reason) bool { return closed(v, gate) }) {
		return notEvaluatedLines(health.Rules())
	}
	var lines []Line
	for _, rule := range health.Rules() {
		before := len(lines)
		for i := range v.Findings {
			if v.Findings[i].Rule != rule {
				continue
			}
			answer := Pending
			if v.Findings[i].Met {
				answer = Met
			}
			lines = append(lines, Line{Name: string(rule), Answer: answer, Message: capital(finding(&v.Findings[i], f.Node))})
		}
		if len(lines) == before {
			lines = append(lines, Line{Name: string(rule), Answer: NotMet, Message: configured(rule, f.Health)})
		}
	}
	return lines
}

// configured is what a rule that is not met compares with.
func configured(rule health.Reason, p *health.Policy) string {
	if p == nil {
		return ""
	}
	if rule == health.NodeStartupTimeout {
		return timeoutIs("nodeStartupTimeout", p.NodeStartupTimeout)
	}
	if rule == health.NodeDeleted {
		return timeoutIs("nodeGoneTimeout", p.NodeGoneTimeout)
	}
	checks := map[health.Reason][]health.ConditionCheck{
		health.UnhealthyMachine: p.MachineConditions, health.UnhealthyNode: p.NodeConditions,
	}[rule]
	all := make([]string, 0, len(checks))
	for _, c := range checks {
		all = append(all, fmt.Sprintf("%s=%s for more than %s", sanitized(c.Type), sanitized(c.Status), short(c.Lasting)))
	}
	if len(all) == 0 {
		return ""
	}
	return "Unhealthy is " + listed(all, ", ", maxCauses)
}

func timeoutIs(field string, timeout time.Duration) string {
	if timeout == 0 {
		return ""
	}
	return field + " is " + short(timeout)
}

// guardLines are the results of the guards, and those of the preflight check if there was one.
func guardLines(f *Facts) (guardLines, preflightLines []Line) {
	planned, preflight := split(f)
	guardLines = answerLines(f, remediation.Guards(), planned, Guard)
	if len(preflight) > 0 {
		preflightLines = answerLines(f, remediation.PreflightGuards(), preflight, Preflight)
	}
	return guardLines, preflightLines
}

// answerLines are the lines of guards. A guard without an answer before one with an answer does not apply to the step. Guards after the one
// that blocks were not evaluated, and neither was any if nothing was to be started.
func answerLines(f *Facts, guards []remediation.Reason, answers []remediation.Answer, kind Kind) []Line {
	lines := notEvaluatedLines(guards)
	next, blocked := 0, false
	for i := range lines {
		line := &lines[i]
		switch {
		case len(answers) == 0 || blocked:
		case next < len(answers) && string(answers[next].Guard) == line.Name:
			line.answer(&subject{
				verdict: f.Verdict, Answer: answers[next], step: f.Decision.Step, policy: f.Policy,
				controlPlane: f.Target != nil && f.Target.ControlPlane,
			}, kind)
			blocked = answers[next].Blocks
			next++
		default:
			line.Answer = NotApplicable
		}
	}
	return lines
}

func (l *Line) answer(s *subject, kind Kind) {
	l.Answer = Passed
	if s.Blocks {
		l.Answer, l.Message = Blocks, sentence(s.Guard, s, kind, Guard, Preflight)
	} else if w := find(s.Guard, kind, Guard); w != nil && w.passed != nil {
		l.Message = w.passed(s)
	}
}

// split separates the answers for the plan from those of the preflight check.
func split(f *Facts) (planned, preflight []remediation.Answer) {
	all := f.Decision.Answers
	if i := slices.IndexFunc(all, func(a remediation.Answer) bool { return a.Preflight }); i >= 0 {
		return all[:i], all[i:]
	}
	return all, nil
}
