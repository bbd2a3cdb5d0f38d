// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// output is everything that is reported about a reconcile.
type output struct {
	Status   remedyv1.CheckStatus
	Traces   []Trace
	Texts    []string
	Strays   []Trace
	Machines []MachineConditions
	Events   [][]Event
}

func orphanTrace(p *Evaluation, i int) Trace {
	return NewTrace(&Facts{Check: p.Check, Name: p.Situation.Orphans[i].Name, Decision: &p.Planned.Orphans[i], Policy: p.Policy})
}

func printed(p *Evaluation) output {
	out := output{Status: Status(p, nil, nil)}
	for i := range p.Snapshot.Targets {
		f := p.Facts(i)
		trace := p.Trace(i)
		out.Traces = append(out.Traces, trace)
		out.Texts = append(out.Texts, trace.String())
		out.Machines = append(out.Machines, ForMachine(&f, &p.Situation.Check))
		out.Events = append(out.Events, Events(&Past{}, &trace))
	}
	for i := range p.Situation.Orphans {
		out.Strays = append(out.Strays, orphanTrace(p, i))
	}
	return out
}

// messages returns all messages.
func (o *output) messages() []string {
	var all []string
	add := func(message string) { all = append(all, message) }
	for i := range o.Status.Conditions {
		add(o.Status.Conditions[i].Message)
	}
	for i := range o.Status.UnhealthyTargets {
		add(o.Status.UnhealthyTargets[i].Message)
	}
	for _, traces := range [][]Trace{o.Traces, o.Strays} {
		for i := range traces {
			add(traces[i].Verdict.Message)
			add(traces[i].Decision.Message)
			for _, lines := range [][]Line{traces[i].Gates, traces[i].Rules, traces[i].Guards, traces[i].Preflight} {
				for _, line := range lines {
					add(line.Message)
				}
			}
		}
	}
	for _, events := range o.Events {
		for _, event := range events {
			add(event.Message)
		}
	}
	return all
}

var (
	relative = regexp.MustCompile(`(?i)\b(ago|just now|since [0-9]+[hms]|for [0-9]+ (second|minute|hour)s?)\b`)
	reasoned = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
)

func TestMessages_AnyInput_AreBoundedParagraphs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		out := printed(drawPass(t))
		for _, message := range out.messages() {
			switch {
			case !utf8.ValidString(message), utf8.RuneCountInString(message) > MaxMessage:
				t.Fatalf("%d runes: %q", utf8.RuneCountInString(message), message)
			case strings.ContainsAny(message, "\n\r\t\x00\x1b\u202e"), strings.TrimSpace(message) != message:
				t.Fatalf("not one paragraph: %q", message)
			case relative.MatchString(message):
				t.Fatalf("a relative time: %q", message)
			}
		}
		for _, events := range out.Events {
			for _, event := range events {
				if len(event.Message) > MaxMessage || !reasoned.MatchString(event.Reason) || event.Type != "Normal" && event.Type != "Warning" {
					t.Fatalf("the API server rejects the event: %+v", event)
				}
			}
		}
		for _, machine := range out.Machines {
			if c := machine.HealthCheckSucceeded; c != nil {
				lines := strings.Split(c.Message, "\n")
				if utf8.RuneCountInString(c.Message) > MaxMessage || slices.ContainsFunc(lines[1:],
					func(s string) bool { return !strings.HasPrefix(s, "  * ") }) {
					t.Fatalf("not a list of causes: %q", c.Message)
				}
			}
		}
	})
}

// If no deadline passes, the output does not change, so there is nothing to write. The first decision records since when a target is
// healthy.
func TestMessages_NoDeadlineCrossed_StayTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPass(t)
		for i := range p.Situation.Targets {
			if request := p.Situation.Targets[i].Request; request != nil {
				request.HealthySince = p.Planned.Decisions[i].HealthySince
			}
		}
		p.decide(noon)
		before := printed(p)
		later := time.Duration(rapid.Int64Range(1, int64(10*time.Minute)).Draw(t, "later"))
		for _, due := range deadlines(p) {
			later = min(later, due.Sub(noon)-1)
		}
		p.decide(noon.Add(later))
		if after := printed(p); !reflect.DeepEqual(before, after) {
			t.Fatalf("%v later:\n%s", later, difference(before, after))
		}
	})
}

// deadlines returns all times at which something may change, including pending causes of targets that are unhealthy already.
func deadlines(p *Evaluation) []time.Time {
	var all []time.Time
	if !p.Planned.WakeUp.IsZero() {
		all = append(all, p.Planned.WakeUp)
	}
	for i := range p.Assessment.Verdicts {
		for _, f := range p.Assessment.Verdicts[i].Findings {
			if !f.Met {
				all = append(all, f.Due)
			}
		}
	}
	return all
}

