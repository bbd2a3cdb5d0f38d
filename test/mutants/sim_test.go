//go:build proof

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// simulated are sabotages that the simulated world must see, each with the invariant that it breaks: not by what the controller remembers, but by
// what really happens.
var simulated = []struct {
	mutant
	invariant string
}{
	{r("plan.go", "plan.WakeUp, plan.ReleaseTurn = plan.rest, plan.turn\n", "plan.ReleaseTurn = plan.turn\n\tdefer func() { plan.WakeUp = time.Time{} }()\n", inSim), "I[67] "},
	{r("guard_too_many_unhealthy.go", "return gate.Sick > gate.Limit.Most", "return false", inSim), "the limit"},
	{r("guard_storm.go", "return storm.active()", "return false", inSim), "I4 not in a storm"},
	{r("backoff.go", "\twait := b.Initial\n", "\twait := 0 * b.Initial\n", inSim), "I9 the back-off"},
	{r("escalation.go", "Failures: attempt, NotBefore", "Failures: 1, NotBefore", inSim), "I9 the back-off"},
	{r("escalation.go", "ledger.Tried = request.Step\n", "", inSim), "I8 no step twice in an attempt"},
	{r("request.go", "case step.Timeout > 0 && !p.now.Before(ends):", "case false:", inSim), "I6 a step ends when its time is over"},
	{r("mark.go", "if !t.Mark.Ours || !t.Mark.Waiting {", "if true {", inSim), "a mark that nobody should act on is taken back"},
	{r("recovery.go", "case p.now.Before(over):", "case false:", inSim), "I9 the healthy delay"},
	{r("recovery.go", "case p.policy.RecoveryConfirmed:", "case false:", inSim), "a person has to confirm"},
	{r("guard_lease_taken.go", "return p.now.Before(t.Lease.Until), t", "return false, t", inSim), "nobody who is worked on by others"},
	{r("guard_excluded.go", "return t.Excluded", "return false", inSim), "nobody who is excluded"},
	{r("guard_not_confirmed.go", "case look.Changed:", "case false:", inSim), ""},
	{r("plan.go", "t.Lease.Ours || d.Author || ", "t.Lease.Ours || ", inSim), "who leaves something cleans up"},
	{r("writes.go", "appendIf(writes, !d.NodeGoneSince.Equal(t.NodeGoneSince), NoteNodeGone)", "writes", inSim), "I6 nobody is forgotten"},
}

const inSim = "TestNoHistoryBreaksAnInvariant"

func TestTheSimulatedWorldSeesWhatIsWrong(t *testing.T) {
	module, err := filepath.Abs(root)
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	out, err := simulate(t, module, nil)
	NewWithT(t).Expect(err).ToNot(HaveOccurred(), "a test that is red anyway proves nothing: %s", out)
	for _, s := range simulated {
		t.Run(filepath.Base(s.file)+": "+s.from+" becomes "+s.to, func(t *testing.T) {
			g := NewWithT(t)
			text, err := os.ReadFile(filepath.Join(module, s.file))
			g.Expect(err).ToNot(HaveOccurred())
			g.Expect(strings.Count(string(text), s.from)).To(Equal(1), "the code has changed: write this mutant anew")
			changed := filepath.Join(t.TempDir(), filepath.Base(s.file))
			g.Expect(os.WriteFile(changed, []byte(strings.Replace(string(text), s.from, s.to, 1)), 0o600)).To(Succeed())
			out, err := simulate(t, module, map[string]string{filepath.Join(module, s.file): changed})
			g.Expect(err).To(HaveOccurred(), "it survives %s", s.test)
			g.Expect(out).To(MatchRegexp("history [0-9]+ breaks " + s.invariant))
		})
	}
}

// simulate runs the simulated world on a core in which files are replaced by others.
func simulate(t *testing.T, module string, replaced map[string]string) (string, error) {
	t.Helper()
	g := NewWithT(t)
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	g.Expect(err).ToNot(HaveOccurred())
	dir := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)).To(Succeed())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", filepath.Join(dir, "overlay.json"), "-o", filepath.Join(dir, "sim.test"), "./test/sim")
	build.Dir = module
	out, err := build.CombinedOutput()
	g.Expect(err).ToNot(HaveOccurred(), "a mutant must compile, or it proves nothing: %s", out)
	run := exec.CommandContext(ctx, filepath.Join(dir, "sim.test"), "-test.run", "^"+inSim+"$")
	run.Dir = module
	run.Env = append(os.Environ(), "SIM_STEPS=100000", "SIM_SEED=0")
	out, err = run.CombinedOutput()
	return string(out), err
}
