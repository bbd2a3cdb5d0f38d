// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// queued is an unhealthy worker that maxInFlight blocks.
func queued() *Facts {
	v := met(health.UnhealthyNode, health.Finding{
		Condition: "Ready", Status: "Unknown", Cause: "NodeStatusUnknown", Since: ago(time.Hour),
		Due: ago(55 * time.Minute), Lasting: 5 * time.Minute,
	})
	v.Findings = append(v.Findings, health.Finding{
		Rule: health.UnhealthyNode, Condition: "DiskPressure", Status: "True",
		Since: ago(time.Minute), Due: noon,
	})
	d := &remediation.Decision{Step: remediation.StepID{Order: 2}}
	// Guards of requests do not apply to owner remediation.
	notApplicable := []remediation.Reason{
		remediation.NoMachine, remediation.TemplateNotResolved, remediation.RequestNameConflict, remediation.NodeLeaseHeld,
		remediation.ControlPlaneBusy, remediation.QuorumUnknown, remediation.SingleControlPlane, remediation.QuorumAtRisk,
	}
	saw := map[remediation.Reason]remediation.Details{
		remediation.Terminating:        {Cause: "taint a"},
		remediation.NoRemediatingOwner: {Cause: "MachineSet/a"},
		remediation.TooManyUnhealthy:   {Cause: "maxUnhealthy=40%", Count: 2, Max: 4},
		remediation.MaxInFlight:        {Count: 1, Max: 1},
	}
	for _, guard := range remediation.Guards() {
		if !slices.Contains(notApplicable, guard) {
			d.Answers = append(d.Answers, remediation.Answer{Guard: guard, Blocks: guard == remediation.MaxInFlight, Details: saw[guard]})
		}
	}
	d.Block = remediation.Block{Reason: remediation.MaxInFlight, Details: saw[remediation.MaxInFlight]}
	return &Facts{Check: "MachineHealthCheck default/workers", Name: "m-1", Node: "n-1", Verdict: v, Decision: d, Health: &health.Policy{
		NodeStartupTimeout: 10 * time.Minute, MachineConditions: []health.ConditionCheck{
			{Type: "InfrastructureReady", Status: "False", Lasting: 5 * time.Minute}, {Type: "Ready", Status: "Unknown", Lasting: 30 * time.Second},
		},
	}}
}

const shown = `m-1, Node n-1, by MachineHealthCheck default/workers
  gates
    Paused                      passed
    SkipRemediation             passed
    HasRemediateAnnotation      passed
    MachineFailed               passed
    ReconnectGracePeriod        passed
    ControlPlaneNotInitialized  passed
    InfrastructureNotReady      passed
  rules
    HasRemediateAnnotation      not met
    MachineFailed               not met
    UnhealthyMachine            not met         Unhealthy is InfrastructureReady=False for more than 5m, Ready=Unknown for more than 30s
    NodeDeleted                 not met
    NodeStartupTimeout          not met         nodeStartupTimeout is 10m
    UnhealthyNode               met             {met}
    UnhealthyNode               pending         {pending}
  verdict                       Unhealthy       UnhealthyNode: {met}
  guards
    Paused                      passed          Neither the check nor its Cluster is paused
    CheckDeleting               passed          The check is not being deleted
    ClusterNotFound             passed          No Cluster is missing
    ClusterDeleting             passed          No Cluster is being deleted
    ManagedByOtherCheck         passed          No other check is responsible for the target
    StuckDeleting               passed          The target is not being deleted
    Terminating                 passed          Deletion was announced by taint a; remediation was blocked
    NoStepForCondition          passed          The check has a step for the cause
    Excluded                    passed          The label remediation.medik8s.io/exclude-from-remediation is not set
    NoRemediatingOwner          passed          The owner is MachineSet/a
    OwnerRefuses                passed          The owner does not refuse remediation
    PauseRequested              passed          pauseRequests is empty
    ClockSkew                   passed          The clocks of the manager and of the API server agree
    ReconnectGracePeriod        passed          The kubelet has reported, or has had 50 seconds to report
    ClusterUnreachable          passed          The workload cluster is reachable
    TooManyUnhealthy            passed          2 targets are unhealthy, and maxUnhealthy=40% allows 4
    TooFewUnhealthy             passed          No minimum is set
    Storm                       passed          No cool-down is in progress
    AnnotationNotRemoved        passed          No remediation that an annotation requests was done
    EscalationExhausted         passed          No remediation has failed
    Backoff                     passed          No remediation has failed
    TemplateNotResolved         not applicable
    NoMachine                   not applicable
    RequestNameConflict         not applicable
    NodeLeaseHeld               not applicable
    ControlPlaneBusy            not applicable
    QuorumUnknown               not applicable
    SingleControlPlane          not applicable
    QuorumAtRisk                not applicable
    MaxInFlight                 blocks          maxInFlight is reached (1 of 1); this target is queued
    ObserveMode                 not evaluated
  decision                      Blocked         MaxInFlight: maxInFlight is reached (1 of 1); this target is queued
`

