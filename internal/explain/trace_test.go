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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// waitingForItsTurn is a worker that is unhealthy, and held by the last guard.
func waitingForItsTurn() *Facts {
	v := met(health.UnhealthyNode, health.Finding{Condition: "Ready", Status: "Unknown", Cause: "NodeStatusUnknown", Since: ago(time.Hour), Due: ago(55 * time.Minute), Lasting: 5 * time.Minute})
	v.Findings = append(v.Findings, health.Finding{Rule: health.UnhealthyNode, Condition: "DiskPressure", Status: "True", Since: ago(time.Minute), Due: noon})
	d := &remediation.Decision{Step: remediation.StepID{Order: 2}}
	// The step hands it to its owner: these are about requests.
	foreigners := []remediation.Reason{
		remediation.TemplateNotResolved, remediation.NameTaken, remediation.LeaseTaken,
		remediation.ControlPlaneBusy, remediation.QuorumUnknown, remediation.SingleControlPlane, remediation.QuorumAtRisk,
	}
	saw := map[remediation.Reason]remediation.Seen{
		remediation.Leaving:            {Who: "taint a"},
		remediation.NoRemediatingOwner: {Who: "MachineSet/a"},
		remediation.TooManyUnhealthy:   {Who: "maxUnhealthy=40%", Have: 2, Most: 4},
		remediation.MaxInFlight:        {Have: 1, Most: 1},
	}
	for _, guard := range remediation.Guards() {
		if !slices.Contains(foreigners, guard) {
			d.Asked = append(d.Asked, remediation.Answer{Guard: guard, Held: guard == remediation.MaxInFlight, Seen: saw[guard]})
		}
	}
	d.Hold = remediation.Hold{Reason: remediation.MaxInFlight, Seen: saw[remediation.MaxInFlight]}
	return &Facts{Check: "MachineHealthCheck default/workers", Name: "m-1", Node: "n-1", Verdict: v, Decision: d}
}

const shown = `m-1, Node n-1, by MachineHealthCheck default/workers
  gates
    Paused                      passed
    SkipRemediation             passed
    HasRemediateAnnotation      passed
    MachineFailed               passed
    FirstLook                   passed
    ControlPlaneNotInitialized  passed
    InfrastructureNotReady      passed
  rules
    HasRemediateAnnotation      nothing
    MachineFailed               nothing
    UnhealthyMachine            nothing
    NodeDeleted                 nothing
    NodeStartupTimeout          nothing
    UnhealthyNode               met            Condition Ready on Node is reporting status Unknown with reason NodeStatusUnknown for more than 5m0s
    UnhealthyNode               due            Condition DiskPressure on Node is reporting status True since 2026-03-14T11:59:00Z and makes it unhealthy at 2026-03-14T12:00:00Z
  verdict                       Unhealthy      UnhealthyNode: Condition Ready on Node is reporting status Unknown with reason NodeStatusUnknown for more than 5m0s
  guards
    Paused                      passed
    CheckDeleting               passed
    ClusterNotFound             passed
    ClusterDeleting             passed
    CoveredByOther              passed
    StuckDeleting               passed
    Leaving                     passed         It is said to be leaving by taint a, and that took too long
    Excluded                    passed
    NoRemediatingOwner          passed         Its owner is MachineSet/a
    OwnerRefuses                passed
    PauseRequested              passed
    ClusterUnreachable          passed
    TooManyUnhealthy            passed         2 targets count as sick, and maxUnhealthy=40% allows 4 at the most
    TooFewUnhealthy             passed
    Storm                       passed
    AnnotationNotRemoved        passed
    EscalationExhausted         passed
    Backoff                     passed
    TemplateNotResolved         of no concern
    NameTaken                   of no concern
    LeaseTaken                  of no concern
    ControlPlaneBusy            of no concern
    QuorumUnknown               of no concern
    SingleControlPlane          of no concern
    QuorumAtRisk                of no concern
    MaxInFlight                 held           1 of 1 places for remediations are taken
    Observing                   not asked
  decision                      Held           MaxInFlight: 1 of 1 places for remediations are taken
`

