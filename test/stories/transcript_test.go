// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/sim"
)

// reconcile is one reconcile of a check, with the check at that time, and the state before.
type reconcile struct {
	check  *sim.Check
	before *sim.State
	pass   sim.Pass
}

// report is what a story writes about a target: its verdict and its decision.
type report struct {
	verdict, decision string
}

// healthyWithoutDecision is not written.
var healthyWithoutDecision = report{"Healthy", "None"}

// explained returns the input for the messages of a reconcile.
func (s *reconcile) explained() explain.Evaluation {
	p := explain.Evaluation{
		Check: kind(s.check) + " " + s.check.Name, Snapshot: &s.pass.Snapshot, Assessment: &s.pass.Assessment, Situation: &s.pass.Situation,
		Policy: &s.check.Policy, Planned: &s.pass.Plan,
	}
	p.Context.CheckPaused, p.Context.ClusterPaused = s.check.Paused, s.pass.Situation.Check.Paused && !s.check.Paused
	for _, step := range s.check.Policy.Steps {
		if step.Unresolved {
			p.Context.Templates = append(p.Context.Templates, explain.TemplateProblem{Reason: remedyv1.TemplateNotFoundReason, Template: step.ID.Template})
		}
	}
	return p
}

func kind(c *sim.Check) string {
	if c.ForNodes {
		return "NodeHealthCheck"
	}
	return "MachineHealthCheck"
}

// traces returns the decision traces of all targets, then those of all orphaned targets.
func (s *reconcile) traces() []explain.Trace {
	p := s.explained()
	all := make([]explain.Trace, 0, len(s.pass.Plan.Decisions)+len(s.pass.Plan.Orphans))
	for i := range s.pass.Plan.Decisions {
		all = append(all, p.Trace(i))
	}
	for i := range s.pass.Plan.Orphans {
		all = append(all, explain.NewTrace(&explain.Facts{
			Check: p.Check, Name: p.Situation.Orphans[i].Name, Decision: &p.Planned.Orphans[i], Policy: p.Policy,
		}))
	}
	return all
}

// reports returns the report of every target.
func (d *driver) reports(s *reconcile) map[string]report {
	all := map[string]report{}
	for _, trace := range s.traces() {
		all[trace.Target] = report{verdictOf(&trace), decisionOf(&trace)}
	}
	return all
}

func verdictOf(trace *explain.Trace) string {
	v := &trace.Verdict
	words := []string{v.Kind}
	message := v.Message
	if gate := closedGate(trace); v.Reason == "" && gate != nil {
		words, message = append(words, gate.Name), gate.Message
	}
	return phrase(append(words, v.Reason), v.Until, message)
}

func closedGate(trace *explain.Trace) *explain.Line {
	for i := range trace.Gates {
		if trace.Gates[i].Answer == explain.Closed {
			return &trace.Gates[i]
		}
	}
	return nil
}

func decisionOf(trace *explain.Trace) string {
	d := &trace.Decision
	if d.Action == none && d.BlockedReason != "" {
		return phrase([]string{string(remedyv1.Blocked), string(d.BlockedReason)}, d.Until, strings.TrimPrefix(d.Message, "Blocked: "))
	}
	return phrase([]string{d.Action, d.Why}, d.Until, d.Message)
}

// none is the name of no action.
const none = "None"

// phrase returns "Kind, Reason, until 12:05:00: message".
func phrase(words []string, until *metav1.Time, message string) string {
	var parts []string
	for _, word := range words {
		if word != "" {
			parts = append(parts, word)
		}
	}
	if until != nil {
		parts = append(parts, "until "+until.Format(time.TimeOnly))
	}
	if message != "" {
		message = ": " + message
	}
	return strings.Join(parts, ", ") + message
}

// writeReconcile writes what has changed: first the targets, then the check.
func (d *driver) writeReconcile(name string, s *reconcile) {
	if d.reported[name] == nil {
		d.reported[name], d.conditions[name] = map[string]report{}, map[string]string{}
	}
	last, now := d.reported[name], d.reports(s)
	if writes := checkWrites(s.pass.CheckWrote); len(writes) > 0 {
		d.write("Check", "%swrites %s", d.prefix(name), strings.Join(writes, ", "))
		d.cover("write", writes...)
	}
	for _, trace := range s.traces() {
		was, known := last[trace.Target]
		if !known {
			was = healthyWithoutDecision
		}
		is := now[trace.Target]
		if was.verdict != is.verdict {
			d.write("Check", "%s%s is %s", d.prefix(name), trace.Target, is.verdict)
			d.coverVerdict(&trace)
			d.keepTrace(name, &trace, trace.Verdict.Reason)
		}
		writes := append(targetWrites(s.pass.Wrote[trace.Target]), d.health(s, trace.Target)...)
		if was.decision == is.decision && len(writes) == 0 {
			continue
		}
		does := is.decision
		if len(writes) > 0 {
			does += "; writes " + strings.Join(writes, ", ")
		}
		d.write("Check", "%s%s: %s", d.prefix(name), trace.Target, does)
		d.coverDecision(&trace)
		d.cover("write", writes...)
		d.keepTrace(name, &trace, trace.Decision.Action, trace.Decision.Why, string(trace.Decision.BlockedReason))
	}
	d.reported[name] = now
	d.writeConditions(name, s)
}

