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

// Reach: every guard has held a drawn target, every action was taken and every state seen, or the properties prove little.
func TestEveryWordIsReached(t *testing.T) {
	missing := reachable()
	// Up to many rounds, so that what is drawn seldom is not a matter of luck.
	for range 100 {
		rapid.Check(t, func(t *rapid.T) { visit(printed(drawPass(t)), missing) })
		if len(missing) == 0 {
			return
		}
	}
	for name := range missing {
		t.Errorf("no drawn case reaches %q", name)
	}
}

// visit strikes out what an output has reached.
func visit(out output, missing map[string]bool) {
	for _, c := range out.Status.Conditions {
		delete(missing, c.Type+" "+c.Reason)
	}
	for i := range out.Traces {
		trace := &out.Traces[i]
		delete(missing, string(trace.State))
		delete(missing, trace.Decision.Action)
		delete(missing, trace.Verdict.Reason)
		delete(missing, "held "+string(trace.Decision.HoldReason))
		for _, line := range with(trace.Rules, Due) {
			delete(missing, "due "+line.Name)
		}
	}
}

// reachable is everything that can be reached.
func reachable() map[string]bool {
	wanted := map[string]bool{}
	for _, state := range States() {
		wanted[string(state)] = true
	}
	for action := remediation.None; action <= remediation.Unmark; action++ {
		wanted[actionWords[action]] = true
	}
	for _, reason := range append(health.Gates(), health.Rules()...) {
		wanted[string(reason)] = true
	}
	for _, rule := range []health.Reason{health.UnhealthyMachine, health.NodeDeleted, health.NodeStartupTimeout, health.UnhealthyNode} {
		wanted["due "+string(rule)] = true
	}
	for _, guard := range remediation.Guards() {
		wanted["held "+string(guard)] = true
	}
	for _, word := range conditionWords {
		for _, of := range word.conditions {
			// Who takes care of a check of Cluster API is told before there is any pass.
			wanted[of+" "+word.reason] = of != remedyv1.TakenOverCondition
		}
	}
	maps.DeleteFunc(wanted, func(_ string, is bool) bool { return !is })
	// Which template is in trouble and how is input, and not worked out: two of the reasons stand for all.
	for _, reason := range []string{"TemplateInvalid", "KindNotServed", "WrongPlural", "WrongLocation"} {
		delete(wanted, "TemplatesResolved "+reason)
	}
	return wanted
}