func TestTrace_String_ListsEveryGuard(t *testing.T) {
	trace := NewTrace(queued())
	messages := strings.NewReplacer(
		"{met}", "Condition Ready on Node is reporting status Unknown with reason NodeStatusUnknown for more than 5m0s",
		"{pending}", "Condition DiskPressure on Node is reporting status True since 2026-03-14T11:59:00Z; "+
			"the target becomes unhealthy at 2026-03-14T12:00:00Z",
	)
	NewWithT(t).Expect(trace.String()).To(Equal(messages.Replace(shown)))
}

// Other programs read these names.
func TestTrace_JSON_HasStableNames(t *testing.T) {
	g := NewWithT(t)
	trace := NewTrace(queued())
	trace.Gates, trace.Rules, trace.Guards = trace.Gates[:1], trace.Rules[:1], trace.Guards[:1]
	said, err := json.Marshal(&trace)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(string(said)).To(MatchJSON(`{
		"check": "MachineHealthCheck default/workers", "target": "m-1", "node": "n-1", "state": "unhealthy",
		"gates": [{"name": "Paused", "answer": "passed"}], "rules": [{"name": "HasRemediateAnnotation", "answer": "not met"}],
		"verdict": {
			"kind": "Unhealthy", "reason": "UnhealthyNode", "since": "2026-03-14T11:00:00Z",
			"message": "Condition Ready on Node is reporting status Unknown with reason NodeStatusUnknown for more than 5m0s"
		},
		"guards": [{"name": "Paused", "answer": "passed", "message": "Neither the check nor its Cluster is paused"}],
		"decision": {"outcome": "Blocked", "action": "None", "blockedReason": "MaxInFlight", "step": 2,
			"message": "Blocked: maxInFlight is reached (1 of 1); this target is queued"}
	}`))
}

func TestTrace_Fields_IdentifyTheDecision(t *testing.T) {
	g := NewWithT(t)
	facts := queued()
	trace := NewTrace(facts)
	g.Expect(trace.Fields()).To(Equal([]any{
		"check", "MachineHealthCheck default/workers", "target", "m-1", "verdict", "Unhealthy", "decision", "Blocked", "reason", "MaxInFlight",
		"step", "2",
	}))
	facts.Decision.Block.Details.Count = 7
	same := NewTrace(facts)
	g.Expect(same.Key()).To(Equal(trace.Key()), "a number is no new decision")
	facts.Decision = &remediation.Decision{Action: remediation.StartRequest, Attempt: 1, InFlight: true}
	started := NewTrace(facts)
	g.Expect(started.Key()).To(Equal(Key{Verdict: "Unhealthy", Decision: "CreateRequest", Reason: "UnhealthyNode"}))
	facts.Decision = &remediation.Decision{Action: remediation.GiveUp, Why: remediation.StepFailed, InFlight: true}
	given := NewTrace(facts)
	g.Expect(given.Key()).To(Equal(Key{Verdict: "Unhealthy", Decision: "EndStep", Reason: "StepFailed"}))
}

func answers(lines []Line) string {
	said := make([]string, 0, len(lines))
	for _, line := range lines {
		said = append(said, line.Name+" "+string(line.Answer))
	}
	return strings.Join(said, ", ")
}

