// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remediation answers: what may we do about an unhealthy target, and what holds us back?
//
// It is pure, as package health is. Every unhealthy target leaves it as exactly one action or one hold with a reason;
// guards turn actions into holds and never the other way round.
//
//	watch ──▶ Snapshot ──▶ Evaluate ──▶ Plan ──▶ Apply ──▶ Report
//	                                    ~~~~
//	                                    here
package remediation
