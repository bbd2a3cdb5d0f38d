// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// Policy is what makes a target unhealthy: the checks of either kind in one form.
type Policy struct {
	NodeConditions    []ConditionCheck
	MachineConditions []ConditionCheck
	// NodeStartupTimeout is how long a Machine's Node may take to join; 0 means as long as it likes.
	NodeStartupTimeout time.Duration
	// NodeGoneTimeout is how long a Node may be gone; 0 means that it counts at once.
	NodeGoneTimeout time.Duration
}

// ConditionCheck is a status of a condition that means trouble when it has lasted.
type ConditionCheck struct {
	Type, Status string
	Lasting      time.Duration
}