// difference returns the first line in which two outputs differ.
func difference(a, b output) string {
	left, right := lines(a), lines(b)
	for i := range min(len(left), len(right)) {
		if left[i] != right[i] {
			return fmt.Sprintf("%s\n%s\nis not\n%s", strings.Join(left[max(0, i-8):i], "\n"), left[i], right[i])
		}
	}
	return fmt.Sprintf("%d lines, and then %d", len(left), len(right))
}

func lines(o output) []string {
	said, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		return []string{err.Error()}
	}
	return strings.Split(string(said), "\n")
}

func TestMessages_OtherOrderOfTargets_StayTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPass(t)
		before := printed(p)
		order := rapid.Permutation(indices(len(p.Snapshot.Targets))).Draw(t, "order")
		targets, states := slices.Clone(p.Snapshot.Targets), slices.Clone(p.Situation.Targets)
		for to, from := range order {
			p.Snapshot.Targets[to], p.Situation.Targets[to] = targets[from], states[from]
		}
		slices.Reverse(p.Context.Templates)
		slices.Reverse(p.Situation.Check.PauseRequests)
		p.decide(noon)
		after := printed(p)
		if !reflect.DeepEqual(before.Status, after.Status) {
			t.Fatal(difference(before, after))
		}
		for to, from := range order {
			if !reflect.DeepEqual(before.Traces[from], after.Traces[to]) {
				t.Fatalf("%s\n%s", before.Texts[from], after.Texts[to])
			}
		}
	})
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func TestTrace_AnyInput_AgreesWithDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPass(t)
		for i := range p.Snapshot.Targets {
			if err := agrees(p, i); err != nil {
				trace := p.Trace(i)
				t.Fatalf("%v:\n%s\n%+v", err, trace.String(), p.Planned.Decisions[i])
			}
		}
	})
}

func agrees(p *Evaluation, i int) error {
	v, d, trace := &p.Assessment.Verdicts[i], &p.Planned.Decisions[i], p.Trace(i)
	if err := rulesAgree(v, &trace); err != nil {
		return err
	}
	notable := !v.Recovered() || d.InFlight || d.Action != remediation.None || d.Block.Reason != ""
	held := with(trace.Guards, Blocks)
	fromGuard := len(d.Answers) > 0 && d.Block.Reason != ""
	asked := len(trace.Guards) - len(with(trace.Guards, NotEvaluated)) - len(with(trace.Guards, NotApplicable))
	switch {
	case fromGuard != (len(held) == 1) || len(held) > 1:
		return fmt.Errorf("%d guards held it", len(held))
	case fromGuard && held[0].Name != string(d.Block.Reason):
		return fmt.Errorf("held by %s", held[0].Name)
	case asked != len(d.Answers):
		return fmt.Errorf("%d guards asked, not %d", asked, len(d.Answers))
	case string(trace.Decision.BlockedReason) != string(d.Block.Reason) && d.Block.Reason != "":
		return fmt.Errorf("the hold is %s", trace.Decision.BlockedReason)
	case d.InFlight != (trace.State == Remediating):
		return fmt.Errorf("in flight %v, and the state is %s", d.InFlight, trace.State)
	case v.Kind == health.Unhealthy && trace.Decision.Outcome == "":
		return fmt.Errorf("an unhealthy target without an outcome")
	case trace.Decision.Outcome == remedyv1.Blocked && trace.Decision.BlockedReason == "":
		return fmt.Errorf("held for no reason")
	case !notable && (trace.Decision.Message != "" || trace.Verdict.Message != ""):
		return fmt.Errorf("a message about a healthy target: %q, %q", trace.Verdict.Message, trace.Decision.Message)
	}
	return nil
}

func rulesAgree(v *health.Verdict, trace *Trace) error {
	closed, open := with(trace.Gates, Closed), 0
	for i := range v.Findings {
		if v.Findings[i].Met {
			open++
		}
	}
	judged := v.Kind == health.Unhealthy || v.Kind == health.Suspect
	switch {
	case len(with(trace.Rules, Met)) != open || len(with(trace.Rules, Pending)) != len(v.Findings)-open:
		return fmt.Errorf("the rules found something else")
	case judged && len(closed) > 0, len(closed) > 1:
		return fmt.Errorf("%d gates closed before a verdict", len(closed))
	case len(closed) == 1 && v.Kind != health.Healthy && closed[0].Name != string(v.Reason):
		return fmt.Errorf("closed by %s", closed[0].Name)
	case len(closed) == 1 && len(with(trace.Rules, NotEvaluated)) != len(trace.Rules):
		return fmt.Errorf("rules were asked behind a closed gate")
	}
	return nil
}

func with(lines []Line, answer Answer) []Line {
	var found []Line
	for _, line := range lines {
		if line.Answer == answer {
			found = append(found, line)
		}
	}
	return found
}

