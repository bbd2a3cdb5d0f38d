//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// simulated are sabotages that the simulated world must see, each with the invariant that it breaks: not by what the controller remembers,
// but by what really happens.
var simulated = []struct {
	mutant
	invariant string
}{
	{r("plan.go", "plan.WakeUp, plan.ReleaseControlPlaneLease = plan.otherWakeUp, plan.leased\n", "plan.ReleaseControlPlaneLease = plan.leased\n\tdefer func() { plan.WakeUp = time.Time{} }()\n", inSim), "I[67] "},
	{r("limits.go", "return gate.Unhealthy > gate.Limit.Max", "return false", inSim), "the limit"},
	{r("limits.go", "return !storm.Since.IsZero()", "return false", inSim), "I4 not in a storm"},
	{r("escalation.go", "\twait := b.Initial\n", "\twait := 0 * b.Initial\n", inSim), "I9 the back-off"},
	{r("escalation.go", "Failures: attempt, NotBefore", "Failures: 1, NotBefore", inSim), "I9 the back-off"},
	{r("escalation.go", "history.Tried = request.Step\n", "", inSim), "I8 no step twice in an attempt"},
	{r("request.go", "case step.Timeout > 0 && !p.now.Before(ends):", "case false:", inSim), "I6 a step ends when its time is over"},
	{r("owner.go", "case !t.OwnerRemediation.RequestedByThis || !t.OwnerRemediation.Waiting:", "case true:", inSim), "an owner remediation without an actor is canceled"},
	{r("request.go", "case p.now.Before(over):", "case false:", inSim), "I9 the healthy delay"},
	{r("request.go", "case p.policy.RecoveryConfirmed:", "case false:", inSim), "a person has to confirm"},
	{r("guards_requests.go", "return p.now.Before(free), Block", "return false, Block", inSim), "no target that others remediate"},
	{r("guards_target.go", "return t.Excluded", "return false", inSim), "no excluded target"},
	{r("guards_preflight.go", "case result.Changed:", "case false:", inSim), ""},
	{r("plan.go", "t.Lease.HeldByThis || d.MarkedBy || ", "t.Lease.HeldByThis || ", inSim), "who leaves something cleans up"},
	{r("writes.go", "appendIf(writes, !d.NodeGoneSince.Equal(t.NodeGoneSince), WriteNodeGone)", "writes", inSim), "I6 no target is forgotten"},
	{mutantIn("internal/report", "memory.go", "r.started, r.read = target.Request.Started, true", "", inSim), "records are (true|complete)"},
	{mutantIn("internal/report", "memory.go", "case r.isOf(orphans[name], now):", "case false:", inSim), "records (of owners )?are true"},
	{mutantIn("internal/report", "memory.go", "ended = append(ended, *ends)", "_ = ends", inSim), "records are complete"},
	{mutantIn("internal/report", "memory.go", "return remediation.OwnerRefuses", "return explain.Withdrawn", inSim), "records of owners are true"},
	{mutantIn("internal/report", "memory.go", startOf, startOf+"\n\t\t\tstarted = append(started, started[len(started)-1])", inSim), "events are true"},
	{mutantIn("internal/report", "memory.go", "explain.Ended(name, r.step, r.byOwner, why)", "explain.Ended(name, r.step, r.byOwner, otherwise)", inSim), "events are true"},
	{mutantIn("internal/metrics", "labels.go", "return Replaced", "return Withdrawn", inSim), "counts are true"},
	{mutantIn("internal/metrics", "checks.go", "reason = d.BlockedReason()", "", inSim), "metrics are true"},
	{r("plan.go", "plan.Counts.Blocked, plan.Counts.Remediating, plan.Counts.InFlight = 0, 0, ", "plan.Counts.InFlight = ", inSim), "the status is true"},
	{r("decision.go", "v.Kind == health.Unhealthy && d.BlockedReason() != \"\" || ", "", inSim), "the status is true"},
	{r("plan.go", "p.wakeAt(p.s.Check.ReconnectingUntil)", "", inSim), "the status is true"},
	{r("preflight.go", "if !result.Late {", "if true {", inSim), "a Lease is kept from step to step"},
	{sequence("pipeline.go", "\t\tp.act(ctx)\n", "\t\tp.plan.Conclude(&p.assessment, p.now)\n"+reportNow+"\t\tp.act(ctx)\n", inSim), "(the status is|metrics are|events are|records are) true"},
	{sequence("act.go", "checks, err := p.preflight(ctx, targets)", planAsPreflight, inSim), ""},
	{sequence("act.go", "\tobstacle := p.confirmAndWrite(ctx, p.targetsWhere((*remediation.Decision).Ends))\n", endLast, inSim), "what ends comes before what starts"},
	{sequence("act.go", "\t\tp.announce(ctx)\n", "", inSim), "health is reported before an act"},
	{sequence("act.go", "if done > 0 && !fresh {", "if false {", inSim), "an act follows its preflight check"},
	{sequence("act.go", "if done > 0 || !fresh {", "if false {", inSim), "a pause is read before every act"},
}

const startOf = "started = append(started, StartedRemediation{name, r.byOwner, explain.Started(name, r.step, r.attempt, r.byOwner)})"

// Mutants of the sequence: it reports before it acts; it takes what was planned for what a preflight check has read; it ends last.
const (
	reportNow       = "\t\tp.unreported = append(p.unreported, p.c.Report(ctx, p.evaluation(&p.plan)))\n"
	planAsPreflight = "checks, err := make([]remediation.PreflightCheck, len(targets)), error(nil)\n" +
		"\t\tfor n, i := range targets {\n\t\t\tchecks[n] = remediation.PreflightCheck{Verdict: p.assessment.Verdicts[i], Target: p.facts.Situation.Targets[i], " +
		"LimitState: p.plan.LimitState, ControlPlane: p.facts.Situation.ControlPlane}\n\t\t}"
	endLast = "\tvar obstacle *remediation.PreflightCheck\n\tdefer func() { p.confirmAndWrite(ctx, p.targetsWhere((*remediation.Decision).Ends)) }()\n"
)

const inSim = "TestNoHistoryBreaksAnInvariant"

func TestTheSimulatedWorldSeesWhatIsWrong(t *testing.T) {
	module, err := filepath.Abs(root)
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	s := newSwitches(t, module)
	for i := range simulated {
		s.add(i+1, simulated[i].mutant)
	}
	NewWithT(t).Expect(t.Failed()).To(BeFalse())
	binary := filepath.Join(s.compile("fieldsv1string", "test/sim"), "sim.test")
	run := func(t *testing.T, number int) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, binary, "-test.run", "^"+inSim+"$")
		cmd.Dir, cmd.Env = module, append(os.Environ(), activeMutant+"="+strconv.Itoa(number), "SIM_STEPS=100000", "SIM_SEED=0")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	t.Run("without a mutant", func(t *testing.T) {
		t.Parallel()
		out, err := run(t, 0)
		NewWithT(t).Expect(err).ToNot(HaveOccurred(), "a test that fails without a mutant proves nothing: %s", out)
	})
	for i, m := range simulated {
		t.Run(filepath.Base(m.file)+": "+m.from+" becomes "+m.to, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			out, err := run(t, i+1)
			g.Expect(err).To(HaveOccurred(), "it survives %s", m.test)
			g.Expect(out).To(MatchRegexp("history [0-9]+ breaks " + m.invariant))
		})
	}
}