func TestATraceCanBeRead(t *testing.T) {
	trace := NewTrace(waitingForItsTurn())
	NewWithT(t).Expect(trace.String()).To(Equal(shown))
}

// The names are an interface: a page and other programs read them.
func TestATraceAsJSON(t *testing.T) {
	g := NewWithT(t)
	trace := NewTrace(waitingForItsTurn())
	trace.Gates, trace.Rules, trace.Guards = trace.Gates[:1], trace.Rules[:1], trace.Guards[:1]
	said, err := json.Marshal(&trace)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(string(said)).To(MatchJSON(`{
		"check": "MachineHealthCheck default/workers", "target": "m-1", "node": "n-1", "state": "unhealthy",
		"gates": [{"name": "Paused", "answer": "passed"}], "rules": [{"name": "HasRemediateAnnotation", "answer": "nothing"}],
		"verdict": {
			"kind": "Unhealthy", "reason": "UnhealthyNode", "since": "2026-03-14T11:00:00Z",
			"message": "Condition Ready on Node is reporting status Unknown with reason NodeStatusUnknown for more than 5m0s"
		},
		"guards": [{"name": "Paused", "answer": "passed"}],
		"decision": {"outcome": "Held", "action": "None", "holdReason": "MaxInFlight", "step": 2, "message": "Held: 1 of 1 places for remediations are taken"}
	}`))
}

func TestWhatIsLogged(t *testing.T) {
	g := NewWithT(t)
	facts := waitingForItsTurn()
	trace := NewTrace(facts)
	g.Expect(trace.Fields()).To(Equal([]any{
		"check", "MachineHealthCheck default/workers", "target", "m-1", "verdict", "Unhealthy", "decision", "Held", "reason", "MaxInFlight", "step", "2",
	}))
	facts.Decision.Hold.Seen.Have = 7
	same := NewTrace(facts)
	g.Expect(same.Key()).To(Equal(trace.Key()), "a number is no new decision")
	facts.Decision = &remediation.Decision{Action: remediation.MakeRequest, Attempt: 1, InFlight: true}
	started := NewTrace(facts)
	g.Expect(started.Key()).To(Equal(Key{Verdict: "Unhealthy", Decision: "MakeRequest", Reason: "UnhealthyNode"}))
	facts.Decision = &remediation.Decision{Action: remediation.GiveUp, Why: remediation.StepFailed, InFlight: true}
	given := NewTrace(facts)
	g.Expect(given.Key()).To(Equal(Key{Verdict: "Unhealthy", Decision: "GiveUp", Reason: "StepFailed"}))
}

func answers(lines []Line) string {
	said := make([]string, 0, len(lines))
	for _, line := range lines {
		said = append(said, line.Name+" "+string(line.Answer))
	}
	return strings.Join(said, ", ")
}

func TestWhatGatesAndRulesSaid(t *testing.T) {
	d := &remediation.Decision{}
	tests := []struct {
		why     string
		verdict *health.Verdict
		cluster *health.ClusterFacts
		gate    string
		rules   Answer
	}{
		{"a closed gate ends it", &health.Verdict{Kind: health.Skipped, Reason: health.SkipRemediation}, nil, "Paused passed, SkipRemediation closed, HasRemediateAnnotation not asked", NotAsked},
		{"a person's wish goes past the gates", met(health.HasRemediateAnnotation, health.Finding{}), nil, "HasRemediateAnnotation let through, MachineFailed not asked", Met},
		{"so does a failure", met(health.MachineFailed, health.Finding{}), nil, "MachineFailed let through, FirstLook not asked", Nothing},
		{"what cannot be judged yet", unknown(health.InfrastructureNotReady), nil, "ControlPlaneNotInitialized passed, InfrastructureNotReady closed", NotAsked},
		{"healthy behind a closed gate", &health.Verdict{Kind: health.Healthy, Reason: health.InfrastructureNotReady}, nil, "InfrastructureNotReady closed", NotAsked},
		{"healthy by the rules", &health.Verdict{Kind: health.Healthy}, nil, "InfrastructureNotReady passed", Nothing},
		{"no rule can say anything", unknown(health.NodeUnreadable), nil, "InfrastructureNotReady passed", Nothing},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			trace := NewTrace(&Facts{Name: "m", Verdict: test.verdict, Decision: d, Cluster: test.cluster})
			g.Expect(answers(trace.Gates)).To(ContainSubstring(test.gate))
			g.Expect(trace.Rules[0].Answer).To(Equal(test.rules))
		})
	}
}