// keepTrace stores the trace of a target.
func (d *driver) keepTrace(check string, trace *explain.Trace, words ...string) {
	for _, word := range words {
		d.traces[check+"/"+trace.Target+" "+word] = trace.String()
	}
}

// prefix returns the name of the check, if there are several.
func (d *driver) prefix(name string) string {
	if len(d.reported) > 1 || len(d.w.API.Checks) > 1 {
		return name + ": "
	}
	return ""
}

// writeConditions writes the conditions of the check that have changed, except the summary, which mostly repeats the others.
func (d *driver) writeConditions(name string, s *reconcile) {
	p := s.explained()
	for _, c := range explain.Conditions(&p) {
		is := c.Type + "=" + string(c.Status) + ", " + c.Reason
		was, known := d.conditions[name][c.Type]
		good := (c.Status == metav1.ConditionTrue) != (c.Type == remedyv1.PausedCondition)
		if was == is || strings.Contains(c.Message, " is False (") || strings.Contains(c.Message, " is Unknown (") {
			continue
		}
		d.conditions[name][c.Type] = is
		if !known && good {
			continue
		}
		if c.Message != "" {
			is += ": " + c.Message
		}
		d.write("Check", "%s%s", d.prefix(name), is)
	}
}

// health returns the changes of the health that the Machine reports.
func (d *driver) health(s *reconcile, target string) []string {
	before, now := s.before.Machines[target], d.w.API.Machines[target]
	if before == nil || now == nil || s.check.ForNodes {
		return nil
	}
	var writes []string
	switch {
	case now.Unhealthy && !before.Unhealthy:
		writes = append(writes, "HealthCheckSucceeded=False")
	case now.Healthy && before.Unhealthy:
		writes = append(writes, "HealthCheckSucceeded=True")
	}
	switch {
	case now.NodeGoneSince.Equal(before.NodeGoneSince):
	case now.NodeGoneSince.IsZero():
		writes = append(writes, "no NodeGoneSince")
	default:
		writes = append(writes, "NodeGoneSince="+now.NodeGoneSince.Format(time.TimeOnly))
	}
	return writes
}

// The names of the writes.
var (
	writeWords = []string{
		remediation.WriteHistory: "WriteHistory", remediation.WriteRecovery: "WriteRecovery",
		remediation.AcquireLease: "AcquireLease", remediation.SetMarkedBy: "SetMarkedBy",
		remediation.CreateRequest: "CreateRequest", remediation.SetOwnerRemediated: "SetOwnerRemediated",
		remediation.StopRemediator: "StopRemediator", remediation.DeleteRequest: "DeleteRequest",
		remediation.RemoveOwnerRemediated: "RemoveOwnerRemediated", remediation.ClearConditions: "ClearConditions",
		remediation.RemoveMarkedBy: "RemoveMarkedBy", remediation.RemoveConfirmation: "RemoveConfirmation",
		remediation.ReleaseLease: "ReleaseLease", remediation.WriteNodeGone: "WriteNodeGone",
		remediation.AcquireControlPlaneLease: "AcquireControlPlaneLease",
	}
	checkWriteWords = []string{
		remediation.AddFinalizer: "AddFinalizer", remediation.WriteStorm: "WriteStorm",
		remediation.WriteReplacing: "WriteReplacing", remediation.ReleaseControlPlaneLease: "ReleaseControlPlaneLease",
		remediation.RemoveFinalizer: "RemoveFinalizer",
	}
)

func targetWrites(all []remediation.Write) []string {
	words := make([]string, 0, len(all))
	for _, write := range all {
		words = append(words, writeWords[write])
	}
	return words
}

func checkWrites(all []remediation.CheckWrite) []string {
	words := make([]string, 0, len(all))
	for _, write := range all {
		words = append(words, checkWriteWords[write])
	}
	return words
}