// The lines of gates follow from the verdict: here they are compared with the facts.
func TestTrace_InfrastructureNotReady_HasClosedGate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPass(t)
		for i := range p.Snapshot.Targets {
			if p.Assessment.Verdicts[i].Kind != health.Healthy {
				continue
			}
			trace := p.Trace(i)
			if closed := len(with(trace.Gates, Closed)) == 1; closed == p.Snapshot.Cluster.InfrastructureReady.Reached {
				t.Fatalf("infrastructure ready %v:\n%s", p.Snapshot.Cluster.InfrastructureReady.Reached, trace.String())
			}
		}
	})
}

// The API server rejects any other status.
func TestStatus_AnyInput_FitsTheAPI(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPass(t)
		status := Status(p, nil, func(target int) *remedyv1.RequestReference {
			return &remedyv1.RequestReference{Name: p.Snapshot.Targets[target].Name}
		})
		for _, c := range status.Conditions {
			if !reasoned.MatchString(c.Reason) || c.Status == "" || !slices.Contains(worded(Condition), c.Reason) {
				t.Fatalf("%+v", c)
			}
		}
		for _, target := range status.UnhealthyTargets {
			if !reasoned.MatchString(string(target.Reason)) || target.Decision == "" || len(target.BlockedReason) > 64 ||
				target.BlockedReason != "" && !slices.Contains(worded(Guard, Unfinished, Preflight), string(target.BlockedReason)) {
				t.Fatalf("%+v", target)
			}
		}
		if status.Limit.Source == "" || len(status.Limit.Source) > 64 || status.Limit.MaxUnhealthy < 0 || *status.RemediationsAllowed < 0 {
			t.Fatalf("%+v", status.Limit)
		}
		c := status.Conditions[1]
		stopped := p.Situation.Check.Paused || p.Policy.Observe || !p.Planned.LimitState.Allowed || !p.Planned.Storm.Since.IsZero() ||
			len(p.Situation.Check.PauseRequests) > 0
		if c.Type != remedyv1.RemediationAllowedCondition || stopped && c.Status == metav1.ConditionTrue {
			t.Fatalf("nothing new is started, and %+v", c)
		}
		if !strings.Contains(c.Message, source(&p.Planned.LimitState.Limit)) {
			t.Fatalf("no limit in %q", c.Message)
		}
	})
}

func TestTrace_JSON_RoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, trace := range printed(drawPass(t)).Traces {
			first, err := json.Marshal(&trace)
			if err != nil {
				t.Fatal(err)
			}
			var read Trace
			if err := json.Unmarshal(first, &read); err != nil {
				t.Fatal(err)
			}
			if second, err := json.Marshal(&read); err != nil || string(first) != string(second) || read.Key() != trace.Key() ||
				read.String() != trace.String() {
				t.Fatalf("%s\n%s", first, second)
			}
		}
	})
}

// A state that lasts is no event.
func TestEvents_UnchangedTrace_HasNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, trace := range printed(drawPass(t)).Traces {
			past := trace.Past()
			if told := Events(&past, &trace); len(told) > 0 {
				t.Fatalf("%+v", told)
			}
			if past.Key() != trace.Key() {
				t.Fatalf("%+v is not the key of %+v", past.Key(), trace)
			}
		}
	})
}

// A preflight check blocks with exactly one line, and does not change the lines of the plan.
func TestTrace_PreflightCheck_KeepsPlannedLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPass(t)
		for i := range p.Planned.Decisions {
			d, before := &p.Planned.Decisions[i], p.Trace(i)
			look := &remediation.PreflightCheck{
				Failed: rapid.Bool().Draw(t, "failed"), Paused: rapid.Bool().Draw(t, "frozen"), Verdict: p.Assessment.Verdicts[i],
				Target: p.Situation.Targets[i], LeaseRenewed: noon,
			}
			if rapid.Bool().Draw(t, "requested") {
				look.Target.Request = &remediation.Request{}
			}
			*d = remediation.Confirm(p.Planned, &p.Situation.Targets[i], d, &p.Assessment.Verdicts[i], look, noon)
			after := p.Trace(i)
			looked := len(d.Answers) > 0 && len(after.Preflight) > 0
			if held := with(after.Preflight, Blocks); looked && (d.Block.Reason != "") != (len(held) == 1) || len(held) > 1 {
				t.Fatalf("%d lines of the preflight check block it:\n%s", len(held), after.String())
			}
			// Here the trace does not show whether the plan or the preflight check found the pause.
			unclear := len(d.Answers) == 1 && p.Assessment.Verdicts[i].Kind == health.Unhealthy
			if !unclear && !reflect.DeepEqual(before.Guards, after.Guards) {
				t.Fatalf("the guards of the plan have changed:\n%s\n%s", before.String(), after.String())
			}
		}
	})
}