func TestALastLookIsToldApart(t *testing.T) {
	g := NewWithT(t)
	d := &remediation.Decision{Hold: remediation.Hold{Reason: remediation.NotConfirmed}, Asked: []remediation.Answer{
		{Guard: remediation.Paused}, {Guard: remediation.CheckDeleting}, {Guard: remediation.Paused, Again: true}, {Guard: remediation.NotConfirmed, Held: true, Again: true},
	}}
	trace := NewTrace(&Facts{Name: "m", Decision: d})
	g.Expect(answers(trace.Guards)).To(HavePrefix("Paused passed, CheckDeleting passed, ClusterNotFound of no concern"))
	g.Expect(answers(trace.LastLooks)).To(HavePrefix("Paused passed, NotConfirmed held, Leaving not asked"))
	// What ends something has no guards before it.
	d.Asked = d.Asked[2:]
	trace = NewTrace(&Facts{Name: "m", Decision: d})
	g.Expect(answers(trace.Guards)).To(HavePrefix("Paused not asked, CheckDeleting not asked"))
	g.Expect(answers(trace.LastLooks)).To(HavePrefix("Paused passed, NotConfirmed held"))
	g.Expect(trace.String()).To(ContainSubstring("last look"))
	d.Asked = nil
	trace = NewTrace(&Facts{Name: "m", Decision: d})
	g.Expect(trace.LastLooks).To(BeEmpty())
	g.Expect(trace.State).To(Equal(Skipped), "a stray has no health")
	g.Expect(trace.Verdict.Kind).To(Equal("NotLookedAfter"))
}

func TestTheStateOfATarget(t *testing.T) {
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
	g.Expect(BlockedBy(&remediation.Decision{Hold: remediation.Hold{Reason: remediation.InStorm}})).To(Equal("Storm"))
	g.Expect(testing.AllocsPerRun(100, func() { _ = StateOf(&health.Verdict{Kind: health.Healthy}, &remediation.Decision{}) })).To(BeZero())
}

