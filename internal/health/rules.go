// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// rule is one thing that can be wrong with a target. It appends what it has to say to the findings; it may not rely on any other rule
// or gate, and says nothing about a target that it does not apply to.
type rule struct {
	reason Reason
	speak  func(all []Finding, t *Target, c *ClusterFacts, p *Policy, now time.Time) []Finding
}

// rules all speak, in this order. The first that is met gives the verdict its reason.
var rules = [...]rule{
	{HasRemediateAnnotation, ruleHasRemediateAnnotation}, // a person asked for it
	{MachineFailed, ruleMachineFailed},                   // the Machine has given up
	{UnhealthyMachine, ruleUnhealthyMachine},             // a condition of the Machine has lasted too long
	{NodeDeleted, ruleNodeDeleted},                       // its Node was there and is gone
	{NodeStartupTimeout, ruleNodeStartupTimeout},         // its Node has not come
	{UnhealthyNode, ruleUnhealthyNode},                   // a condition of the Node has lasted too long
}
