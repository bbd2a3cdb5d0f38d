// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// rule is one cause for a target to be unhealthy. It appends to the findings, and does not depend on other rules or gates.
type rule struct {
	reason Reason
	find   func(all []Finding, t *Target, c *ClusterFacts, p *Policy, now time.Time) []Finding
}

// rules all run, in this order. The first that is met determines the reason of the verdict.
var rules = [...]rule{
	{HasRemediateAnnotation, ruleHasRemediateAnnotation}, // an annotation requests it
	{MachineFailed, ruleMachineFailed},                   // the Machine has failed
	{UnhealthyMachine, ruleUnhealthyMachine},             // a condition of the Machine has lasted too long
	{NodeDeleted, ruleNodeDeleted},                       // its Node no longer exists
	{NodeStartupTimeout, ruleNodeStartupTimeout},         // its Node has not joined
	{UnhealthyNode, ruleUnhealthyNode},                   // a condition of the Node has lasted too long
}

// Rules are the reasons of the rules, in order.
func Rules() []Reason {
	names := make([]Reason, len(rules))
	for i := range rules {
		names[i] = rules[i].reason
	}
	return names
}