func TestTrace_GatesAndRules_HaveAnswers(t *testing.T) {
	d := &remediation.Decision{}
	tests := []struct {
		why     string
		verdict *health.Verdict
		gate    string
		rules   Answer
	}{
		{
			"closed gate", &health.Verdict{Kind: health.Skipped, Reason: health.SkipRemediation},
			"Paused passed, SkipRemediation closed, HasRemediateAnnotation not evaluated", NotEvaluated,
		},
		{"annotation", met(health.HasRemediateAnnotation, health.Finding{}), "HasRemediateAnnotation let through, MachineFailed not " +
			"evaluated", Met},
		{"failed Machine", met(health.MachineFailed, health.Finding{}), "MachineFailed let through, ReconnectGracePeriod not evaluated", NotMet},
		{"infrastructure not ready", unknown(health.InfrastructureNotReady), "ControlPlaneNotInitialized passed, InfrastructureNotReady " +
			"closed", NotEvaluated},
		{
			"healthy at a closed gate", &health.Verdict{Kind: health.Healthy, Reason: health.InfrastructureNotReady},
			"InfrastructureNotReady closed", NotEvaluated,
		},
		{"healthy by the rules", &health.Verdict{Kind: health.Healthy}, "InfrastructureNotReady passed", NotMet},
		{"unreadable Node", unknown(health.NodeUnreadable), "InfrastructureNotReady passed", NotMet},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			trace := NewTrace(&Facts{Name: "m", Verdict: test.verdict, Decision: d})
			g.Expect(answers(trace.Gates)).To(ContainSubstring(test.gate))
			g.Expect(trace.Rules[0].Answer).To(Equal(test.rules))
		})
	}
}

func TestTrace_PreflightCheck_IsSeparate(t *testing.T) {
	g := NewWithT(t)
	d := &remediation.Decision{Block: remediation.Block{Reason: remediation.PreflightFailed}, Answers: []remediation.Answer{
		{Guard: remediation.Paused},
		{Guard: remediation.CheckDeleting},
		{Guard: remediation.Paused, Preflight: true},
		{Guard: remediation.PreflightPending, Preflight: true},
		{Guard: remediation.PreflightFailed, Blocks: true, Preflight: true},
	}}
	trace := NewTrace(&Facts{Name: "m", Decision: d})
	g.Expect(answers(trace.Guards)).To(HavePrefix("Paused passed, CheckDeleting passed, ClusterNotFound not applicable"))
	g.Expect(
		answers(trace.Preflight),
	).To(
		HavePrefix("Paused passed, PreflightPending passed, PreflightFailed blocks, Terminating not evaluated"),
	)
	// An action that ends a remediation is not planned by guards.
	d.Answers = d.Answers[2:]
	trace = NewTrace(&Facts{Name: "m", Decision: d})
	g.Expect(answers(trace.Guards)).To(HavePrefix("Paused not evaluated, CheckDeleting not evaluated"))
	g.Expect(answers(trace.Preflight)).To(HavePrefix("Paused passed, PreflightPending passed, PreflightFailed blocks"))
	g.Expect(trace.String()).To(ContainSubstring("preflight check"))
	d.Answers = nil
	trace = NewTrace(&Facts{Name: "m", Decision: d})
	g.Expect(trace.Preflight).To(BeEmpty())
	g.Expect(trace.State).To(Equal(Skipped), "an orphaned target has no health")
	g.Expect(trace.Verdict.Kind).To(Equal("NotSelected"))
}

func TestStateOf_Verdicts_AreDistinct(t *testing.T) {
	g := NewWithT(t)
	states := map[State]bool{}
	for kind, state := range map[health.Kind]State{
		health.Healthy: Healthy, health.Suspect: Suspect, health.Unhealthy: Unhealthy, health.Undetermined: Undetermined, health.Skipped: Skipped,
	} {
		v := &health.Verdict{Kind: kind}
		g.Expect(StateOf(v, &remediation.Decision{})).To(Equal(state))
		g.Expect(StateOf(v, &remediation.Decision{InFlight: true})).To(Equal(Remediating))
		states[state] = true
	}
	g.Expect(States()).To(HaveLen(len(states) + 1))
	g.Expect(testing.AllocsPerRun(100, func() { _ = StateOf(&health.Verdict{Kind: health.Healthy}, &remediation.Decision{}) })).To(BeZero())
}

