// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// Policy is the health part of the spec of a check of any kind.
type Policy struct {
	NodeConditions    []ConditionCheck
	MachineConditions []ConditionCheck
	// NodeStartupTimeout is how long the Node of a Machine can take to join; 0 is no limit.
	NodeStartupTimeout time.Duration
	// NodeGoneTimeout is how long a Node can be missing; 0 is not at all.
	NodeGoneTimeout time.Duration
}

// ConditionCheck is an unhealthy status of a condition, and how long it must last.
type ConditionCheck struct {
	Type, Status string
	Lasting      time.Duration
}
