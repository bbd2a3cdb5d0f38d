// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// The properties cover every guard, action, state and condition. The seeds are fixed, so the result depends only on the generators.
func TestProperties_FixedSeeds_ReachEveryReason(t *testing.T) {
	missing := reachable()
	passes := rapid.Custom(drawPass)
	seed := 0
	for ; len(missing) > 0 && seed < 10_000; seed++ {
		visit(passes.Example(seed), missing)
	}
	for name := range missing {
		t.Errorf("no drawn case reaches %q", name)
	}
	t.Logf("%d cases drawn", seed)
}

// visit removes what a reconcile has reached.
func visit(p *Evaluation, missing map[string]bool) {
	for _, c := range Status(p, nil, nil).Conditions {
		delete(missing, c.Type+" "+c.Reason)
	}
	for i := range p.Snapshot.Targets {
		trace := p.Trace(i)
		delete(missing, string(trace.State))
		delete(missing, trace.Decision.Action)
		delete(missing, trace.Verdict.Reason)
		for _, line := range with(trace.Guards, Blocks) {
			delete(missing, "blocks "+line.Name)
		}
		for _, line := range with(trace.Rules, Pending) {
			delete(missing, "due "+line.Name)
		}
	}
}

// reachable returns everything that can be reached.
func reachable() map[string]bool {
	wanted := map[string]bool{}
	for _, state := range States() {
		wanted[string(state)] = true
	}
	for action := remediation.None; action <= remediation.RemoveConditions; action++ {
		wanted[actions[action]] = true
	}
	for _, reason := range append(health.Gates(), health.Rules()...) {
		wanted[string(reason)] = true
	}
	for _, rule := range []health.Reason{health.UnhealthyMachine, health.NodeDeleted, health.NodeStartupTimeout, health.UnhealthyNode} {
		wanted["due "+string(rule)] = true
	}
	for _, guard := range remediation.Guards() {
		wanted["blocks "+string(guard)] = true
	}
	for _, word := range conditionReasons {
		// The condition Adopted does not depend on a reconcile of the check.
		wanted[word.Conditions[0]+" "+word.Name] = word.Conditions[0] != remedyv1.AdoptedCondition
	}
	// A check that no reconciler reconciles has no evaluation.
	delete(wanted, "Ready "+remedyv1.NotReconciledReason)
	// The API server rejects requests after the evaluation.
	delete(wanted, "Ready "+remedyv1.RequestFailedReason)
	maps.DeleteFunc(wanted, func(_ string, is bool) bool { return !is })
	// The reasons of templates are input: two of them stand for all.
	for _, reason := range []string{"TemplateInvalid", "KindNotServed", "WrongPlural", "WrongLocation"} {
		delete(wanted, "TemplatesResolved "+reason)
	}
	return wanted
}