func TestWhatHappened(t *testing.T) {
	of := func(v *health.Verdict, d remediation.Decision) *Trace {
		trace := NewTrace(&Facts{Name: "m-1", Node: "n", Verdict: v, Decision: &d})
		return &trace
	}
	sick, well := met(health.NodeDeleted, health.Finding{}), &health.Verdict{Kind: health.Healthy}
	suspect := due(health.NodeDeleted, health.Finding{Since: noon, Due: noon})
	hold := func(reason remediation.Reason, inFlight bool) remediation.Decision {
		return remediation.Decision{Hold: remediation.Hold{Reason: reason, Seen: remediation.Seen{Have: 1, Most: 1}}, InFlight: inFlight}
	}
	none, wait := remediation.Decision{}, remediation.Decision{Action: remediation.Wait, Attempt: 1, InFlight: true}
	start := remediation.Decision{Action: remediation.MakeRequest, Attempt: 1, InFlight: true}
	tests := []struct {
		why           string
		before, after *Trace
		events        []Event
	}{
		{"a suspect is no news", of(well, none), of(suspect, none), nil},
		{"a suspect that is held is none either", of(suspect, none), of(suspect, none), nil},
		{
			"it is unhealthy, and something is started", of(suspect, none), of(sick, start),
			[]Event{{"Warning", "NodeDeleted", "m-1: Node n has been deleted"}, {"Normal", "RemediationStarted", "m-1: Makes the request, attempt 1"}},
		},
		{
			"it is unhealthy, and has to wait", of(well, none), of(sick, hold(remediation.MaxInFlight, false)),
			[]Event{{"Warning", "NodeDeleted", "m-1: Node n has been deleted"}, {"Normal", "MaxInFlight", "m-1: Held: 1 of 1 places for remediations are taken"}},
		},
		{"it still waits", of(sick, hold(remediation.MaxInFlight, false)), of(sick, hold(remediation.MaxInFlight, false)), nil},
		{
			"it waits for something else", of(sick, hold(remediation.MaxInFlight, false)), of(sick, hold(remediation.RequestFailed, false)),
			[]Event{{"Warning", "RequestFailed", "m-1: Held: The API server refused the request: it does not say why"}},
		},
		{"its turn", of(sick, hold(remediation.MaxInFlight, false)), of(sick, remediation.Decision{Action: remediation.GiveMark, InFlight: true}), []Event{{"Normal", "RemediationStarted", "m-1: Asks its owner to remediate it"}}},
		{"started is started", of(sick, start), of(sick, wait), nil},
		{
			"a step is given up", of(sick, wait), of(sick, remediation.Decision{Action: remediation.GiveUp, Why: remediation.StepTimedOut, InFlight: true}),
			[]Event{{"Warning", "StepTimedOut", "m-1: Gives up the request, as it has taken too long"}},
		},
		{
			"it recovers", of(sick, wait), of(well, remediation.Decision{Action: remediation.Withdraw, Why: remediation.Recovered, InFlight: true}),
			[]Event{{"Normal", "BecameHealthy", "m-1: It is healthy again"}, {"Normal", "Recovered", "m-1: Withdraws the request, as it is healthy again"}},
		},
		{"it recovers by way of suspicion", of(suspect, wait), of(well, wait), []Event{{"Normal", "BecameHealthy", "m-1: It is healthy again"}}},
		{"nobody knew that it was ill", of(suspect, none), of(well, none), nil},
		{
			"a mark is cleared, which leaves it held", of(sick, wait), of(sick, remediation.Decision{Action: remediation.Unmark, Why: remediation.ClusterNotFound}),
			[]Event{{"Normal", "ClusterNotFound", "m-1: Clears what it wrote on the Machine, as the Cluster does not exist"}},
		},
		{"after a restart only acts are told", nil, of(sick, start), []Event{{"Normal", "RemediationStarted", "m-1: Makes the request, attempt 1"}}},
		{"and no states", nil, of(sick, hold(remediation.InStorm, false)), nil},
		{"what is new is told", &Trace{}, of(sick, none), []Event{{"Warning", "NodeDeleted", "m-1: Node n has been deleted"}}},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			NewWithT(t).Expect(Events(test.before, test.after)).To(Equal(test.events))
		})
	}
}