func TestEvents_Transitions_AreReportedOnce(t *testing.T) {
	of := func(v *health.Verdict, d remediation.Decision) *Trace {
		trace := NewTrace(&Facts{Name: "m-1", Node: "n", Verdict: v, Decision: &d})
		return &trace
	}
	sick, well := met(health.NodeDeleted, health.Finding{}), &health.Verdict{Kind: health.Healthy}
	suspect := due(health.NodeDeleted, health.Finding{Since: noon, Due: noon})
	hold := func(reason remediation.Reason, inFlight bool) remediation.Decision {
		return remediation.Decision{Block: remediation.Block{Reason: reason, Details: remediation.Details{Count: 1, Max: 1}}, InFlight: inFlight}
	}
	none, wait := remediation.Decision{}, remediation.Decision{Action: remediation.Wait, Attempt: 1, InFlight: true}
	start := remediation.Decision{Action: remediation.StartRequest, Attempt: 1, InFlight: true}
	type row struct {
		why           string
		before, after *Trace
		events        []Event
	}
	reports := func(why string, before, after *Trace, events []Event) row {
		return row{why, before, after, events}
	}
	tests := []row{
		reports("becomes suspect", of(well, none), of(suspect, none), nil),
		reports("stays suspect", of(suspect, none), of(suspect, none), nil),
		reports("becomes unhealthy, starts", of(suspect, none), of(sick, start),
			[]Event{{"Warning", "NodeDeleted", EvaluateHealth, "m-1: Node n has been deleted"}}),
		reports("becomes unhealthy, blocked", of(well, none), of(sick, hold(remediation.MaxInFlight, false)),
			[]Event{{"Warning", "NodeDeleted", EvaluateHealth, "m-1: Node n has been deleted"}, {
				"Normal", "MaxInFlight", BlockRemediation, "m-1: Blocked: maxInFlight is reached (1 of 1); this target is queued",
			}}),
		reports("still blocked", of(sick, hold(remediation.MaxInFlight, false)), of(sick, hold(remediation.MaxInFlight, false)), nil),
		reports("blocked for another reason", of(sick, hold(remediation.MaxInFlight, false)), of(sick, hold(remediation.RequestFailed, false)),
			[]Event{{"Warning", "RequestFailed", BlockRemediation, "m-1: Blocked: Failed to create the request: the API server returned no cause"}}),
		reports("starts", of(sick, hold(remediation.MaxInFlight, false)),
			of(sick, remediation.Decision{Action: remediation.RequestOwnerRemediation, InFlight: true}), nil),
		reports("waits after the start", of(sick, start), of(sick, wait), nil),
		reports("recovers", of(sick, wait),
			of(well, remediation.Decision{Action: remediation.Withdraw, Why: remediation.Recovered, InFlight: true}),
			[]Event{{"Normal", "BecameHealthy", EvaluateHealth, "Machine m-1 became healthy"}}),
		reports("recovers from suspect", of(suspect, wait), of(well, wait),
			[]Event{{"Normal", "BecameHealthy", EvaluateHealth, "Machine m-1 became healthy"}}),
		reports("suspect recovers", of(suspect, none), of(well, none), nil),
		reports("ends and stays blocked", of(sick, wait),
			of(sick, remediation.Decision{Action: remediation.RemoveConditions, Why: remediation.ClusterNotFound}), nil),
		reports("state after a restart", nil, of(sick, hold(remediation.InStorm, false)), nil),
		reports("first observation", &Trace{}, of(sick, none),
			[]Event{{"Warning", "NodeDeleted", EvaluateHealth, "m-1: Node n has been deleted"}}),
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			var before *Past
			if test.before != nil {
				past := test.before.Past()
				before = &past
			}
			NewWithT(t).Expect(Events(before, test.after)).To(Equal(test.events))
		})
	}
}