func TestWhatHappensToACheckIsTold(t *testing.T) {
	g := NewWithT(t)
	c := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "why"}
	}
	allowed, closed := c(remedyv1.RemediationAllowedCondition, metav1.ConditionTrue, "RemediationAllowed"), c(remedyv1.RemediationAllowedCondition, metav1.ConditionFalse, "TooManyUnhealthy")
	paused, free := c(remedyv1.PausedCondition, metav1.ConditionTrue, "Paused"), c(remedyv1.PausedCondition, metav1.ConditionFalse, "NotPaused")
	observes, again := c(remedyv1.RemediationAllowedCondition, metav1.ConditionFalse, "Observing"), c(remedyv1.ClusterReachableCondition, metav1.ConditionUnknown, "Reconnecting")
	ready := c(remedyv1.ReadyCondition, metav1.ConditionFalse, "NotReady")
	tell := func(before, after []metav1.Condition) []string {
		events := ConditionEvents(before, after)
		told := make([]string, 0, len(events))
		for _, e := range events {
			told = append(told, e.Type+" "+e.Reason+", "+e.Message)
		}
		return told
	}
	all := func(conditions ...metav1.Condition) []metav1.Condition { return conditions }
	g.Expect(tell(nil, all(allowed, free))).To(BeEmpty(), "a new check with nothing in its way")
	g.Expect(tell(nil, all(closed, ready))).To(Equal([]string{"Warning TooManyUnhealthy, RemediationAllowed is False: why"}), "and one with something, told once")
	g.Expect(tell(all(closed), all(closed))).To(BeEmpty(), "a state that lasts is no event")
	g.Expect(tell(all(closed), all(allowed))).To(Equal([]string{"Normal RemediationAllowed, RemediationAllowed is True: why"}))
	g.Expect(tell(all(free), all(paused))).To(Equal([]string{"Normal Paused, Paused is True: why"}))
	g.Expect(tell(all(allowed), all(c(remedyv1.RemediationAllowedCondition, metav1.ConditionFalse, "Paused")))).To(BeEmpty(), "its own condition says so")
	g.Expect(tell(all(paused), all(free))).To(Equal([]string{"Normal NotPaused, Paused is False: why"}))
	g.Expect(tell(nil, all(observes))).To(BeEmpty(), "it was asked to")
	g.Expect(tell(all(allowed), all(observes))).To(Equal([]string{"Normal Observing, RemediationAllowed is False: why"}))
	held := func(reason string) []metav1.Condition {
		return all(c(remedyv1.RemediationAllowedCondition, metav1.ConditionFalse, reason))
	}
	for _, row := range []struct {
		why           string
		before, after []metav1.Condition
		tells         string
	}{
		{"an end of a pause that finds trouble", held("Paused"), held("TooManyUnhealthy"), "Warning TooManyUnhealthy"},
		{"one trouble after another", held("ClusterUnreachable"), held("TooManyUnhealthy"), "Warning TooManyUnhealthy"},
		{"somebody takes the check back", held("WaitingForHandover"), held("Contested"), "Warning Contested"},
		{"a storm that abates is no news", held("TooManyUnhealthy"), held("Storm"), ""},
		{"and one that comes back is", held("Storm"), held("TooManyUnhealthy"), "Warning TooManyUnhealthy"},
		{"a pause is told by itself", held("TooManyUnhealthy"), held("Paused"), ""},
		{"a check may be deleted", all(allowed), held("CheckDeleting"), "Normal CheckDeleting"},
		{"whatever was in its way", held("TooManyUnhealthy"), held("CheckDeleting"), ""},
		{"and so may a Cluster", all(allowed), held("ClusterDeleting"), "Normal ClusterDeleting"},
		{"somebody asked for it", all(allowed), held("PauseRequested"), "Normal PauseRequested"},
		{"that there is no such Cluster is a fault", all(allowed), held("ClusterNotFound"), "Warning ClusterNotFound"},
		{"every cluster begins without a control plane", nil, all(c(remedyv1.ClusterReachableCondition, metav1.ConditionFalse, "ControlPlaneNotInitialized")), "Normal ControlPlaneNotInitialized"},
		{
			"it is reached, and cannot be read", all(c(remedyv1.ClusterReachableCondition, metav1.ConditionFalse, "ClusterUnreachable")),
			all(c(remedyv1.ClusterReachableCondition, metav1.ConditionFalse, "NodesUnreadable")), "Warning NodesUnreadable",
		},
		{
			"good for another reason", all(c(remedyv1.TemplatesResolvedCondition, metav1.ConditionTrue, "NoTemplates")),
			all(c(remedyv1.TemplatesResolvedCondition, metav1.ConditionTrue, "TemplatesResolved")), "",
		},
	} {
		g.Expect(strings.Join(tell(row.before, row.after), "; ")).To(HavePrefix(row.tells), row.why)
		g.Expect(tell(row.before, row.after)).To(HaveLen(len(strings.Fields(row.tells))/2), row.why)
	}
	g.Expect(tell(nil, all(again))).To(Equal([]string{"Normal Reconnecting, ClusterReachable is Unknown: why"}))
}
